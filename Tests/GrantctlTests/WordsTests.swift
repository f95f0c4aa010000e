import ArgumentParser
import BlockingClient
import BrokerAPI
import BrokerSocket
import CredentialHelpers
import PlainText
import Testing
import UnixSocket

@testable import grantctl

@Suite struct WordsTests {
  @Test(
    "each reason has its exit status",
    arguments: [
      (ErrorReason.unknownAccount, 7), (.unknownProvider, 7), (.unknownLogin, 7), (.notPermitted, 4),
      (.loginRequired, 3), (.loginDenied, 8), (.loginCancelled, 8), (.loginExpired, 8), (.loginInProgress, 1),
      (.invalidCallback, 1), (.temporarilyUnavailable, 5), (.timedOut, 5), (.providerMisconfigured, 78),
      (.providerError, 1), (.scopeNotGranted, 1), (.unsupportedByProvider, 1), (.registrationRejected, 1),
      (.rateLimited, 5), (.overloaded, 5), (.storeFailure, 5), (.shuttingDown, 5), (.invalidConfiguration, 78),
    ] as [(ErrorReason, Int32)])
  func eachReasonHasItsExitStatus(reason: ErrorReason, status: Int32) {
    #expect(ExitStatus(SocketClientError.rpc(RPCError(reason, "x"))).rawValue == status)
  }

