import ArgumentParser
import BrokerAPI
import Synchronization
import TestSupport
import Testing
import UnixSocket

@testable import grantctl

/// Logins with an additional step for the user.
@Suite struct LoginActionTests {
  static func session(_ id: String, last: String? = nil, current: Bool? = nil) -> JSON {
    JSON(
      encoding: SessionView(
        session_id: id, user_agent: "Mozilla/5.0 (X11; Linux x86_64)", client: "web", ip: "192.0.2.\(id)",
        online: last == nil, current: current, last: last))
  }

  static func limit(_ sessions: [JSON]) -> JSON {
    let action: JSON = [
      "kind": "session_limit", "message": "as many sessions are open as the provider allows (2)", "sessions_limit": 2,
      "sessions": .array(sessions),
    ]
    return ["login_id": "L1", "state": "action_required", "action": action]
  }

  static let two = limit([session("7"), session("9", last: "2025-12-31T23:00:00Z")])

  /// A broker whose login waits for these things, one after the other, and is then complete.
  final class Waiting: Sendable {
    private let next: Mutex<[JSON]>
    let continued = Mutex<[JSON]>([])
    let errors: Mutex<[RPCError]>
    private let isOver = Mutex(false)

    init(_ states: [JSON], errors: [RPCError] = []) {
      next = Mutex(states)
      self.errors = Mutex(errors)
    }

    private var state: JSON { next.withLock { $0.first ?? LoginTests.completed } }

    var replies: [String: ScriptedBroker.Reply] {
      let continued: ScriptedBroker.Reply = { [self] params, _ in
        self.continued.withLock { $0.append(params) }
        if let error = errors.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
          isOver.withLock { $0 = error.reason == .loginDenied || error.reason == .providerError }
          return .failure(error)
        }
        next.withLock { if !$0.isEmpty { $0.removeFirst() } }
        return .success(state)
      }
      return [
        "login.start": answer(LoginTests.started("browser")), "login.cancel": answer(["cancelled": true]),
        "login.wait": { [self] _, _ in .success(state) }, "login.continue": continued,
        "login.list": { [self] _, _ in
          let login: JSON = [
            "login_id": "L1", "provider": "vms", "account": "work", "state": "action_required",
            "started_at": .integer(Recorder.now), "expires_at": .integer(Recorder.now + 600),
          ]
          return .success(["logins": isOver.withLock { $0 } ? [] : [login]])
        },
      ]
    }

