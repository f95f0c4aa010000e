import Testing

@testable import QRCodes
@testable import grantctl

// One after the other: they compute, and other suites wait for answers.
@Suite(.serialized) struct QRCodeTests {
  private static func text(_ count: Int) -> String {
    let url = Array("https://login.example.com/device?user_code=WDJB-MJHT&x=abcdefghijklmnopqrstuvwxyz0123456789")
    return String((0..<count).map { url[$0 % url.count] })
  }

  @Test("an independent reader decodes each version, with each correction and each mask", arguments: QRCode.versions)
  func eachVersion(version: Int) throws {
    for (index, correction) in QRCode.Correction.allCases.enumerated() {
      let capacity = QRCode.capacity(version, correction)
      for mask in 0..<8 where (mask + version + index) % 2 == 0 {
        let text = Self.text([capacity, capacity - 1, capacity - 2, 1, 0][(mask + version) / 2 % 5])
        let code = QRCode(Array(text.utf8), version: version, correction: correction, mask: mask)
        let read = try QRReader(code)
        #expect(read.text == text && read.correction == correction && read.mask == mask)
      }
    }
  }

  @Test("a symbol of version 1 equals the one of other encoders") func version1() {
    let code = QRCode(Array("https://a.example".utf8), version: 1, correction: .low, mask: 3)
    let drawn = (0..<code.size).map { y in (0..<code.size).map { code.isDark($0, y) ? "#" : "." }.joined() }
    #expect(
      drawn.joined(separator: "\n") == """
        #######.#.#...#######
        #.....#.......#.....#
        #.###.#.###...#.###.#
        #.###.#.###.#.#.###.#
        #.###.#.##..#.#.###.#
        #.....#..###..#.....#
        #######.#.#.#.#######
        .....................
        ####..#.#.####..###.#
        ...###.#.##..########
        ####.###..#..#...#.##
        ..###....#.#...#.#.#.
        #.##.###..#.#.#.##..#
        ........#..##.#.#....
        #######....#....#....
        #.....#...#.#..#####.
        #.###.#....##...#.#.#
        #.###.#.#.###.##.....
        #.###.#.#####.##..#..
        #.....#.#.#..####...#
        #######.#..#.##.###..
        """)
  }

  @Test("a symbol of version 7, with its version bits and four blocks, equals the one of other encoders")
  func version7() {
    let rows: [UInt64] = [
      0x1fc7bc22617f, 0x105f05733241, 0x1759ef62e25d, 0x175d466f5b5d, 0x1740bff3ef5d, 0x104a59194041, 0x1fd55555557f,
      0x15431d4e00, 0x105b99f0fbce, 0x1db2577d4d6e, 0xc4f7e16ffee, 0x159750348d84, 0x12f9457c9242, 0x40e40d9bb98,
      0x4ecd4e96ed3, 0xca4de87c9b8, 0x167525aacc67, 0xda17ff2dfe6, 0x1945f1770cf7, 0x531703c0216, 0x13f86bf433fc,
      0x1711b51bc51c, 0x175795517156, 0x3133d1bad1f, 0xffedff5b1f3, 0x9323f52a9a9, 0x11df10854d1a, 0xa3f0cff7cdd,
      0x19ebd4a2eb5a, 0x732a5926a66, 0x1cdb093f49f7, 0xe9ce76c1246, 0x8fcdf45600c, 0xcbf7968f619, 0x178c5b11383,
      0xf3394906f89, 0x1358ebf5bbfc, 0x1469126f1d, 0x1fcc01590b56, 0x10445f185f1f, 0x1745e3f4f7f9, 0x1744113a590f,
      0x1745047b4847, 0x104d29dcb81c, 0x1fdefe65029a,
    ]
    let text = "https://login.example.com/device?user_code=WDJB-MJHT"
    let code = QRCode(Array(text.utf8), version: 7, correction: .medium, mask: 5)
    let drawn = (0..<code.size).map { y in (0..<code.size).reduce(UInt64(0)) { $0 << 1 | (code.isDark($1, y) ? 1 : 0) }
    }
    #expect(drawn == rows)
  }

  @Test("the error correction of a block is the standard's") func errorCorrection() {
    let block: [UInt8] = [32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17]
    #expect(ReedSolomon(length: 10).correction(of: block) == [196, 35, 39, 119, 235, 215, 231, 226, 93, 23])
  }

  @Test("the smallest version is taken, and the stronger correction where it costs nothing")
  func smallest() throws {
    // Bytes, version, correction (table 7).
    let table: [(Int, Int, QRCode.Correction)] = [
      (0, 1, .medium), (14, 1, .medium), (15, 1, .low), (17, 1, .low), (18, 2, .medium), (26, 2, .medium),
      (27, 2, .low), (32, 2, .low), (33, 3, .medium), (53, 3, .low), (54, 4, .medium), (78, 4, .low),
      (180, 8, .low), (192, 8, .low), (193, 9, .low), (230, 9, .low), (231, 10, .low), (271, 10, .low), (425, 13, .low),
    ]
    for (count, version, correction) in table {
      let code = try #require(QRCode(Self.text(count)))
      #expect(code.version == version && code.correction == correction, "\(count) bytes")
      #expect(try QRReader(code).text == Self.text(count))
    }
    #expect(QRCode(Self.text(426)) == nil)
    #expect(try QRReader(#require(QRCode("https://münchen.example/東"))).text == "https://münchen.example/東")
  }

  @Test("of the masks the one with the least penalty is taken", arguments: [5, 30, 70])
  func leastPenalty(count: Int) throws {
    let bytes = Array(Self.text(count).utf8)
    let best = try #require(QRCode(Self.text(count)))
    let penalties = (0..<8).map { mask in
      Self.penalty(QRCode(bytes, version: best.version, correction: best.correction, mask: mask))
    }
    #expect(penalties[best.mask] == penalties.min())
    #expect(Set(penalties).count > 1)
  }

  /// Table 11 by texts.
  private static func penalty(_ code: QRCode) -> Int {
    let all = 0..<code.size
    let rows = all.map { y in all.map { code.isDark($0, y) ? "#" : "." }.joined() }
    let columns = all.map { x in all.map { code.isDark(x, $0) ? "#" : "." }.joined() }
    var penalty = 0
    for line in rows + columns {
      for run in line.split(separator: "#") + line.split(separator: ".") where run.count >= 5 {
        penalty += run.count - 2
      }
      for start in line.indices {
        let part = line[start...]
        if part.hasPrefix("#.###.#....") || part.hasPrefix("....#.###.#") { penalty += 40 }
      }
    }
    for y in all.dropLast() {
      for x in all.dropLast() {
        let four = [code.isDark(x, y), code.isDark(x + 1, y), code.isDark(x, y + 1), code.isDark(x + 1, y + 1)]
        if Set(four).count == 1 { penalty += 3 }
      }
    }
    let dark = rows.joined().count { $0 == "#" }
    let percent = Double(dark) * 100 / Double(code.size * code.size)
    return penalty + Int(abs(percent - 50) / 5) * 10
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
