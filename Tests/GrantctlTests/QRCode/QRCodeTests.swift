import Testing

@testable import QRCodes
@testable import grantctl

// One after the other: they compute, and other suites wait for answers.
@Suite(.serialized) struct QRCodeTests {
  private static func text(_ count: Int) -> String {
    let url = Array("https://login.example.com/device?user_code=WDJB-MJHT&x=abcdefghijklmnopqrstuvwxyz0123456789")
    return String((0..<count).map { url[$0 % url.count] })
  }

  @Test("an independent reader decodes the smallest version, with the stronger correction where it costs nothing")
  func smallest() throws {
    // Bytes, version, correction (table 7).
    let table: [(Int, Int, QRCode.Correction)] = [
      (1, 1, .medium), (14, 1, .medium), (15, 1, .low), (17, 1, .low), (18, 2, .medium), (26, 2, .medium),
      (27, 2, .low), (32, 2, .low), (33, 3, .medium), (53, 3, .low), (54, 4, .medium), (78, 4, .low),
      (180, 8, .low), (192, 8, .low), (193, 9, .low), (230, 9, .low), (231, 10, .low), (271, 10, .low), (425, 13, .low),
    ]
    for (count, version, correction) in table {
      let code = try #require(QRCode(Self.text(count)))
      #expect(code.version == version && code.correction == correction, "\(count) bytes")
      #expect(try QRReader(code).text == Self.text(count))
    }
    #expect(QRCode(Self.text(426)) == nil && QRCode(Self.text(4000)) == nil && QRCode("") == nil)
    #expect(try QRReader(#require(QRCode("https://münchen.example/東"))).text == "https://münchen.example/東")
  }

  @Test("the terminal shows the symbol with light around it", arguments: [4, 2])
  func drawn(margin: Int) throws {
    let code = try #require(QRCode("https://login.example.com/device?user_code=WDJB-MJHT"))
    let lines = code.lines(margin: margin, colour: false)
    let width = code.size + 2 * margin
    #expect(lines.allSatisfy { $0.count == width && SafeText.width($0) == width } && lines.count == (width + 1) / 2)
    let modules = lines.flatMap { line in
      [line.map { $0 == " " || $0 == "▄" }, line.map { $0 == " " || $0 == "▀" }]
    }
    let read = try QRReader(size: code.size) { modules[$1 + margin][$0 + margin] }
    #expect(read.text == "https://login.example.com/device?user_code=WDJB-MJHT")
    for y in modules.indices {
      for x in 0..<width {
        let isInside = (margin..<margin + code.size).contains(x) && (margin..<margin + code.size).contains(y)
        if !isInside { #expect(!modules[y][x]) }
      }
    }
    let coloured = code.lines(margin: margin, colour: true)
    #expect(coloured == lines.map { "\u{1B}[97;40m\($0)\u{1B}[0m" })
  }

  @Test("a symbol is drawn if it fits, or on request") func whereItIsDrawn() {
    typealias Row = (QRWish, Terminal.Screen?, [String: String], Int?)
    // 33 modules: 41 columns and 21 lines with the whole margin, 37 and 19 with less.
    let text = Self.text(60)
    let unicode = ["LANG": "C.UTF-8", "TERM": "xterm"]
    let table: [Row] = [
      (.auto, .init(columns: 80, rows: 24), unicode, 21), (.auto, .init(columns: 41, rows: 24), unicode, 21),
      (.auto, .init(columns: 40, rows: 24), unicode, 19), (.auto, .init(columns: 80, rows: 22), unicode, 19),
      (.auto, .init(columns: 36, rows: 24), unicode, nil), (.auto, .init(columns: 80, rows: 20), unicode, nil),
      (.auto, nil, unicode, nil), (.auto, .init(columns: 80, rows: 24), [:], nil),
      (.auto, .init(columns: 80, rows: 24), ["LANG": "C"], nil),
      (.auto, .init(columns: 80, rows: 24), ["LANG": "de_DE.utf8"], 21),
      (.auto, .init(columns: 80, rows: 24), ["LC_ALL": "C", "LANG": "C.UTF-8"], nil),
      (.auto, .init(columns: 80, rows: 24), ["LANG": "C.UTF-8", "TERM": "dumb"], nil),
      (.never, .init(columns: 80, rows: 24), unicode, nil), (.always, nil, [:], 21),
      (.always, .init(columns: 10, rows: 5), unicode, 21),
    ]
    for (wish, screen, environment, count) in table {
      var terminal = Recorder().terminal(environment: environment)
      terminal.screen = screen
      terminal.isErrTTY = screen != nil
      #expect(
        QRCode.lines(for: text, wish, on: terminal, below: 0)?.count == count, "\(wish) \(String(describing: screen))")
    }
    #expect(QRCode.lines(for: Self.text(426), .always, on: Recorder().terminal(), below: 0) == nil)
  }
}