    var sent: [JSON] { continued.withLock { $0 } }
  }

  @Test("the user chooses the session to replace by its number, as often as the provider asks")
  func chosen() async throws {
    let waiting = Waiting([Self.two, Self.limit([Self.session("9", current: true)])])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "vms", "work"], recorder) { $0.canAsk = true }
      #expect(await eventually { recorder.err.hasSuffix("Replace which session? [1-2, oldest, offline] ") })
      #expect(
        recorder.err.contains(
          """
          As many sessions are open as the provider allows (2).
          NO  ID  CLIENT  IP         STATE    LAST USED
          1   7   web     192.0.2.7  online   -
              Mozilla/5.0 (X11; Linux x86_64)
          2   9   web     192.0.2.9  offline  1 h ago
              Mozilla/5.0 (X11; Linux x86_64)

          """))
      for line in ["", "0", "3", "seven", " 2 "] { recorder.type(line) }
      #expect(await eventually { recorder.err.hasSuffix("Replace which session? [1-1, oldest, offline] ") })
      #expect(recorder.err.contains("Give the number of a session, from 1 to 2, its ID, oldest or offline.\n"))
      #expect(recorder.err.contains("No session seven is open.\n"))
      #expect(recorder.err.contains("this one"))
      recorder.type("1")
      #expect(try await status == .success)
      #expect(waiting.sent == [["login_id": "L1", "session_id": "9"], ["login_id": "L1", "session_id": "9"]])
      #expect(recorder.out.contains("Signed in to work as ada@example.com at google\n"))
    }
  }

  static let three = limit([
    session("7", current: true, last: "2020-01-01T00:00:00Z"), session("8", last: "1767220000000"),
    session("9", last: "1767210000"), session("10"),
  ])

  private static func session(_ id: String, current: Bool, last: String) -> JSON {
    session(id, last: last, current: current)
  }

  @Test(
    "--replace-session answers without asking",
    arguments: [
      (["7"], [two], ["7"]), (["oldest"], [two], ["9"]), (["offline"], [two], ["9"]),
      // The own one stays; each is replaced once; milliseconds are not years.
      (["oldest"], [three, three], ["9", "8"]),
    ] as [([String], [JSON], [String])])
  func given(wish: [String], states: [JSON], replaced: [String]) async throws {
    let waiting = Waiting(states)
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "vms", "--replace-session"] + wish, recorder) == .success)
      #expect(waiting.sent.map { $0["session_id"]?.string } == replaced)
      #expect(!recorder.err.contains("CLIENT"))
    }
  }

  @Test(
    "without a terminal the login waits, and the exact next command is shown",
    arguments: [
      ([], two, ""), (["--replace-session", "5"], two, "No session 5 is open.\n"),
      (
        ["--replace-session", "oldest"], limit([session("7")]),
        "The provider does not say which session is the oldest: choose one by its ID."
      ),
      (
        ["--replace-session", "offline"], limit([session("7")]),
        "The provider does not report inactive sessions: choose one by its ID."
      ),
    ] as [([String], JSON, String)])
  func unattended(options: [String], state: JSON, note: String) async throws {
    let waiting = Waiting([state])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      let socket = " --socket \(broker.path)"
      let arguments = ["login", "vms", "--socket", broker.path] + options
      #expect(try await broker.run(arguments, plain) == .actionRequired)
      #expect(plain.err.contains(note) && plain.err.contains("ID  CLIENT  IP"))
      #expect(
        plain.err.hasSuffix(
          """
          grantctl: as many sessions are open as the provider allows (2)
            The login waits on: `grantctl login continue L1 --replace-session ID\(socket)`, with one of the IDs, `oldest` or `offline`.

          """))
      #expect(waiting.sent.isEmpty && !broker.methods.contains("login.cancel"))
      #expect(try await broker.run(arguments + ["--json"], json) == .actionRequired)
      let error = try JSON.parse(Array((json.err.split(separator: "\n").last ?? "").utf8))["error"]
      #expect(error?["data"]?["reason"] == "action_required" && error?["data"]?["login"] == state)
      #expect(error?["data"]?["hint"]?.string?.contains("--replace-session ID") == true)
      #expect(json.out.isEmpty && !json.err.contains("CLIENT"))
    }
  }

  @Test("the question takes the words of the configuration, and IDs", arguments: ["oldest", "offline", "9", "2"])
  func words(line: String) async throws {
    let waiting = Waiting([Self.two])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "vms", "work"], recorder) { $0.canAsk = true }
      #expect(await eventually { recorder.err.hasSuffix("offline] ") })
      recorder.type(line)
      #expect(try await status == .success)
      #expect(waiting.sent == [["login_id": "L1", "session_id": "9"]])
    }
  }

  @Test("without a session from the provider the user ends one there, and the login continues")
  func noSessions() async throws {
    let waiting = Waiting([Self.limit([])])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "vms", "work"], recorder) { $0.canAsk = true }
      #expect(await eventually { recorder.err.hasSuffix("Press Enter to go on: ") })
      recorder.type("")
      #expect(try await status == .success)
      #expect(waiting.sent == [["login_id": "L1"]])
    }
    let unattended = Waiting([Self.limit([])])
    try await ScriptedBroker.with(unattended.replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "vms", "work"], recorder) == .actionRequired)
      #expect(recorder.err.contains("Then go on with: `grantctl login continue L1") && unattended.sent.isEmpty)
      #expect(try await broker.run(["login", "continue", "L1"], Recorder()) == .success)
    }
  }

  @Test("piped input is read in order: the URL, then the answers") func piped() async throws {
    let gate = Gate()
    let waiting = Waiting([Self.two])
    var replies = waiting.replies
    replies["login.start"] = answer(LoginTests.started("manual"))
    let wait = replies["login.wait"]
    replies["login.wait"] = { params, session in
      await gate.wait()
      return await wait?(params, session) ?? .failure(.internalError(""))
    }
    replies["login.handle_callback"] = answer(["handled": true, "login_id": "L1"])
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "vms", "work", "--manual"], recorder) { $0.canAsk = true }
      for line in [LoginTests.callback, "2"] { recorder.type(line) }
      recorder.endInput()
      #expect(await eventually { broker.methods.contains("login.handle_callback") })
      gate.open()
      #expect(try await status == .success)
      #expect(waiting.sent == [["login_id": "L1", "session_id": "9"]])
      #expect(broker.methods.filter { $0 == "login.handle_callback" }.count == 1)
    }
  }

  @Test("a login that waits is picked up again") func continued() async throws {
    let waiting = Waiting([Self.two])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "continue", "L1", "--replace-session", "7"], recorder) == .success)
      #expect(broker.methods == ["login.list", "login.wait", "login.continue"])
      #expect(broker.params(of: "login.wait") == ["login_id": "L1", "timeout": 0])
      #expect(recorder.out.hasPrefix("Signed in to work as ada@example.com at google\n"))
    }
  }

  @Test("a URL can be pasted for a continued login, and its destination is kept")
  func continuedByPasting() async throws {
    let gate = Gate()
    let login: JSON = [
      "login_id": "L1", "provider": "google", "account": "work", "state": "pending",
      "started_at": .integer(Recorder.now), "expires_at": .integer(Recorder.now + 600),
    ]
    try await ScriptedBroker.with([
      "login.list": answer(["logins": [login]]),
      "login.wait": { _, _ in
        await gate.wait()
        return .success(LoginTests.completed)
      },
      "login.handle_callback": { _, _ in
        gate.open()
        return .success(["handled": true, "login_id": "L1"])
      },
    ]) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "continue", "L1"], recorder) { $0.canAsk = true }
      recorder.type(LoginTests.callback)
      #expect(try await status == .success)
      #expect(broker.params(of: "login.wait") == ["login_id": "L1", "timeout": 0])
      #expect(recorder.err.hasPrefix("If you have signed in already, paste the final URL"))
    }
  }

  @Test("the end of the input leaves the login waiting, Ctrl-C ends it", arguments: [true, false])
  func left(byInterrupt: Bool) async throws {
    let waiting = Waiting([Self.two])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "vms"], recorder) { $0.canAsk = true }
      #expect(await eventually { recorder.err.hasSuffix("[1-2, oldest, offline] ") })
      if byInterrupt { recorder.interrupt() } else { recorder.endInput() }
      #expect(try await status == (byInterrupt ? .interrupted : .actionRequired))
      #expect(broker.methods.contains("login.cancel") == byInterrupt)
    }
  }

  @Test(
    "a failure that leaves the login waiting shows how to continue, another does not",
    arguments: [
      (RPCError(.temporarilyUnavailable, "not now"), ExitStatus.temporarilyUnavailable, true),
      (RPCError(.shuttingDown, "stopping"), .temporarilyUnavailable, true),
      (RPCError(.loginDenied, "no"), .loginFailed, false), (RPCError(.providerError, "odd"), .failure, false),
    ] as [(RPCError, ExitStatus, Bool)])
  func failures(error: RPCError, status: ExitStatus, waits: Bool) async throws {
    let waiting = Waiting([Self.two], errors: [error])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "vms", "--replace-session", "7"], recorder) == status)
      #expect(recorder.err.contains("The login waits on: `grantctl login continue L1`") == waits)
    }
  }

  @Test("a daemon that stops leaves the login waiting") func daemonGone() async throws {
    let gate = Gate()
    try await ScriptedBroker.with([
      "login.start": answer(LoginTests.started("browser")),
      "login.wait": { _, _ in
        await gate.wait()
        return .success(LoginTests.completed)
      },
    ]) { broker, server async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "vms"], recorder)
      #expect(await eventually { broker.methods.contains("login.wait") })
      await server.drain(deadline: .zero)
      #expect(try await status == .temporarilyUnavailable)
      #expect(recorder.err.contains("The login waits on: `grantctl login continue L1`"))
      gate.open()
    }
  }

  @Test("an action of a newer broker leaves the login waiting") func newer() async throws {
    let state: JSON = [
      "login_id": "L1", "state": "action_required", "action": ["kind": "fingerprint", "message": "show a finger"],
    ]
    try await ScriptedBroker.with(Waiting([state]).replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "vms"], recorder) == .failure)
      #expect(recorder.err.contains("grantctl: show a finger\n") && !broker.methods.contains("login.cancel"))
    }
  }

  @Test("a provider that asks for the same for ever is given up") func endless() async throws {
    let waiting = Waiting(
      Array(repeating: Self.limit((1...50).map { Self.session("\($0)", last: "\($0)") }), count: 99))
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      #expect(try await broker.run(["login", "vms", "--replace-session", "oldest"], Recorder()) == .failure)
      #expect(waiting.sent.count == 32)
    }
  }

  @Test("the sessions' table fits 80 columns, and never cuts an id") func table() {
    let id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    let session = SessionView(
      session_id: id, client: "A rather long name of a program", ip: "2001:db8:85a3::8a2e:370:7334", online: true,
      last: "some day, long ago")
    let lines = [session, session].table(isNumbered: true, now: Recorder.now).lines(width: 80, colour: false)
    #expect(lines.allSatisfy { SafeText.width($0) <= 80 } && lines[1].contains(id))
  }
}
