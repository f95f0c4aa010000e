import ArgumentParser
import BrokerAPI
import Platform
import Principals
import Synchronization
import TestSupport
import Testing

@testable import grantctl

/// Pending requests, as the user sees and answers them.
@Suite struct ApproveTests {
  static func release(_ id: String, _ account: String = "bank", exe: String? = "/usr/bin/feed", left: Int64 = 48)
    -> ReleaseView
  {
    ReleaseView(
      id: id, account: account, method: "token.get", scopes: nil, resource: nil,
      caller: .init(uid: 1000, pid: 4711, unit: "user@1000.service", user_unit: "feed@1.service", exe: exe),
      rule: "ask-me", since: Recorder.now - 12, until: Recorder.now + left)
  }

  /// A broker with these, of which each can be answered once.
  final class Waiting: Sendable {
    private let state: Mutex<[ReleaseView]>
    private let session = Mutex<(any Session)?>(nil)
    let words = Mutex<[String]>([])

    init(_ releases: [ReleaseView]) { state = Mutex(releases) }

    private func take(_ word: String, _ params: JSON) -> Bool {
      let id = params["id"]?.string ?? ""
      let span = params["for"]?.integer.map { " \($0)" } ?? ""
      words.withLock { $0.append("\(word) \(id)\(span)") }
      return state.withLock { state in
        let count = state.count
        state.removeAll { $0.id == id }
        return state.count < count
      }
    }

    func come(_ release: ReleaseView) {
      let isEnd = release.outcome != nil
      state.withLock { if isEnd { $0.removeAll { $0.id == release.id } } else { $0.append(release) } }
      let event = Event(type: isEnd ? .releaseEnded : .releaseWaiting, at: Recorder.now, release: release)
      _ = session.withLock { $0?.notify(method: Event.method, params: JSON(encoding: event)) }
    }

    var isWatched: Bool { session.withLock { $0 != nil } }

    var replies: [String: ScriptedBroker.Reply] {
      [
        "release.list": { [self] _, _ in
          .success(JSON(encoding: ReleaseList.Result(waiting: state.withLock { $0 }, standing: [])))
        },
        "release.approve": { [self] params, _ in .success(["approved": .bool(take("yes", params))]) },
        "release.deny": { [self] params, _ in .success(["denied": .bool(take("no", params))]) },
        "events.subscribe": { [self] _, session in
          self.session.withLock { $0 = session }
          return .success(["subscribed": ["release.ended", "release.waiting"]])
        },
      ]
    }
  }

  @Test("a request's approval shows all digits of the body's SHA-256")
  func digest() {
    let shell = Shell(terminal: Recorder().terminal(), settings: .init())
    let digest = String(repeating: "0123456789abcdef", count: 3) + "fedcba9876543210"
    let release = ReleaseView(
      id: "k7f3qx", account: "bank", method: "request.send", scopes: nil, resource: nil,
      request: "POST https://api.example.com/pay", body_sha256: digest, caller: .init(uid: 1000, pid: 4711),
      rule: "ask-me", since: Recorder.now - 12, until: Recorder.now + 48)
    let text = ApproveCommand.table([release], shell).lines(width: 80, colour: false).joined()
    #expect(text.filter { !$0.isWhitespace }.contains(digest))
  }