  @Test("each failure of the connection has its exit status") func eachFailureOfTheConnectionHasIts() {
    let table: [(SocketClientError, ExitStatus)] = [
      (.notRunning("/s"), .notRunning), (.permissionDenied("/s"), .notPermitted), (.disconnected, .notRunning),
      (.timedOut, .temporarilyUnavailable), (.malformed("x"), .failure), (.rpc(.invalidParams("x")), .usage),
      (.rpc(.methodNotFound("x", nearest: nil)), .failure),
    ]
    for (error, status) in table { #expect(ExitStatus(error) == status) }
  }

  @Test(
    "durations are said as people say them",
    arguments: [
      (0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (5400, "1 h 30 min"), (7200, "2 h"),
      (36_000, "10 h"), (40_000, "11 h"), (172_799, "47 h"), (172_800, "2 days"), (-5, "0 s"),
    ] as [(Int64, String)])
  func durationsAreSaidAsPeopleSayThem(seconds: Int64, text: String) {
    #expect(TimeText.duration(seconds) == text)
  }

  @Test("times are said from now") func timesAreSaidFromNow() {
    #expect(TimeText.expiry(1100, now: 1000) == "1 min")
    #expect(TimeText.expiry(820, now: 1000) == "expired 3 min ago")
    #expect(TimeText.expiry(nil, now: 1000) == "-")
    #expect(TimeText.until(8200, now: 1000) == "in 2 h")
    #expect(TimeText.until(1000, now: 1000) == "now")
    #expect(TimeText.date(1_767_225_600, in: .utc) == "2026-01-01 00:00:00")
    #expect(TimeText.date(1_767_225_600, in: .ahead(5400)) == "2026-01-01 01:30:00")
  }

  @Test("this machine's time zone goes there and back, summer and winter")
  func localTime() {
    for moment: Int64 in [1_767_225_600, 1_782_864_000, 0] {
      var parts = LocalTime.ofProcess.parts(of: moment)
      #expect(LocalTime.ofProcess.moment(&parts) == moment)
    }
  }

  @Test("white space on either side of a text is removed", arguments: [" a b\t", "\u{A0}a b\r\n", "a b"])
  func trimming(text: String) {
    #expect(text.trimmed == "a b" && " \n".trimmed.isEmpty && "".trimmed.isEmpty)
  }

  @Test(
    "foreign text cannot control the terminal",
    arguments: [
      ("plain – ünïcode 東", "plain – ünïcode 東"), ("a\u{1B}[31mb", "a\\u{1B}[31mb"), ("a\nb\tc\r", "a\\nb\\tc\\r"),
      ("a\u{202E}b", "a\\u{202E}b"), ("\u{9B}2J\u{7F}", "\\u{9B}2J\\u{7F}"),
      ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
      ("a\u{2028}b\u{FEFF}", "a\\u{2028}b\\u{FEFF}"),
    ])
  func noTextOfOthersCanSteerThe(text: String, escaped: String) {
    #expect(SafeText.line(text) == escaped)
  }

  @Test("JSON for terminals is the same JSON") func jsonForTerminalsIsTheSameJSON() throws {
    let json: JSON = ["a": "x\u{202E}y\u{9B}z\u{E0001}"]
    let text = Shell.line(json)
    #expect(text == #"{"a":"x\u202Ey\u009Bz\uDB40\uDC01"}"#)
    #expect(try JSON.parse(Array(text.utf8)) == json)
  }

  @Test(
    "a browser opens only if one exists",
    arguments: [
      ([:], []), (["DISPLAY": ":0"], [["/usr/bin/xdg-open", "https://a/?b"]]),
      (["WAYLAND_DISPLAY": "w"], [["/usr/bin/xdg-open", "https://a/?b"]]), (["DISPLAY": ""], []),
      (["BROWSER": "w3m"], [["/usr/bin/w3m", "https://a/?b"]]),
      (
        ["BROWSER": "missing:ff --new %s -x:/opt/b", "DISPLAY": ":0"],
        [
          ["/usr/bin/ff", "--new", "https://a/?b", "-x"], ["/opt/b", "https://a/?b"],
          ["/usr/bin/xdg-open", "https://a/?b"],
        ]
      ), (["BROWSER": "missing"], []),
    ] as [([String: String], [[String]])])
  func aBrowserOpensOnlyWhereThereIs(environment: [String: String], commands: [[String]]) {
    let recorder = Recorder()
    recorder.absent = ["missing"]
    #expect(Browser.commands(for: "https://a/?b", on: recorder.terminal(environment: environment)) == commands)
  }

  @Test(
    "programs of $BROWSER are named if none of them exists",
    arguments: [
      ("missing", "The program missing of $BROWSER was not found.\n"),
      ("missing --new %s:none", "The programs missing, none of $BROWSER were not found.\n"),
      ("missing:ff", ""), ("", ""), (":", ""),
    ])
  func absentBrowser(list: String, note: String) async {
    for hasDisplay in [true, false] {
      let recorder = Recorder()
      recorder.absent = ["missing", "none"]
      let environment = ["BROWSER": list, "DISPLAY": hasDisplay ? ":0" : ""]
      let shell = Shell(terminal: recorder.terminal(environment: environment), settings: .init())
      let isOpen = await shell.openBrowser("https://a/?b", to: "sign in")
      #expect(isOpen == (hasDisplay || list == "missing:ff") && recorder.launched.isEmpty == !isOpen)
      #expect(recorder.err.hasPrefix(note + (isOpen ? "Your browser opens to sign in." : "")))
      #expect(recorder.err.contains("$BROWSER") == !note.isEmpty)
    }
  }

  @Test(
    "only web URLs are opened", arguments: ["file:///etc/passwd", "javascript:alert(1)", "--help", ""])
  func whatIsNoWebAddressIsNever(url: String) {
    #expect(Browser.commands(for: url, on: Recorder().terminal(environment: ["DISPLAY": ":0"])).isEmpty)
  }

  @Test("a path that was named is the caller's choice, also a usual one") func namedPath() {
    let environment = ["XDG_RUNTIME_DIR": "/r"]
    for path in ["/a", "/r/grantd/grantd.sock", SocketChoice.systemPath] {
      let named = environment.merging(["GRANTD_SOCKET": path]) { $1 }
      #expect(SocketChoice(.init(socket: path), environment: environment, uid: 7) { _ in true }.isNamed)
      #expect(SocketChoice(.init(), environment: named, uid: 7) { _ in true }.isNamed)
    }
    for wish in [SocketChoice.Wish(), .init(isSystem: true), .init(isUser: true)] {
      #expect(!SocketChoice(wish, environment: environment, uid: 7) { _ in true }.isNamed)
    }
  }

  @Test("a command asks the user's own broker and the system's, unless one is named") func eachBroker() {
    let (user, system) = ("/r/grantd/grantd.sock", "/run/grantd/grantd.sock")
    let table: [(SocketChoice.Wish, [String: String], Bool, [String])] = [
      (.init(), [:], true, [user, system]), (.init(), [:], false, [system]), (.init(isUser: true), [:], true, [user]),
      (.init(isSystem: true), [:], true, [system]), (.init(socket: "/a"), [:], true, ["/a"]),
      (.init(), ["GRANTD_SOCKET": "/b"], true, ["/b"]), (.init(), ["GRANTD_SOCKET": ""], true, [user, system]),
    ]
    for (wish, environment, exists, paths) in table {
      let environment = environment.merging(["XDG_RUNTIME_DIR": "/r"]) { old, _ in old }
      let choices = SocketChoice.all(wish, environment: environment, uid: 7) { $0 == user && exists }
      #expect(choices.map(\.path) == paths)
    }
  }

  @Test("the socket is the first that was named, else the user's, else the system's") func theSocketIsTheFirstThatWas()
  {
    let user = "/r/grantd/grantd.sock"
    let system = "/run/grantd/grantd.sock"
    let table: [(SocketChoice.Wish, [String: String], Bool, String)] = [
      (.init(socket: "/a"), ["GRANTD_SOCKET": "/b"], true, "/a"), (.init(), ["GRANTD_SOCKET": "/b"], true, "/b"),
      (.init(isSystem: true), ["GRANTD_SOCKET": "/b"], true, system), (.init(isSystem: true), [:], true, system),
      (.init(isUser: true), [:], false, user), (.init(), [:], true, user), (.init(), [:], false, system),
      (.init(), ["GRANTD_SOCKET": ""], false, system),
    ]
    for (wish, environment, exists, path) in table {
      let environment = environment.merging(["XDG_RUNTIME_DIR": "/r"]) { old, _ in old }
      #expect(SocketChoice(wish, environment: environment, uid: 7, exists: { $0 == user && exists }).path == path)
    }
    #expect(
      SocketChoice(.init(isUser: true), environment: [:], uid: 7) { _ in false }.path
        == "/run/user/7/grantd/grantd.sock")
  }

  @Test("without a broker, each path and the command that starts it are named") func notRunningHints() {
    let failure = SocketChoice(.init(), environment: ["XDG_RUNTIME_DIR": "/r"], uid: 7) { _ in false }.notRunning(
      .init())
    #expect(failure.status == .notRunning)
    #expect(
      failure.message
        == "grantd is not running: no broker answers at /r/grantd/grantd.sock or /run/grantd/grantd.sock")
    #expect(
      failure.hints == [
        "Start it with `systemctl --user start grantd.socket` or `sudo systemctl start grantd.socket`.",
        "If that does not help: `systemctl --user status grantd`, `systemctl status grantd`, `grantctl doctor`.",
      ])
    let bare = ServiceManagers(environment: ["XDG_RUNTIME_DIR": "/r"], uid: 7) { _ in false }
    #expect(bare == ServiceManagers(system: false, user: false))
    let choice = SocketChoice(.init(), environment: [:], uid: 7) { _ in false }
    #expect(
      choice.notRunning(bare).hints == ["Start it with `grantd --user`.", "If that does not help: `grantctl doctor`."])
    let system = SocketChoice(.init(isSystem: true), environment: [:], uid: 7) { _ in false }
    #expect(system.notRunning(bare).hints.first == "Start it with `sudo grantd --system`.")
    let booted = ServiceManagers(environment: ["XDG_RUNTIME_DIR": "/r"], uid: 7) { $0 != "/r/systemd/private" }
    #expect(
      choice.notRunning(booted).hints.first == "Start it with `grantd --user` or `sudo systemctl start grantd.socket`.")
  }

  @Test("errors of parameters are printed without the terms of JSON-RPC") func parameterErrors() {
    let table: [(RPCError, String)] = [
      (.invalidParams("params.account: \"we ird\" is not a name"), "account: \"we ird\" is not a name"),
      (.invalidParams("the passphrase is too short"), "the passphrase is too short"),
      (.invalidParams(""), "invalid params: "), (.invalidRequest("x"), "invalid request: x"),
      (RPCError(.unknownAccount, "invalid params: x"), "invalid params: x"),
    ]
    for (error, message) in table {
      #expect(Failure(error).message == message && Failure(error).json == ["error": error.json])
    }
  }

  @Test("a mistyped command is compared with all that exist") func nearestCommand() {
    #expect(UsageHints.nearest(["tokn", "work"]) == "grantctl token")
    #expect(UsageHints.nearest(["key", "rotaet"]) == "grantctl key rotate")
    #expect(UsageHints.nearest(["token", "work"]) == nil && UsageHints.nearest(["frobnicate"]) == nil)
    #expect(UsageHints.nearest([]) == nil && UsageHints.near("", ["a", "b"]) == nil)
  }

  @Test(
    "a command that does not exist is named, at the top and in a group",
    arguments: [
      (["tokne", "work"], "grantctl has no command “tokne”\n  Did you mean `grantctl token`?\nUsage: "),
      (["frobnicate"], "grantctl has no command “frobnicate”\nUsage: "),
      (["tokne", "--min-ttl", "3"], "grantctl has no command “tokne”\n  Did you mean `grantctl token`?\nUsage: "),
      (["key", "rotaet"], "grantctl key has no command “rotaet”\n  Did you mean `grantctl key rotate`?\nUsage: "),
      (["to\u{1B}ken"], "grantctl has no command “to\\u{1B}ken”\n"),
      (["token", "work", "more"], "Unexpected argument 'more'\nUsage: "),
    ] as [([String], String)])
  func unknownCommand(arguments: [String], text: String) async throws {
    let error = try #require(throws: (any Error).self) { try Grantctl.parseAsRoot(arguments) }
    let shown = await UsageHints.text(error, arguments, Recorder().terminal())
    #expect(shown.hasPrefix("Error: \(text)"), "\(shown)")
  }

  @Test("configure without a tool lists the tools", arguments: [80, 40]) func missingTool(columns: Int) async throws {
    let error = try #require(throws: (any Error).self) { try Grantctl.parseAsRoot(["configure"]) }
    var terminal = Recorder().terminal()
    terminal.screen = .init(columns: columns, rows: 24)
    let shown = await UsageHints.text(error, ["configure"], terminal)
    let lines = shown.split(separator: "\n").map(String.init)
    #expect(lines.first == "Error: Missing expected argument '<tool>'")
    let hints = lines.dropFirst().prefix { $0.hasPrefix("  ") }
    let words = hints.joined(separator: " ").split { $0 == " " || $0 == "," }.map(String.init)
    #expect(words.first == "Tools:" && Array(words.dropFirst()) == Tool.names)
    for line in hints { #expect(SafeText.width(line) <= columns, "\(line)") }
  }

  @Test(
    "a named socket without a broker is named again, except a unit's",
    arguments: [
      (
        .init(socket: "/a"), [:], "The path is from --socket: is it right? Without --socket the usual paths are tried."
      ),
      (
        .init(), ["GRANTD_SOCKET": "/b"],
        "The path is from GRANTD_SOCKET: is it right? Without GRANTD_SOCKET the usual paths are tried."
      ),
      (.init(), ["GRANTD_SOCKET": "/run/grantd/grantd.sock"], "Start it with `sudo systemctl start grantd.socket`."),
      (.init(isSystem: true), ["GRANTD_SOCKET": "/b"], "Start it with `sudo systemctl start grantd.socket`."),
    ] as [(SocketChoice.Wish, [String: String], String)])
  func namedSocket(wish: SocketChoice.Wish, environment: [String: String], hint: String) {
    #expect(SocketChoice(wish, environment: environment, uid: 7) { _ in false }.notRunning(.init()).hints.first == hint)
  }

  @Test(
    "a moment has its date",
    arguments: [
      (0, "01-01 00:00:00"), (-1, "2025-12-31"), (86_400, "01-02 00:00:00"), (31_535_999, "12-31 23:59:59"),
      (31_536_000, "2027-01-01"),
    ] as [(Int64, String)])
  func datedMoments(later: Int64, text: String) {
    #expect(TimeText.dated(Recorder.now + later, now: Recorder.now, in: .utc) == text)
  }

  @Test("commands in hints reach the same broker") func commandsInHintsReachTheSameBroker() {
    let hint = "Sign in with `grantctl login a b`, or see `journalctl`; `grantctl status` tells."
    let table: [(SocketChoice.Wish, String)] = [
      (.init(), hint),
      (
        .init(isSystem: true),
        "Sign in with `grantctl login a b --system`, or see `journalctl`; `grantctl status --system` tells."
      ),
      (
        .init(socket: "/a b/it's"),
        "Sign in with `grantctl login a b --socket '/a b/it'\\''s'`, or see `journalctl`; `grantctl status --socket '/a b/it'\\''s'` tells."
      ),
    ]
    for (wish, expected) in table {
      #expect(Shell(terminal: Recorder().terminal(), settings: .init(wish: wish)).adapted(hint) == expected)
    }
  }

  @Test("options of every command may come first") func optionsOfEveryCommandMayComeFirst() {
    let table: [([String], [String])] = [
      (["--json", "list"], ["list", "--json"]),
      (["--socket", "/s", "--timeout=3", "token", "a"], ["token", "--socket", "/s", "--timeout=3", "a"]),
      (["list", "--json"], ["list", "--json"]), (["--help"], ["--help"]), (["--json"], ["--json"]),
      (["--json", "provider", "register", "https://a"], ["provider", "register", "--json", "https://a"]),
      (["--json", "provider", "--help"], ["provider", "--json", "--help"]),
      (["--json", "provider"], ["provider", "--json"]),
      (["login", "--socket", "/s", "list"], ["login list", "--socket", "/s"]),
      (["--json", "login", "--user", "cancel", "k7"], ["login cancel", "--json", "--user", "k7"]),
      (["login", "--json", "google", "list"], ["login", "--json", "google", "list"]),
      (["provider", "--system", "list"], ["provider", "list", "--system"]),
      (["login", "--device", "list"], ["login", "--device", "list"]),
      (["--json", "--help"], ["--json", "--help"]), (["--nonsense", "list"], ["--nonsense", "list"]),
    ]
    for (given, moved) in table { #expect(GlobalOptions.moved(given) == moved) }
  }
}
