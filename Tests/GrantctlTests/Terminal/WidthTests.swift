import BrokerAPI
import ProviderTemplates
import Testing

@testable import grantctl

/// Views on a terminal: no line is wider than it.
@Suite struct WidthTests {
  private static let user = "ada.lovelace@mail.example.com"

  private static var account: AccountView {
    TableTests.account("work", .loginRequired, email: user, expires: -180, error: TableTests.refused)
  }

  private static let provider = ProviderGet.Result(
    provider: .init(
      provider: "google", kind: "oidc", profile: "google", display_name: "Google",
      issuer: "https://accounts.example.com", client_id: "0123456789-abcdefghijkl",
      scopes: ["openid", "email", "profile", "calendar.readonly", "contacts.readonly", "mail.readonly"],
      accounts: 1, state: "unreachable", last_error: "the connection to the provider was refused three times"),
    redirect_uri: "http://127.0.0.1:17827/callback",
    endpoints: ["authorization": "https://accounts.example.com/auth", "jwks": "https://accounts.example.com/keys"],
    supports: ["refresh": true, "revocation": true, "userinfo": true, "id_token": true, "sessions": false],
    metadata_fetched_at: Recorder.now - 60)

  private static let standing = ApprovalView(
    account: "bank", method: "token.get", scopes: nil, resource: nil,
    caller: .init(uid: 1000, user_unit: "feed@1.service", exe: "/usr/bin/feed"), allowed: true,
    until: Recorder.now + 540)

  private static let logins: JSON = [
    "logins": [
      [
        "login_id": "Zk3vS0JvVbq2Zk3vS0JvVb", "provider": "google", "account": "a-rather-long-account-name",
        "state": "pending", "started_at": .integer(Recorder.now - 120), "expires_at": .integer(Recorder.now + 480),
      ]
    ]
  ]

  private static let explained: JSON = [
    "allowed": true, "why": "rule mail-of-the-team allows it to the unit mail-sync.service of the user ada",
    "scopes": ["openid", "email", "profile", "calendar.readonly", "contacts.readonly", "mail.readonly"],
    "confirm": ["rule": "mail-of-the-team", "timeout": 360],
  ]

  private static let rotated: JSON = [
    "key_file": "/var/lib/grantd/grantd.key", "accounts": 13, "seconds": 1, "warnings": [],
  ]

  private static let backup: JSON = [
    "host": "old.example", "made_at": .integer(Recorder.now - 7200), "version": "1.0", "accounts": 2, "known": 2,
  ]

  private static let restored: JSON = [
    "restored": [], "replaced": [], "kept": ["cameras"],
    "left_out": [["account": "robot", "why": "the configuration declares such accounts"]], "warnings": [],
  ]

  private static let records = AuditList.Result(records: [
    AuditTableTests.line(2, "login.handle_callback", account: "a-rather-long-account-name", last: -90) {
      ($0.exe, $0.unit, $0.parent, $0.result) = ("/usr/bin/grantctl", nil, "python3", "unsupported_by_provider")
      $0.detail = "the provider cannot do that"
    },
    AuditTableTests.line(1, "token.get", last: -60) {
      ($0.exe, $0.unit, $0.result) = ("/usr/bin/python3", nil, "not_permitted")
    },
  ])

  private static let sessionID = "0f8fad5b-d9cb-469f-a165-70867728950e"

  private static let sessions = [
    SessionView(
      session_id: sessionID, user_agent: "Mozilla/5.0 (X11; Linux x86_64)", client: "web",
      ip: "2001:db8:85a3::8a2e:370:7334", online: true, current: true, last: "2025-12-31T23:00:00Z"),
    SessionView(
      session_id: "7", client: "A rather long name of a program", ip: "192.0.2.7", online: false,
      last: "some day, long ago"),
  ]

  private static var replies: [String: ScriptedBroker.Reply] {
    [
      "account.get": answer(JSON(encoding: account)),
      "account.sessions": answer(["sessions": JSON(encoding: sessions)]),
      "account.list": answer(["accounts": JSON(encoding: [account, TableTests.account("play", .ok, email: user)])]),
      "audit.list": answer(JSON(encoding: records)), "login.list": answer(logins),
      "policy.explain": answer(explained), "provider.get": answer(JSON(encoding: provider)),
      "release.list": answer(
        JSON(encoding: ReleaseList.Result(waiting: [ApproveTests.release("k7f3qx")], standing: [standing]))),
      "store.rotate_key": answer(rotated), "store.restore": answer(["restore_id": "r"]),
      "store.restore_part": answer(["received": 14]), "store.restore_look": answer(backup),
      "store.restore_apply": answer(restored),
    ]
  }