  @Test("pending approvals fit 80 columns, with the program and the rule below")
  func fits() {
    let user = "uid 1000"
    let shell = Shell(terminal: Recorder().terminal(), settings: .init())
    let long = Self.release("m2n4pz", "a-rather-long-account-name-of-somebody@example.com", exe: "/opt/\u{1B}[2Jx")
    let text = ApproveCommand.table([Self.release("k7f3qx"), long], shell)
      .lines(width: 80, colour: false).joined(separator: "\n")
    #expect(
      text == """
        ID      ACCOUNT                         ASKS FOR   CALLER              TIME LEFT
        k7f3qx  bank                            token.get  uid 1000, pid 4711  48 s
            /usr/bin/feed in user unit feed@1.service of \(user); rule ask-me
            scopes: all that it may have
        m2n4pz  a-rather-long-a…dy@example.com  token.get  uid 1000, pid 4711  48 s
            /opt/\\u{1B}[2Jx in user unit feed@1.service of \(user); rule ask-me
            scopes: all that it may have
        """)
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 })
  }

  @Test(
    "one that is named is answered at once",
    arguments: [
      (["k7f3qx"], "yes k7f3qx", "Allowed: k7f3qx\n"),
      (["k7f3qx", "--for", "10m"], "yes k7f3qx 600", "Allowed: k7f3qx\n"),
      (["k7f3qx", "--deny"], "no k7f3qx", "Refused: k7f3qx\n"),
      (["k7f3qx", "--deny", "--for", "45"], "no k7f3qx 45", "Refused: k7f3qx\n"),
    ] as [([String], String, String)])
  func named(_ arguments: [String], _ word: String, _ out: String) async throws {
    let waiting = Waiting([Self.release("k7f3qx")])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["approve"] + arguments, recorder) == .success)
      #expect(recorder.out == out && waiting.words.withLock { $0 } == [word])
      let late = Recorder()
      #expect(try await broker.run(["approve"] + arguments, late) == .unknownName)
      #expect(late.err.contains("no request k7f3qx waits for an approval") && late.out.isEmpty)
    }
  }

  @Test("without a terminal pending approvals are listed, and none is answered")
  func listed() async throws {
    let waiting = Waiting([Self.release("k7f3qx")])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["approve"], recorder) == .success)
      #expect(recorder.out.contains("k7f3qx") && recorder.out.contains("/usr/bin/feed"))
      #expect(waiting.words.withLock { $0.isEmpty })
    }
    try await ScriptedBroker.with(Waiting([]).replies) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["approve"], recorder) == .success)
      #expect(recorder.out == "Nothing waits for you.\n")
    }
  }

  @Test("the user is asked about each, again after an unknown answer, and may skip one")
  func asked() async throws {
    let waiting = Waiting(["aaaaaa", "bbbbbb", "cccccc"].map { Self.release($0) })
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      for line in ["perhaps", "y 10 minutes", "Y 10m", "", " n "] { recorder.type(line) }
      #expect(try await broker.run(["approve"], recorder) { $0.canAsk = true } == .success)
      #expect(waiting.words.withLock { $0 } == ["yes aaaaaa 600", "no cccccc"])
      #expect(recorder.out == "Allowed: aaaaaa\nRefused: cccccc\n")
      #expect(
        recorder.err.contains("Allow bbbbbb? [y/n, y 10m, Enter: later] ") && recorder.err.contains("Type y or n"))
    }
  }

  @Test("an agent asks as requests arrive, and continues if one ends elsewhere")
  func agent() async throws {
    let waiting = Waiting([])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      let running = Task { try await broker.run(["approve", "--wait"], recorder) { $0.canAsk = true } }
      try await eventually("it listens") { waiting.isWatched && broker.methods.contains("release.list") }
      waiting.come(Self.release("aaaaaa"))
      waiting.come(Self.release("bbbbbb"))
      try await eventually("it asks about the first") { recorder.err.contains("Allow aaaaaa?") }
      #expect(!recorder.err.contains("Allow bbbbbb?"))
      var ended = Self.release("aaaaaa")
      ended.outcome = "timed_out"
      waiting.come(ended)
      try await eventually("it asks about the next") { recorder.err.contains("Allow bbbbbb?") }
      #expect(recorder.err.contains("aaaaaa no longer waits: its time is over."))
      // Meant for the first, perhaps.
      recorder.type("y")
      try await eventually("it is not taken") { recorder.err.contains("For this one type “y bbbbbb”") }
      #expect(waiting.words.withLock { $0.isEmpty })
      recorder.type("y bbbbbb")
      try await eventually("it is answered") { recorder.out == "Allowed: bbbbbb\n" }
      for id in ["cccccc", "dddddd"] { waiting.come(Self.release(id)) }
      try await eventually("it asks about the third") { recorder.err.contains("Allow cccccc?") }
      ended.id = "cccccc"
      waiting.come(ended)
      try await eventually("it asks about the fourth") { recorder.err.contains("Allow dddddd?") }
      // For either of them: no caller gets a token by it.
      recorder.type("n")
      try await eventually("it is refused") { recorder.out == "Allowed: bbbbbb\nRefused: dddddd\n" }
      recorder.interrupt()
      #expect(try await running.value == .interrupted)
      #expect(waiting.words.withLock { $0 } == ["yes bbbbbb", "no dddddd"])
    }
  }

  @Test("a program that asks in its own way gets a line of JSON for each")
  func json() async throws {
    let waiting = Waiting([Self.release("aaaaaa")])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      let running = Task { try await broker.run(["approve", "--wait", "--json"], recorder) { $0.canAsk = true } }
      try await eventually("the first") { recorder.out.contains("aaaaaa") }
      waiting.come(Self.release("bbbbbb"))
      try await eventually("the second") { recorder.out.contains("bbbbbb") }
      let lines = try recorder.out.split(separator: "\n").map { try JSON.parse(Array($0.utf8)) }
      #expect(lines.map { $0["id"]?.string } == ["aaaaaa", "bbbbbb"] && lines[0]["caller"]?["pid"] == 4711)
      recorder.interrupt()
      #expect(try await running.value == .interrupted)
    }
  }

  @Test(
    "approvals for a time are listed with their end, even before the first question",
    arguments: [false, true])
  func standing(isAsked: Bool) async throws {
    let approval = ApprovalView(
      account: "bank", method: "token.get", scopes: nil, resource: nil,
      caller: .init(uid: 1000, user_unit: "feed@1.service", exe: "/usr/bin/feed"), allowed: true,
      until: Recorder.now + 540)
    let user = "uid 1000"
    let list = ReleaseList.Result(waiting: isAsked ? [Self.release("k7f3qx")] : [], standing: [approval])
    try await ScriptedBroker.with(["release.list": answer(JSON(encoding: list))]) { broker, _ async throws in
      let recorder = Recorder()
      recorder.type("")
      #expect(try await broker.run(["approve"], recorder) { $0.canAsk = isAsked } == .success)
      #expect(
        recorder.out.hasSuffix(
          """
          Allowed for 9 min more: token.get of bank to /usr/bin/feed in user unit feed@1.service of \(user)
          grantctl reload, or a restart of grantd, ends that.

          """))
      #expect(recorder.err.contains("Allow k7f3qx?") == isAsked)
    }
  }

  @Test(
    "an approval lasts for an hour at most", arguments: [("1h", true), ("60m", true), ("3601", false), ("5h", false)])
  func longest(_ text: String, isTaken: Bool) throws {
    #expect((Approval(typed: "y \(text)") != nil) == isTaken)
    if isTaken {
      _ = try Grantctl.parseAsRoot(["approve", "k7f3qx", "--for", text])
    } else {
      let error = #expect(throws: (any Error).self) {
        try Grantctl.parseAsRoot(["approve", "k7f3qx", "--for", text])
      }
      #expect(error.map { Grantctl.message(for: $0) }?.contains("an hour (1h) at most") == true)
    }
  }

  @Test(
    "a duration is seconds, minutes, hours or days",
    arguments: [("45", 45), ("30s", 30), ("10m", 600), ("1.5h", 5400), ("7d", 604_800)] as [(String, Double)])
  func spans(_ text: String, _ seconds: Double) { #expect(TimeSpan(argument: text)?.seconds == seconds) }

  @Test("other texts are not durations", arguments: ["", "m", "-5", "1..5h", ".5", "5.", "1e3", "nan"])
  func noSpans(_ text: String) {
    #expect(TimeSpan(argument: text) == nil)
    #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(["approve", "k7f3qx", "--for", text]) }
  }

  @Test(
    "options that need an ID, or none, report it", arguments: [["--deny"], ["--for", "10m"], ["k7f3qx", "--wait"]])
  func optionsApart(_ arguments: [String]) {
    #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(["approve"] + arguments) }
  }
}
