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

  private static let standing = StandingWordView(
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

  private static var replies: [String: ScriptedBroker.Reply] {
    [
      "account.get": answer(JSON(encoding: account)),
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
    ["login", "list"], ["audit"],
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
    let provider = try await Self.run(["provider", "show", "google"], columns: columns).out
    #expect(provider.contains(" https://accounts.example.com/auth\n"))
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