  private static func run(_ arguments: [String], columns: Int?) async throws -> Recorder {
    let recorder = Recorder()
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      // Without control sequences, which have no width.
      let status = try await broker.run(arguments, recorder, environment: ["TERM": "dumb"]) {
        ($0.isOutTTY, $0.isErrTTY, $0.width) = (columns != nil, columns != nil, columns)
        $0.screen = columns.map { Terminal.Screen(columns: $0, rows: 24) }
        $0.canAsk = arguments.first == "restore"
        $0.files.bytes = { path, _ in
          .bytes(path == "b" ? Array("grantd-backup\n".utf8) : Array(repeating: 9, count: 32))
        }
      }
      #expect(status == .success, "\(arguments): \(recorder.err)")
    }
    return recorder
  }

  static let views = [
    ["show", "work"], ["provider", "show", "google"], ["explain", "work"], ["approve"], ["key", "rotate"],
    ["restore", "b", "--key-file", "key"], ["restore", "b", "--key-file", "key", "--moved"], ["list"],
    ["login", "list"], ["audit"], ["sessions", "work"],
  ]

  @Test("no line is wider than the terminal", arguments: views, [80, 40])
  func fits(_ view: [String], columns: Int) async throws {
    let recorder = try await Self.run(view, columns: columns)
    let lines = (recorder.out + recorder.err).split(separator: "\n")
    #expect(lines.count > 1)
    for line in lines { #expect(SafeText.width(String(line)) <= columns, "\(line)") }
  }

  @Test("for programs sentences and values are whole lines")
  func pipes() async throws {
    let shown = try await Self.run(["show", "work"], columns: nil).out
    #expect(shown.split(separator: "\n").contains { $0.hasPrefix("Last error ") && $0.hasSuffix(" (3 min ago)") })
    let explained = try await Self.run(["explain", "work"], columns: nil).out
    #expect(explained.split(separator: "\n").count == 3)
    let restored = try await Self.run(["restore", "b", "--key-file", "key"], columns: nil).out
    #expect(restored.hasSuffix("nothing is restored. --replace also restores existing accounts.\n"))
  }

  @Test("values that users search for or copy are whole", arguments: [80, 40])
  func values(columns: Int) async throws {
    let audit = try await Self.run(["audit"], columns: columns).out
    for word in [" unsupported_by_provider", " not_permitted", "python3", "grantctl", " a-rather-long-account-name"] {
      #expect(audit.contains(word), "\(word): \(audit)")
    }
    let sessions = try await Self.run(["sessions", "work"], columns: columns).out
    let flat = sessions.split { $0 == " " || $0 == "\n" }.joined(separator: " ")
    let whole = ["2001:db8:85a3::8a2e:370:7334", "A rather long name of a program", "some day, long ago"]
    for value in [Self.sessionID] + whole { #expect(flat.contains(value), "\(value): \(sessions)") }
    let provider = try await Self.run(["provider", "show", "google"], columns: columns).out
    #expect(provider.contains(" https://accounts.example.com/auth\n"))
  }

  /// The lines of a command that asks at a terminal: an answer ends the line of its question.
  private static func lines(
    _ arguments: [String], answers: [String], _ replies: [String: ScriptedBroker.Reply], columns: Int
  ) async throws -> [String] {
    let recorder = Recorder()
    for answer in answers { recorder.type(answer) }
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let status = try await broker.run(arguments, recorder, environment: ["TERM": "dumb"]) {
        ($0.isOutTTY, $0.isErrTTY, $0.isInTTY, $0.canAsk) = (true, true, true, true)
        ($0.width, $0.screen) = (columns, Terminal.Screen(columns: columns, rows: 24))
        $0.hideEcho = { {} }
        let write = $0.write
        $0.write = { stream, text in write(stream, text.hasSuffix("\n") ? text : text + "\n") }
      }
      #expect(status == .success, "\(arguments): \(recorder.err)")
    }
    return (recorder.out + recorder.err).split(separator: "\n").map(String.init)
  }

  @Test("the questions of a login and of setup are wrapped", arguments: [80, 40])
  func questions(columns: Int) async throws {
    let waiting = LoginActionTests.Waiting([LoginActionTests.limit(Self.sessions.map { JSON(encoding: $0) })])
    let register: ScriptedBroker.Reply = { params, _ in
      guard let id = params["client_id"] else {
        return .failure(RPCError(.unsupportedByProvider, "login.example.com registers no clients"))
      }
      return .success(
        ["provider": "login.example.com", "client_id": id, "issuer": "https://login.example.com", "warnings": []])
    }
    let setup: [String: ScriptedBroker.Reply] = [
      "broker.status": answer(DoctorTests.status()), "provider.list": answer(["providers": []]),
      "provider.register": register,
    ]
    let login = try await Self.lines(["login", "vms", "work"], answers: ["2"], waiting.replies, columns: columns)
    let lines = try await Self.lines(
      ["setup", "https://login.example.com", "--provider-only"], answers: ["hand", "s3cret"], setup, columns: columns)
    // A URL stays whole.
    for line in login + lines where !line.hasPrefix("https://") {
      #expect(SafeText.width(line) <= columns, "\(line)")
    }
    #expect(login.joined(separator: " ").contains("Replace which session? [1-2, oldest, offline] "), "\(login)")
    #expect(login.contains { $0.contains(Self.sessionID) } && waiting.sent.first?["session_id"] == "7")
    #expect(lines.contains("Client ID: ") && lines.contains("Client secret (hidden; none: Enter): "))
  }

  static let long = "a-rather-long-account-name"

  private static let changes: [String: ScriptedBroker.Reply] = [
    "account.get": answer(JSON(encoding: TableTests.account(long, .ok))),
    "account.refresh": answer(["refreshed": true, "generation": 8]), "account.list": answer(["accounts": []]),
    "broker.status": answer(
      DoctorTests.status {
        $0.state = "locked"
        $0.store = .init(path: "/s", state: "locked", message: nil)
      }),
    "broker.reload": answer(["providers": 12, "warnings": []]),
  ]

  @Test(
    "the result of a command is wrapped on a terminal, and its next command stays whole",
    arguments: [
      (["refresh", long], "Refreshed: \(long), expires in 59 min (2026-01-01 00:59:59)", nil),
      (["reload"], "Reloaded. The configuration has 12 providers.", nil),
      (
        ["list", "--provider", long], "No accounts at \(long). Sign in with:", "  grantctl login \(long) ACCOUNT"
      ), (["lock"], "Already locked. Unlock: grantctl unlock", nil),
    ] as [([String], String, String?)])
  func results(arguments: [String], sentence: String, command: String?) async throws {
    let lines = try await Self.lines(arguments, answers: [], Self.changes, columns: 40)
    let sentences = lines.filter { $0 != command }
    #expect(sentences.joined(separator: " ") == sentence && lines.count - sentences.count == (command == nil ? 0 : 1))
    for line in sentences { #expect(SafeText.width(line) <= 40, "\(line)") }
  }

  @Test("text to copy is never broken")
  func whole() {
    let recorder = Recorder()
    var terminal = recorder.terminal()
    terminal.width = 40
    let header = "Authorization: Bearer \(String(repeating: "a", count: 60))"
    terminal.printWhole(header)
    #expect(recorder.out == header + "\n")
  }

  @Test("a question is wrapped on a terminal, with a space before the answer")
  func question() {
    let recorder = Recorder()
    var terminal = recorder.terminal()
    let question = "Passphrase for the backup, 8 or more ASCII characters (it is not shown): "
    terminal.ask(question)
    #expect(recorder.err == question)
    terminal.isErrTTY = true
    terminal.screen = .init(columns: 40, rows: 24)
    terminal.ask(question)
    #expect(recorder.err == question + "Passphrase for the backup, 8 or more\nASCII characters (it is not shown): ")
  }

  @Test("a command has its own line if its sentence leaves no room")
  func command() {
    let recorder = Recorder()
    var terminal = recorder.terminal()
    let command = "grantctl token a-rather-long-account-name"
    for width in [nil, 80, 40] as [Int?] {
      terminal.width = width
      terminal.print("Get a token with:", command: command)
    }
    let line = "Get a token with: \(command)\n"
    #expect(recorder.out == line + line + "Get a token with:\n  \(command)\n")
  }

  @Test("a field without room beside its name begins on the next line, and a long word stays whole")
  func fields() {
    var fields = FieldList()
    fields.add("A", "one two")
    fields.add("Place", "at https://accounts.example.com/auth now")
    #expect(
      fields.lines(within: 30, colour: false, isCut: false) == [
        "A      one two", "Place", "    at", "    https://accounts.example.com/auth", "    now",
      ])
    #expect(fields.lines(within: 20, colour: false, isCut: false).prefix(2) == ["A", "    one two"])
    #expect(fields.lines(within: 30, colour: false)[1] == "Place  at")
  }

  @Test("the steps of a registration are wrapped, and the numbers stay at the left", arguments: [80, 40])
  func steps(columns: Int) {
    for template in SetupTemplate.all {
      for step in template.steps {
        let recorder = Recorder()
        var terminal = recorder.terminal()
        terminal.note(step, after: "  1. ")
        #expect(recorder.err == "  1. \(step)\n")
        terminal.isErrTTY = true
        terminal.screen = .init(columns: columns, rows: 24)
        terminal.note(step, after: "  1. ")
        let lines = recorder.err.split(separator: "\n").dropFirst()
        for line in lines { #expect(SafeText.width(String(line)) <= columns, "\(line)") }
        for line in lines.dropFirst() { #expect(line.hasPrefix("     ")) }
      }
    }
  }
}
