import ArgumentParser
import BrokerAPI
import Testing

@testable import grantctl

/// Whose browser a login is for, and who was signed in.
@Suite struct BrowserOwnerTests {
  private static let replies: [String: ScriptedBroker.Reply] = [
    "login.start": answer(LoginTests.started("browser", "manual")), "login.wait": answer(LoginTests.completed),
  ]

  struct Case: Sendable {
    var environment: [String: String] = [:]
    var options: [String] = []
    var uid: UInt32 = 0
    var browser: Int64?
    /// What is started of the words before `xdg-open`; nil: nothing.
    var before: [String]? = []
  }

  private static let asUser = [
    "/usr/bin/setpriv", "--reuid=1000", "--regid=1001", "--init-groups", "--reset-env", "/usr/bin/env", "DISPLAY=:0",
    "XDG_RUNTIME_DIR=/run/user/1000", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus",
  ]

  static let cases = [
    Case(), Case(environment: ["SUDO_UID": "1000"], browser: 1000, before: nil),
    Case(environment: ["SUDO_UID": "1000", "SUDO_GID": "1001"], browser: 1000, before: asUser),
    Case(environment: ["PKEXEC_UID": "1001"], browser: 1001, before: nil),
    Case(environment: ["SUDO_UID": "1000", "PKEXEC_UID": "1001"], browser: 1000, before: nil),
    Case(
      environment: ["SUDO_UID": "1000", "SUDO_GID": "1001"], options: ["--browser-uid", "7"], browser: 7, before: nil),
    Case(environment: ["SUDO_UID": "0"], browser: 0),
    // Any user can set it; only root is run by sudo and pkexec.
    Case(environment: ["SUDO_UID": "1000", "SUDO_GID": "1001"], uid: 1001),
    Case(options: ["--browser-uid", "7"], uid: 1001, browser: 7, before: nil),
    Case(environment: ["SUDO_UID": "ada"]), Case(environment: ["SUDO_UID": "-1"]), Case(environment: ["SUDO_UID": ""]),
    Case(environment: ["SUDO_UID": "4294967295"]), Case(environment: ["SUDO_UID": "4294967296"]),
    Case(environment: ["SUDO_UID": "x", "PKEXEC_UID": "1001"], browser: 1001, before: nil),
  ]

  @Test("The browser is that of the user who had root run the command", arguments: cases)
  func browser(scene: Case) async throws {
    try await ScriptedBroker.with(Self.replies) { broker, _ async throws in
      let recorder = Recorder()
      let environment = scene.environment.merging(["DISPLAY": ":0"]) { $1 }
      let status = try await broker.run(
        ["login", "google", "work"] + scene.options, recorder, environment: environment
      ) { $0.uid = scene.uid }
      #expect(status == .success, "\(scene)")
      #expect(broker.params(of: "login.start")?["browser_uid"]?.integer == scene.browser, "\(scene)")
      let launched = scene.before.map { [$0 + ["/usr/bin/xdg-open", LoginTests.url]] } ?? []
      #expect(recorder.launched == launched, "\(scene)")
      #expect(recorder.err.contains("in a browser of uid \(scene.browser ?? 0):") == launched.isEmpty, "\(scene)")
    }
  }

  @Test(
    "An unknown user is refused",
    arguments: [
      ["login", "google", "--browser-uid", "no such user"], ["login", "google", "--browser-uid", "-1"],
      ["login", "google", "--username", "ada", "--browser-uid", "1"],
    ])
  func refused(arguments: [String]) {
    #expect(throws: (any Error).self) { try LoginCommand.parse(Array(arguments.dropFirst())) }
  }

  @Test("If a URL can be pasted, the one for another machine is shown", arguments: [true, false])
  func shown(_ canAsk: Bool) async throws {
    let short = "http://127.0.0.1:4180/go/b2Zm0vQx7o1Wl3TtqYk9eA"
    let start: JSON = [
      "login_id": "L1", "account": "work", "expires_at": .integer(Recorder.now + 600), "warnings": [],
      "destinations": [
        ["kind": "browser", "url": .string(short)], ["kind": "manual", "url": .string(LoginTests.url)],
      ],
    ]
    let replies = ["login.start": answer(start), "login.wait": answer(LoginTests.completed)]
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["login", "google", "work", "--no-browser"], recorder) { $0.canAsk = canAsk }
      #expect(status == .success)
      #expect(recorder.out.contains(LoginTests.url) == canAsk && recorder.out.contains(short) == !canAsk)
    }
  }

  @Test("A terminal shows who signed in, at any width", arguments: [40, 80])
  func width(_ columns: Int) async throws {
    try await ScriptedBroker.with(Self.replies) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["login", "google", "work"], recorder, environment: ["DISPLAY": ":0"]) {
        ($0.isOutTTY, $0.width) = (true, columns)
      }
      #expect(status == .success)
      let lines = recorder.out.split(separator: "\n")
      #expect(lines.allSatisfy { SafeText.width(String($0)) <= columns }, "\(lines)")
      #expect(lines.joined(separator: " ").contains("Signed in to work as ada@example.com at google"))
    }
  }

  @Test("A user's name at the provider cannot control the terminal")
  func escaped() async throws {
    var account = TableTests.account("work", .ok)
    account.identity?.email = "ada\u{1B}[2J\n\u{202E}@example.com"
    let completed: JSON = ["login_id": "L1", "state": "completed", "account": JSON(encoding: account)]
    try await ScriptedBroker.with(Self.replies.merging(["login.wait": answer(completed)]) { $1 }) { broker, _ in
      let recorder = Recorder()
      _ = try await broker.run(["login", "google", "work"], recorder, environment: ["DISPLAY": ":0"])
      #expect(recorder.out.hasPrefix("Signed in to work as ada\\u{1B}[2J\\n\\u{202E}@example.com at google\n"))
    }
  }
}
