import BrokerAPI
import QRCodes
import Testing

@testable import grantctl

@Suite struct DeviceLoginTests {
  static let address = "https://login.example.com/device"
  static let complete = "https://login.example.com/device?user_code=WDJB-MJHT"

  static func started(_ members: [String: JSON] = [:]) -> JSON {
    var device: [String: JSON] = [
      "kind": "device", "user_code": "WDJB-MJHT", "verification_uri": .string(address),
      "verification_uri_complete": .string(complete), "expires_at": .integer(Recorder.now + 300), "interval": 5,
    ]
    device.merge(members) { $1 }
    return [
      "login_id": "L1", "account": "work", "expires_at": .integer(Recorder.now + 600),
      "destinations": [JSON(encoding: device)], "warnings": [],
    ]
  }

  private static func replies(_ start: JSON) -> [String: ScriptedBroker.Reply] {
    [
      "login.start": answer(start), "login.wait": answer(LoginTests.completed),
      "login.cancel": answer(["cancelled": true]),
    ]
  }

  @Test("addresses and code are lines of standard output, the words around them are not")
  func plainLines() async throws {
    try await ScriptedBroker.with(Self.replies(Self.started())) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google", "work", "--device"], recorder) == .success)
      #expect(broker.params(of: "login.start")?["destinations"] == ["device"])
      #expect(
        recorder.out == """
          \(Self.complete)
          \(Self.address)
          WDJB-MJHT
          Signed in to work as ada@example.com at google
          Get a token with: grantctl token work

          """)
      #expect(
        recorder.err == """
          This URL contains the code. The page must show the same code:

          To sign in at google, open this URL on any device:
          and enter this code:


          Waiting for you to sign in (5 min left; Ctrl-C cancels)

          """)
      #expect(recorder.launched.isEmpty)
    }
  }

  @Test("a terminal shows the code large, and a QR code of the address that has it")
  func onATerminal() async throws {
    try await ScriptedBroker.with(Self.replies(Self.started())) { broker, _ async throws in
      let recorder = Recorder()
      let environment = ["LANG": "C.UTF-8", "TERM": "xterm", "DISPLAY": ":0"]
      let status = try await broker.run(["login", "google", "--device"], recorder, environment: environment) {
        ($0.isOutTTY, $0.isErrTTY, $0.width, $0.screen) = (true, true, 80, .init(columns: 80, rows: 50))
      }
      #expect(status == .success && recorder.launched.isEmpty)
      let large = try #require(LargeText.lines("WDJB-MJHT", columns: 80)).map { "    \u{1B}[1m\($0)\u{1B}[0m\n" }
      let code = large.joined() + "\n    \u{1B}[1mWDJB-MJHT\u{1B}[0m\n"
      #expect(recorder.out.hasPrefix("\(Self.complete)\n\(Self.address)\n" + code))
      let symbol = try #require(QRCode(Self.complete)?.lines(margin: 4, colour: true))
      #expect(recorder.err.contains("Scan the URL with the code:\n\n" + symbol.joined(separator: "\n") + "\n"))
      // The line that says that we wait is drawn again and again.
      let lines = (recorder.out + recorder.err).split { $0 == "\n" || $0 == "\r" }
      #expect(lines.allSatisfy { SafeText.width(Self.plain($0)) <= 80 })
    }
  }

  @Test("a coloured QR code of a narrow terminal is not wrapped", arguments: ["auto", "always"])
  func narrow(wish: String) async throws {
    try await ScriptedBroker.with(Self.replies(Self.started())) { broker, _ async throws in
      let recorder = Recorder()
      let environment = ["LANG": "C.UTF-8", "TERM": "xterm"]
      let status = try await broker.run(
        ["login", "google", "--device", "--qr", wish], recorder, environment: environment
      ) {
        ($0.isOutTTY, $0.isErrTTY, $0.width, $0.screen) = (true, true, 40, .init(columns: 40, rows: 60))
      }
      #expect(status == .success)
      // 37 columns; with the escape sequences a line has 49 characters.
      let symbol = try #require(QRCode(Self.complete)?.lines(margin: 4, colour: true))
      #expect(symbol.allSatisfy { SafeText.width(Self.plain($0[...])) == 37 && SafeText.width($0) > 40 })
      #expect(recorder.err.contains("Scan the URL with the code:\n\n" + symbol.joined(separator: "\n") + "\n\n"))
    }
  }

  @Test("the escape sequences of a large code take no rows from the QR code") func rows() async throws {
    try await ScriptedBroker.with(Self.replies(Self.started())) { broker, _ async throws in
      let recorder = Recorder()
      let environment = ["LANG": "C.UTF-8", "TERM": "xterm"]
      // A large line has 57 columns. 19 rows of the symbol, 3 around it, 16 below it.
      let status = try await broker.run(["login", "google", "--device"], recorder, environment: environment) {
        ($0.isOutTTY, $0.isErrTTY, $0.width, $0.screen) = (true, true, 62, .init(columns: 62, rows: 38))
      }
      #expect(status == .success)
      let symbol = try #require(QRCode(Self.complete)?.lines(margin: 4, colour: true))
      #expect(recorder.err.contains(symbol.joined(separator: "\n")) && recorder.out.contains("█"))
    }
  }

  /// Without colours.
  private static func plain(_ line: Substring) -> String {
    ["\u{1B}[97;40m", "\u{1B}[0m", "\u{1B}[1m", "\u{1B}[K"].reduce(String(line)) { $0.replacing($1, with: "") }
  }

  @Test(
    "there is no QR code where none is wanted, nor one that cannot be drawn",
    arguments: [
      (["--qr", "never"], "C.UTF-8", 80, false), ([], "C", 80, false), ([], "C.UTF-8", 30, false),
      (["--qr", "auto"], "C.UTF-8", 80, true), (["--qr", "always"], "C", 30, true),
    ] as [([String], String, Int, Bool)])
  func qrWishes(options: [String], locale: String, columns: Int, isDrawn: Bool) async throws {
    try await ScriptedBroker.with(Self.replies(Self.started())) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(
        ["login", "google", "--device"] + options, recorder, environment: ["LANG": locale, "NO_COLOR": "1"]
      ) {
        ($0.isOutTTY, $0.isErrTTY, $0.screen) = (true, true, .init(columns: columns, rows: 50))
      }
      #expect(status == .success)
      #expect(recorder.err.contains("█") == isDrawn && recorder.err.contains("Scan the URL") == isDrawn)
      #expect(recorder.out.contains("    WDJB-MJHT\n") && recorder.out.contains("█") == (locale != "C"))
    }
  }

  @Test("a code that cannot be printed large has a frame", arguments: ["wdjb-mjht", "ABCDEFGHIJKLMN"])
  func framed(code: String) async throws {
    try await ScriptedBroker.with(Self.replies(Self.started(["user_code": .string(code)]))) { broker, _ async throws in
      let recorder = Recorder()
      let environment = ["LANG": "C.UTF-8", "NO_COLOR": "1"]
      let status = try await broker.run(["login", "google", "--device"], recorder, environment: environment) {
        ($0.isOutTTY, $0.width) = (true, 80)
      }
      let bar = String(repeating: "━", count: code.count + 4)
      #expect(status == .success)
      #expect(recorder.out.contains("    ┏\(bar)┓\n    ┃  \(code)  ┃\n    ┗\(bar)┛\n"))
    }
  }

  @Test("large letters are as they should be") func largeLetters() {
    let lines = LargeText.lines("B-0O1", columns: 30)
    #expect(
      lines == [
        "█▀▀▀▄       ▄▀▀▀▄ ▄▀▀▀▄  ▄█  ", "█▄▄▄▀ ▄▄▄▄▄ █ ▄▀█ █   █   █  ", "█   █       █▀  █ █   █   █  ",
        "▀▀▀▀         ▀▀▀   ▀▀▀   ▀▀▀ ",
      ])
    #expect(LargeText.lines("B-0O1", columns: 29) == nil && LargeText.lines("", columns: 80) == nil)
    let all = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-".map { LargeText.lines(String($0), columns: 6) ?? [] }
    #expect(Set(all).count == 37 && all.allSatisfy { $0.count == 4 && $0.allSatisfy { $0.count == 5 } })
  }

  @Test("without an address that has the code, the other is drawn") func withoutCompleteAddress() async throws {
    let start = Self.started(["verification_uri_complete": .null])
    try await ScriptedBroker.with(Self.replies(start)) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google", "--device", "--qr", "always"], recorder) == .success)
      let code = try #require(QRCode(Self.address)?.lines(margin: 4, colour: false))
      #expect(recorder.err.contains("Scan the URL:\n\n" + code.joined(separator: "\n")))
      #expect(!recorder.out.contains("?user_code"))
    }
  }

  @Test("with --json the result is all that goes to standard output") func json() async throws {
    try await ScriptedBroker.with(Self.replies(Self.started())) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google", "--device", "--json"], recorder) == .success)
      #expect(try JSON.parse(Array(recorder.out.utf8)) == LoginTests.completed)
      #expect(recorder.err.contains("WDJB-MJHT\n") && recorder.err.contains("\(Self.address)\n"))
    }
  }

  @Test("foreign codes and URLs cannot control the terminal, and only web URLs are accepted")
  func hostile() async throws {
    let start = Self.started([
      "user_code": "A\u{1B}[2JB", "verification_uri": "https://a/\u{202E}x",
      "verification_uri_complete": "file:///etc/x",
    ])
    try await ScriptedBroker.with(Self.replies(start)) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google", "--device", "--qr", "always"], recorder) == .success)
      #expect(recorder.out.hasPrefix("https://a/\\u{202E}x\nA\\u{1B}[2JB\nSigned in"))
      #expect(!(recorder.out + recorder.err).contains("\u{1B}"))
    }
    let none: [JSON] = [
      Self.started(["verification_uri": "javascript:alert(1)"]), Self.started(["user_code": ""]),
      Self.started(["verification_uri": .null]),
    ]
    for start in none {
      try await ScriptedBroker.with(Self.replies(start)) { broker, _ async throws in
        #expect(try await broker.run(["login", "google", "--device"], Recorder()) == .failure)
        #expect(broker.methods.contains("login.cancel"))
      }
    }
  }

  @Test("a provider without device sign-in is said, with what to do") func unsupported() async throws {
    let error = RPCError(.unsupportedByProvider, "google has no device sign-in", hint: "Use `grantctl login google`.")
    try await ScriptedBroker.with(["login.start": refuse(error)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google", "--device"], recorder) == .failure)
      #expect(recorder.err == "grantctl: google has no device sign-in\n  Use `grantctl login google`.\n")
    }
  }
}
