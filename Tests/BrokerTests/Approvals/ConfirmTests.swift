import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Synchronization
import Testing

@testable import Broker

/// Rules with `confirm`.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ConfirmTests {
  static let asking = Rule(
    name: "ask", who: .init(uid: 1000), accounts: ["work"], access: [.use], confirm: .seconds(60))
  private static let plain = Rule(name: "plain", uid: 1002, gid: nil, accounts: ["*"], access: [.use])
  private static let agentRule = Rule(
    name: "agent", uid: 1001, gid: nil, accounts: ["work"], access: [.observe, .manage])
  static let agent = Caller(uid: 1001, gid: 1001, groups: [], pid: 200)

  /// The account `work`, and `home`; the rules beside those of the agent and of a caller that needs no word.
  private func rig(_ rules: [Rule] = [asking], instance: Policy.Instance = .system) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work")
    try await store.signIn("home")
    return try await Rig(store: store, configuration: Self.configuration(rules, instance))
  }

  private static func configuration(_ rules: [Rule], _ instance: Policy.Instance = .system) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain(rules: rules + [plain, agentRule])
    configuration.policy.instance = instance
    return configuration
  }

  private static func caller(
    _ pid: Int32 = 100, unit: String? = "feed.service", exe: String? = "/usr/bin/feed"
  ) -> Caller {
    Caller(uid: 1000, gid: 1000, groups: [], pid: pid, unit: unit, executable: exe)
  }

  private func list(_ rig: Rig, as caller: Caller = agent) async throws -> ReleaseList.Result {
    try await rig.call(ReleaseList.self, .init(), as: caller)
  }

  private func waiting(_ rig: Rig, method: String = TokenGet.name) async throws -> ReleaseView {
    #expect(try await eventually { try await list(rig).waiting.contains { $0.method == method } })
    return try #require(try await list(rig).waiting.first { $0.method == method })
  }

  /// Asks, and says why not; nil: it came through.
  private func ask(
    _ rig: Rig, _ params: TokenGet.Params = .init(account: "work"), as caller: Caller = caller()
  ) -> Task<ErrorReason?, Never> {
    Task { await rig.reason { try await rig.call(TokenGet.self, params, as: caller) } }
  }

  @discardableResult
  private func approve(_ rig: Rig, _ id: String, for span: Double? = nil, as caller: Caller = agent) async throws
    -> Bool
  {
    try await rig.call(ReleaseApprove.self, .init(id: id, for: span), as: caller).approved
  }

  /// Whether the caller is asked about, and not answered at once; what waits is refused again.
  private func waits(
    _ rig: Rig, _ params: TokenGet.Params = .init(account: "work"), as caller: Caller = caller()
  ) async throws -> Bool {
    let answered = ask(rig, params, as: caller)
    let done = Flag()
    Task {
      _ = await answered.value
      done.set()
    }
    await settle()
    guard let seen = try await list(rig).waiting.first else {
      #expect(done.isSet)
      return false
    }
    _ = try await rig.call(ReleaseDeny.self, .init(id: seen.id), as: Self.agent)
    #expect(await answered.value == .notPermitted)
    return true
  }

  // MARK: How it ends

  enum End: CaseIterable {
    case approved, denied, tooLate, hungUp, noLongerAsked, ruleRemoved, stopping

    var reason: ErrorReason? {
      switch self {
      case .approved, .noLongerAsked: nil
      case .denied, .ruleRemoved: .notPermitted
      case .tooLate, .hungUp: .timedOut
      case .stopping: .shuttingDown
      }
    }
    var outcome: String {
      switch self {
      case .approved: "approved"
      case .denied: "denied"
      case .tooLate: "timed_out"
      case .hungUp: "caller_gone"
      case .noLongerAsked: "no_longer_needed"
      case .ruleRemoved: "refused"
      case .stopping: "shutting_down"
      }
    }
  }

  @Test("Each end of a wait is one answer to the caller and one event to the agent", arguments: End.allCases)
  func ends(_ end: End) async throws {
    let rig = try await rig()
    let watching = FakeSession(Self.agent)
    _ = try await rig.call(EventsSubscribe.self, .init(), on: watching)
    let session = FakeSession(Self.caller())
    let asked = Task { await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), on: session) } }
    let release = try await waiting(rig)
    #expect(release.account == "work" && release.rule == "ask" && release.scopes == nil && release.outcome == nil)
    #expect(
      release.caller == ReleaseCaller(uid: 1000, pid: 100, unit: "feed.service", user_unit: nil, exe: "/usr/bin/feed"))
    #expect(release.until == ManualClock.start.seconds + 60 && release.since == ManualClock.start.seconds)
    rig.clock.advance(.seconds(59))
    await settle()
    #expect(try await list(rig).waiting.count == 1)
    switch end {
    case .approved: #expect(try await approve(rig, release.id))
    case .denied:
      #expect(try await rig.call(ReleaseDeny.self, .init(id: release.id), as: Self.agent).denied)
    case .tooLate: rig.clock.advance(.seconds(1))
    case .hungUp: session.close()
    case .noLongerAsked:
      let free = Rule(name: "free", uid: 1000, gid: nil, accounts: ["work"], access: [.use])
      rig.reading.value = .success(Self.configuration([Self.asking, free]))
      _ = try await rig.broker.reload()
    case .ruleRemoved:
      rig.reading.value = .success(Self.configuration([]))
      _ = try await rig.broker.reload()
    case .stopping:
      // A drain waits for refreshes, and not for pending approvals.
      await rig.broker.hold(1)
      let drain = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(1)) }
      #expect(await asked.value == end.reason)
      await rig.broker.hold(-1)
      await rig.clock.passes(by: .milliseconds(20)) { await drain.value }
    }
    #expect(await asked.value == end.reason)
    #expect(await rig.broker.tokens.approvals.releases.waiting.isEmpty)
    #expect(watching.types.filter { $0.hasPrefix("release.") } == ["release.waiting", "release.ended"])
    let last = watching.told.last { $0["type"]?.string == "release.ended" }
    #expect(last?["release"]?["outcome"]?.string == end.outcome)
    // Nothing is left of it.
    #expect(try await approve(rig, release.id, as: .root) == false)
  }

  @Test("During the wait other callers are served, also from the cache, and the caller gets what needs no approval")
  func othersMeanwhile() async throws {
    let own = Rule(name: "own", uid: 1000, gid: nil, accounts: ["home"], access: [.use])
    let rig = try await rig([Self.asking, own])
    let asked = ask(rig)
    let release = try await waiting(rig)
    #expect(rig.cached("work", as: Self.caller()) == nil && rig.cached("work", as: .root) != nil)
    #expect(rig.cached("work", as: .user(1002)) != nil && rig.cached("home", as: Self.caller()) != nil)
    #expect(await ask(rig, as: .user(1002)).value == nil)
    #expect(await ask(rig, .init(account: "home")).value == nil)
    try await approve(rig, release.id)
    #expect(await asked.value == nil)
    // One word is for one release.
    #expect(rig.cached("work", as: Self.caller()) == nil)
    #expect(try await waits(rig))
  }

  @Test("Every method that releases a token waits, and no other does")
  func methods() async throws {
    let rule = Rule(
      name: "ask", who: .init(uid: 1000), accounts: ["*"], access: [.use, .observe, .manage, .login],
      confirm: .seconds(60))
    let rig = try await rig([rule])
    let calls: [String: @Sendable () async throws -> Void] = [
      TokenGet.name: { _ = try await rig.call(TokenGet.self, .init(account: "work"), as: Self.caller()) },
      TokenExchange.name: { _ = try await rig.call(TokenExchange.self, .init(account: "work"), as: Self.caller()) },
      TokenIntrospect.name: { _ = try await rig.call(TokenIntrospect.self, .init(account: "work"), as: Self.caller()) },
      DPoPProof.name: {
        let params = DPoPProof.Params(
          account: "work", method: "GET", url: "https://x.example/", access_token: .init("t"))
        _ = try await rig.call(DPoPProof.self, params, as: Self.caller())
      },
      RequestSend.name: {
        _ = try await rig.call(RequestSend.self, .init(account: "work", method: "GET", url: "/"), as: Self.caller())
      },
      AccountUserinfo.name: { _ = try await rig.call(AccountUserinfo.self, .init(account: "work"), as: Self.caller()) },
      AccountSessions.name: { _ = try await rig.call(AccountSessions.self, .init(account: "work"), as: Self.caller()) },
      AccountEndSession.name: {
        _ = try await rig.call(AccountEndSession.self, .init(account: "work", session_id: "s"), as: Self.caller())
      },
    ]
    let releases = Methods.all.filter { $0 is any TokenRelease.Type }.map { $0.name }
    #expect(Set(calls.keys) == Set(releases))
    let uses = Methods.all.filter { $0.access == .use }.map { $0.name }
    #expect(Set(uses).subtracting(releases) == [TokenReportRejected.name, AccountRefresh.name])
    for (method, call) in calls.sorted(by: { $0.key < $1.key }) {
      let asked = Task { await rig.reason(call) }
      let release = try await waiting(rig, method: method)
      _ = try await rig.call(ReleaseDeny.self, .init(id: release.id), as: Self.agent)
      #expect(await asked.value == .notPermitted)
    }
    #expect(try await rig.call(AccountList.self, .init(), as: Self.caller()).accounts.count == 2)
    let report = TokenReportRejected.Params(account: "work", generation: 0)
    #expect(try await !rig.call(TokenReportRejected.self, report, as: Self.caller()).refreshed)
  }

  @Test("The actor of an exchange is an account whose token is released as well")
  func actor() async throws {
    let home = Rule(name: "home", uid: 1000, gid: nil, accounts: ["home"], access: [.use])
    let rig = try await rig([Self.asking, home])
    let asked = Task {
      await rig.reason {
        try await rig.call(TokenExchange.self, .init(account: "home", actor: "work"), as: Self.caller())
      }
    }
    let release = try await waiting(rig, method: TokenExchange.name)
    #expect(release.account == "work")
    _ = try await rig.call(ReleaseDeny.self, .init(id: release.id), as: Self.agent)
    #expect(await asked.value == .notPermitted)
  }

  @Test("A request that does not pass the router never gets a token that needs approval")
  func otherRoads() async throws {
    let rig = try await rig()
    #expect(
      await rig.reason { try await rig.unapproved(Self.caller()) }
        == .notPermitted)
    #expect(await rig.reason { try await rig.unapproved(.user(1002)) } == nil)
  }

  // MARK: Who is asked about

  @Test("A caller that needs no rule is asked for approval too, unless another rule permits the request")
  func privileged() async throws {
    let everybody = Rule(
      name: "all", who: .init(), accounts: ["work"], access: [.use], confirm: .seconds(60))
    let rig = try await rig([everybody])
    var root = Caller.root
    root.pid = 77
    #expect(rig.cached("work", as: root) == nil && rig.cached("home", as: root) != nil)
    #expect(try await waits(rig, as: root))
    let owner = Caller(uid: 990, gid: 990, groups: [], pid: 78)
    let user = try await self.rig([everybody], instance: .user)
    #expect(user.cached("work", as: owner) == nil && user.cached("home", as: owner) != nil)
    #expect(try await waits(user, as: owner))
    let free = Rule(name: "free", uid: 990, gid: nil, accounts: ["*"], access: [.use])
    let exempt = try await self.rig([everybody, free], instance: .user)
    #expect(exempt.cached("work", as: owner) != nil)
    #expect(await ask(exempt, as: owner).value == nil)
  }

  @Test("No approval is requested for an impossible request: no rule, no account, no time, scopes not granted")
  func pointless() async throws {
    let rule = Rule(name: "ask", who: .init(uid: 1000), accounts: ["*"], access: [.use], confirm: .seconds(60))
    let rig = try await rig([rule])
    let watching = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(), on: watching)
    #expect(await ask(rig, as: .user(5)).value == .notPermitted)
    #expect(await ask(rig, .init(account: "nobody")).value == .unknownAccount)
    #expect(await ask(rig, .init(account: "work", timeout: 0.5)).value == .timedOut)
    #expect(await ask(rig, .init(account: "work", scopes: ["admin"])).value == .scopeNotGranted)
    #expect(watching.types.isEmpty)
  }

  @Test("The caller's own limit bounds the wait, and the remaining time bounds the answer")
  func patience() async throws {
    let rig = try await rig()
    let asked = ask(rig, .init(account: "work", timeout: 10))
    #expect(try await waiting(rig).until == ManualClock.start.seconds + 10)
    rig.clock.advance(.seconds(10))
    #expect(await asked.value == .timedOut)
    let generous = ask(rig, .init(account: "work", timeout: 300))
    #expect(try await waiting(rig).until == rig.clock.now.seconds + 60)
    rig.clock.advance(.seconds(60))
    #expect(await generous.value == .timedOut)
    let (params, permission) = try await { () async throws -> (TokenGet.Params, Permission) in
      let session = FakeSession(Self.caller())
      let cleared = Task {
        let asked = try rig.broker.door.authorizer.authorize(session.principal, .use, TokenGet.name, account: "work")
        return try await rig.broker.tokens.approvals.clear(
          TokenGet.self, account("work"), .init(account: "work", timeout: 10), asked, session)
      }
      let release = try await waiting(rig)
      rig.clock.advance(.seconds(6))
      try await approve(rig, release.id)
      return try await cleared.value
    }()
    #expect(params.timeout == 4 && permission.approved != nil)
  }

  @Test("Pending approvals of one unit are limited, and take nothing from others")
  func bounds() async throws {
    let rig = try await rig()
    var asked: [Task<ErrorReason?, Never>] = []
    for pid in 0..<Int32(PendingReleases.mostPerUnit) { asked.append(ask(rig, as: Self.caller(300 + pid))) }
    #expect(try await eventually { try await list(rig).waiting.count == PendingReleases.mostPerUnit })
    #expect(await ask(rig, as: Self.caller(400)).value == .overloaded)
    asked.append(ask(rig, as: Self.caller(401, unit: "other.service")))
    #expect(try await eventually { try await list(rig).waiting.count == PendingReleases.mostPerUnit + 1 })
    rig.clock.advance(.seconds(60))
    for task in asked { #expect(await task.value == .timedOut) }
    #expect(try await waits(rig))
  }

  @Test("Pending approvals of one user are limited, regardless of the number of units")
  func boundsOfUser() {
    var releases = PendingReleases()
    let question = PendingReleases.Question(account: "work", method: TokenGet.name)
    var taken = 0
    for number in 0..<100 {
      let caller = Self.caller(unit: "u\(number / 4).service")
      if releases.begin("\(number)", question, of: .process(caller), rule: "r", from: .zero, until: .seconds(60)) {
        taken += 1
      }
    }
    #expect(taken == PendingReleases.mostPerHolder)
    let isTaken = releases.begin("x", question, of: .process(.user(7)), rule: "r", from: .zero, until: .seconds(60))
    #expect(isTaken)
  }

  // MARK: Who answers

  @Test("The process that asked cannot allow it, and may refuse it")
  func own() async throws {
    let rule = Rule(
      name: "ask", who: .init(uid: 1000), accounts: ["*"], access: [.use, .manage], confirm: .seconds(60))
    let rig = try await rig([rule])
    let asked = ask(rig)
    let release = try await waiting(rig)
    #expect(await rig.reason { try await approve(rig, release.id, as: Self.caller()) } == .notPermitted)
    // The kernel reports 0 for a process of another namespace: it may be the same.
    #expect(await rig.reason { try await approve(rig, release.id, as: Self.caller(0)) } == .notPermitted)
    #expect(try await list(rig).waiting.count == 1)
    #expect(try await rig.call(ReleaseDeny.self, .init(id: release.id), as: Self.caller()).denied)
    #expect(await asked.value == .notPermitted)
  }

  @Test("A caller that may not manage the account neither sees nor answers its approvals")
  func strangers() async throws {
    let other = Rule(name: "other", uid: 1003, gid: nil, accounts: ["home"], access: [.observe, .manage])
    let looker = Rule(name: "look", uid: 1004, gid: nil, accounts: ["*"], access: [.observe])
    let listing = Rule(
      name: "list", who: .init(uid: 1005), accounts: ["work"], access: [.observe], methods: [ReleaseList.name])
    let rig = try await rig([Self.asking, other, looker, listing])
    let sessions = [1001, 1003, 1004, 1005].map { FakeSession(.user($0)) }
    for session in sessions { _ = try await rig.call(EventsSubscribe.self, .init(), on: session) }
    let asked = ask(rig)
    let release = try await waiting(rig)
    #expect(try await list(rig, as: .user(1003)).waiting.isEmpty)
    #expect(try await list(rig, as: .user(1005)).waiting.count == 1)
    #expect(try await !approve(rig, release.id, as: .user(1003)))
    for uid in [1000, 1002, 1004, 1005] as [UInt32] {
      #expect(await rig.reason { try await approve(rig, release.id, as: .user(uid)) } == .notPermitted)
      if uid != 1005 { #expect(await rig.reason { try await list(rig, as: .user(uid)) } == .notPermitted) }
    }
    #expect(try await list(rig).waiting.count == 1)
    try await approve(rig, release.id)
    #expect(await asked.value == nil)
    #expect(sessions.map(\.types.count) == [2, 0, 0, 2])
    #expect(sessions.allSatisfy { session in session.told.allSatisfy { !"\($0)".contains("work-a1") } })
  }

  // MARK: Words that hold

  @Test("A word for some time is for the same program, and no longer")
  func standing() async throws {
    let rig = try await rig()
    let asked = ask(rig)
    try await approve(rig, try await waiting(rig).id, for: 600)
    #expect(await asked.value == nil)
    #expect(await ask(rig, as: Self.caller(4711)).value == nil)
    #expect(rig.cached("work", as: Self.caller()) == nil, "the word can be over at any moment")
    let standing = try #require(try await list(rig).standing.first)
    #expect(standing.until == ManualClock.start.seconds + 600 && standing.allowed && standing.caller.pid == nil)
    for other in [
      Self.caller(unit: "other.service"), Self.caller(exe: "/usr/bin/other"), Self.caller(unit: nil),
      Self.caller(exe: nil),
    ] { #expect(try await waits(rig, as: other)) }
    #expect(await ask(rig).value == nil, "an approval of others does not change it")
    rig.clock.advance(.seconds(600))
    #expect(try await list(rig).standing.isEmpty)
    #expect(try await waits(rig))
  }

  @Test("An approval for some time can be revoked by a user who may manage the account")
  func revoked() async throws {
    let rig = try await rig()
    let asked = ask(rig)
    try await approve(rig, try await waiting(rig).id, for: 600)
    #expect(await asked.value == nil)
    let id = try #require(try await list(rig).standing.first?.id)
    #expect(await rig.reason { _ = try await rig.call(ReleaseRevoke.self, .init(id: id), as: .user(4242)) } != nil)
    #expect(try await rig.call(ReleaseRevoke.self, .init(id: "nothing"), as: .root).revoked == false)
    #expect(try await rig.call(ReleaseRevoke.self, .init(id: id), as: .root).revoked)
    #expect(try await list(rig).standing.isEmpty)
    #expect(try await waits(rig))
    #expect(try await rig.call(ReleaseRevoke.self, .init(id: id), as: .root).revoked == false)
  }

  @Test("An approval ends with a reload, at the latest after an hour")
  func standingEnds() async throws {
    let rig = try await rig()
    let asked = ask(rig)
    try await approve(rig, try await waiting(rig).id, for: 1e9)
    #expect(await asked.value == nil)
    #expect(try await list(rig).standing.first?.until == ManualClock.start.seconds + 3600)
    _ = try await rig.broker.reload()
    #expect(try await waits(rig))
  }

  @Test("A denial for a time needs no user; an unknown program gets an approval for one request only")
  func refusals() async throws {
    let rig = try await rig()
    let asked = ask(rig)
    let release = try await waiting(rig)
    _ = try await rig.call(ReleaseDeny.self, .init(id: release.id, for: 60), as: Self.agent)
    #expect(await asked.value == .notPermitted)
    #expect(await ask(rig).value == .notPermitted)
    rig.clock.advance(.seconds(60))
    #expect(try await waits(rig))
    let unknown = Self.caller(unit: nil, exe: nil)
    let another = ask(rig, as: unknown)
    let id = try await waiting(rig).id
    await #expect(throws: RPCError.self) { try await approve(rig, id, for: 60) }
    await #expect(throws: RPCError.self) { try await approve(rig, id, for: -1) }
    #expect(try await approve(rig, id))
    #expect(await another.value == nil)
  }

  @Test(
    "An approval covers only the approved request",
    arguments: [
      (TokenGet.name, nil, TokenGet.name, nil, true), (TokenGet.name, nil, RequestSend.name, nil, true),
      (TokenGet.name, nil, TokenGet.name, ["read"], true), (TokenGet.name, ["read"], TokenGet.name, nil, false),
      (TokenGet.name, ["read"], TokenGet.name, ["read"], true),
      (TokenGet.name, ["read"], TokenGet.name, ["read", "write"], false),
      (TokenGet.name, ["read"], RequestSend.name, nil, false), (RequestSend.name, nil, TokenGet.name, nil, false),
      (RequestSend.name, nil, TokenExchange.name, nil, false), (RequestSend.name, nil, RequestSend.name, nil, true),
    ] as [(String, Set<String>?, String, Set<String>?, Bool)])
  func covers(method: String, scopes: Set<String>?, other: String, others: Set<String>?, covers: Bool) {
    let question = PendingReleases.Question(account: "work", method: method, scopes: scopes)
    let asked = PendingReleases.Question(account: "work", method: other, scopes: others)
    #expect(question.covers(asked) == covers)
    var elsewhere = asked
    elsewhere.account = "home"
    #expect(!question.covers(elsewhere))
    elsewhere = asked
    elsewhere.resource = "https://api.example"
    #expect(!question.covers(elsewhere))
  }

  @Test("The explanation shows that approval is required, for how long, and by which rule")
  func explained() async throws {
    let rig = try await rig()
    func explain(_ uid: UInt32, _ method: String? = nil) async throws -> PolicyExplain.Result {
      try await rig.call(PolicyExplain.self, .init(account: "work", method: method, caller: .init(uid: uid)))
    }
    let asked = try await explain(1000)
    #expect(asked.allowed && asked.rule == "ask" && asked.confirm == .init(rule: "ask", timeout: 60))
    #expect(asked.why == "rule ask requires approval of each release")
    for uid in [1002, 0] as [UInt32] { #expect(try await explain(uid).confirm == nil) }
    #expect(try await explain(1000, TokenReportRejected.name).confirm == nil)
  }
}

extension Rig {
  /// A release without an approval.
  fileprivate func unapproved(_ caller: Caller) async throws -> TokenGet.Result {
    let permission = try broker.door.authorizer.authorize(.process(caller), .use, TokenGet.name, account: "work")
    return try await broker.tokens.requests.token(account("work"), .init(account: "work"), permission)
  }
}

extension Broker {
  /// As though so many refreshes more were under way.
  fileprivate func hold(_ count: Int) { engine.leases.inFlight += count }
}

/// Set once.
private final class Flag: Sendable {
  private let state = Mutex(false)
  func set() { state.withLock { $0 = true } }
  var isSet: Bool { state.withLock { $0 } }
}
