import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Synchronization
import Testing

@testable import Broker

/// The report of one caller about a token, and its effect on the others.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ReportTests {
  private static let attacker = Caller(uid: 1001, gid: 1001, groups: [], pid: 7)
  private static let neighbour = Caller(uid: 1002, gid: 1002, groups: [], pid: 8)
  private static let unit = Caller(uid: 1001, gid: 1001, groups: [], pid: 9, unit: "mail.service")

  private func rig(_ store: MemoryStore? = nil, clock: ManualClock = ManualClock()) async throws -> Rig {
    let rules = [1001, 1002].map { (uid: UInt32) in
      Rule(name: "\(uid)", uid: uid, gid: nil, accounts: ["*"], access: [.use, .observe])
    }
    var own = store
    if own == nil {
      own = MemoryStore()
      try await own?.signIn("work")
    }
    return try await Rig(
      clock: clock, store: own ?? MemoryStore(),
      configuration: .plain([OAuthProvider(.plain { $0.refresh.narrowing = .verified })], rules: rules))
  }

  private func token(_ rig: Rig, _ caller: Caller) async throws -> TokenGet.Result {
    try await rig.call(TokenGet.self, .init(account: "work"), as: caller)
  }

  private func report(_ rig: Rig, _ generation: Int64, _ caller: Caller) async throws -> TokenReportRejected.Result {
    try await rig.call(TokenReportRejected.self, .init(account: "work", generation: generation, timeout: 5), as: caller)
  }

  @Test(
    "If the provider fails, a report withholds the token only from its reporter, not from other units")
  func othersKeepIt() async throws {
    let rig = try await rig()
    for caller in [Self.attacker, Self.neighbour, Self.unit] { #expect(try await token(rig, caller).generation == 1) }
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await report(rig, 1, Self.attacker) } == .temporarilyUnavailable)
    for caller in [Self.neighbour, Self.unit, .root] { #expect(try await token(rig, caller).generation == 1) }
    #expect(rig.cached("work") != nil && rig.cached("work", as: Self.attacker) == nil)
    #expect(await rig.reason { try await token(rig, Self.attacker) } == .temporarilyUnavailable)
    let view = try await rig.view("work")
    #expect(view.reports?.map(\.uid) == [1001] && view.reports?.first?.unit == nil)
    // Another process and another run know it.
    let restarted = try await self.rig(rig.store, clock: rig.clock)
    restarted.transport.answer(.token, TokenServer.failing(.notSent))
    #expect(await restarted.reason { try await token(restarted, Self.attacker) } == .temporarilyUnavailable)
    #expect(try await token(restarted, Self.neighbour).generation == 1)
  }

  @Test("One refresh for a generation, however many reports; then all callers get the new token")
  func once() async throws {
    let rig = try await rig()
    for caller in [Self.attacker, Self.neighbour, Self.unit] { _ = try await token(rig, caller) }
    rig.transport.hold(.token)
    let reports = [Self.attacker, Self.neighbour, Self.unit].map { caller in
      Task { try await report(rig, 1, caller).generation }
    }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    await settle()
    #expect(try await token(rig, .root).generation == 1, "others are served while it is refreshed")
    rig.transport.release(.token)
    for report in reports { #expect(try await report.value == 2) }
    #expect(rig.transport.count(.token) == 1)
    #expect(try await rig.view("work").reports == nil)
  }

  @Test("Who reports each token is slowed down, alone")
  func paced() async throws {
    let rig = try await rig()
    for generation in 1...3 {
      #expect(try await token(rig, Self.attacker).generation == Int64(generation))
      _ = try await report(rig, Int64(generation), Self.attacker)
    }
    _ = try await token(rig, Self.attacker)
    let error = await #expect(throws: RPCError.self) { try await report(rig, 4, Self.attacker) }
    #expect(error?.reason == .temporarilyUnavailable && error?.retry_after == 300)
    #expect(try await token(rig, Self.neighbour).generation == 4)
    #expect(try await report(rig, 4, Self.neighbour).generation == 5)
    // It has the new one as well.
    #expect(try await token(rig, Self.attacker).generation == 5)
    #expect(await rig.reason { try await report(rig, 5, Self.attacker) } == .temporarilyUnavailable)
    rig.clock.advance(.seconds(300))
    #expect(try await token(rig, Self.attacker).generation == 6)
  }

  @Test("Who does not wait for the new token pays for it all the same, once for each; a try that fails costs nothing")
  func pacedWithoutWaiting() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    _ = try await token(rig, Self.attacker)
    #expect(await rig.reason { try await report(rig, 1, Self.attacker) } == .temporarilyUnavailable)
    rig.clock.advance(.seconds(60))
    rig.transport.answer(.token, TokenServer.rotating)
    #expect(try await token(rig, Self.attacker).generation == 2)
    for generation in 2...3 {
      rig.transport.hold(.token)
      let params = TokenReportRejected.Params(account: "work", generation: Int64(generation), timeout: 0.01)
      let reports = (0..<5).map { _ in
        Task { await rig.reason { try await rig.call(TokenReportRejected.self, params, as: Self.attacker) } }
      }
      #expect(await eventually { rig.transport.held(.token) == 1 })
      let isOver = Mutex(false)
      let ended = Task {
        for report in reports { #expect(await report.value == .timedOut) }
        isOver.withLock { $0 = true }
      }
      #expect(await rig.clock.reaches(by: .milliseconds(10)) { isOver.withLock { $0 } })
      await ended.value
      rig.transport.release(.token)
      #expect(await eventually { (try? await token(rig, Self.attacker).generation) == Int64(generation) + 1 })
    }
    #expect(await rig.reason { try await report(rig, 4, Self.attacker) } == .temporarilyUnavailable)
    #expect(try await token(rig, Self.neighbour).generation == 4)
  }

  @Test("A report is accepted only for a token released to the caller")
  func handedOut() async throws {
    let rig = try await rig()
    // Of an earlier run: it may have been.
    #expect(try await report(rig, 1, Self.attacker).generation == 2)
    let error = await #expect(throws: RPCError.self) { try await report(rig, 2, Self.neighbour) }
    #expect(error?.reason == nil)
    #expect(error?.code == RPCError.invalidParams("").code && error?.message.contains("not returned") == true)
    // From the cache as well as from the broker.
    _ = try await token(rig, .root)
    #expect(rig.cached("work", as: Self.neighbour) != nil)
    #expect(try await report(rig, 2, Self.neighbour).generation == 3)
  }

  @Test("If the records of releases were dropped, a caller may report a token that it may use")
  func handoutsDropped() async throws {
    let rig = try await rig()
    #expect(try await report(rig, 1, Self.attacker).generation == 2)
    for number in 0...Limit.cachedTokens {
      rig.broker.accounts.cache.recipients.record("other\(number)", 1, to: Reporter(uid: 7))
    }
    #expect(try await report(rig, 2, Self.neighbour).generation == 3)
  }

  @Test("Recipients say that they do not know where entries were dropped")
  func recipients() {
    let (recipients, ada, bob) = (TokenRecipients(), Reporter(uid: 1), Reporter(uid: 2))
    for generation in 1...TokenRecipients.generations { recipients.record("a", Int64(generation), to: ada) }
    #expect(recipients.has("a", 1, ada) == true)
    #expect(recipients.has("a", 1, bob) == false && recipients.has("b", 1, bob) == false)
    recipients.record("a", Int64(TokenRecipients.generations) + 1, to: ada)
    #expect(recipients.has("a", 1, ada) == nil && recipients.has("a", 2, bob) == false)
    recipients.record("a", 5, to: Reporter(uid: TokenRecipients.anyUser, unit: "mail.service"))
    #expect(recipients.has("a", 5, Reporter(uid: 3, unit: "mail.service")) == true)
    #expect(recipients.has("a", 5, Reporter(uid: 3, unit: "user@3.service", userUnit: "mail.service")) == false)
    for uid in 10..<UInt32(10 + TokenRecipients.callers) { recipients.record("a", 5, to: Reporter(uid: uid)) }
    #expect(recipients.has("a", 5, ada) == true && recipients.has("a", 5, bob) == nil)
  }

  @Test("Only the provider's answer ends a grant without a refresh token", arguments: [true, false])
  func withoutRefreshToken(isAlive: Bool) async throws {
    let store = MemoryStore()
    try await store.signIn("work", refreshes: false)
    let rules = [Rule(name: "r", uid: 1001, gid: nil, accounts: ["*"], access: [.use])]
    let settings = ProviderSettings.plain { $0.server.endpoints[.userinfo] = "https://id.example/userinfo" }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)], rules: rules))
    rig.transport.answer(.userinfo) { _ in isAlive ? reply(#"{"sub":"work"}"#) : HTTPResponse(status: 401) }
    _ = try await token(rig, Self.attacker)
    if isAlive {
      for _ in 0..<5 {
        #expect(
          try await report(rig, 1, Self.attacker) == .init(refreshed: false, generation: 1, confirmed: true))
      }
    } else {
      #expect(await rig.reason { try await report(rig, 1, Self.attacker) } == .loginRequired)
    }
    #expect(rig.transport.count(.userinfo) == 1)
    if isAlive {
      #expect(try await token(rig, .root).generation == 1)
      #expect(try await rig.view("work").state == .ok)
      // The reporter gets it again, also of a restarted broker.
      #expect(try await token(rig, Self.attacker).generation == 1)
      let after = try await Rig(
        clock: rig.clock, store: store, configuration: .plain([OAuthProvider(settings)], rules: rules))
      #expect(try await token(after, Self.attacker).generation == 1)
    } else {
      #expect(await rig.reason { try await token(rig, .root) } == .loginRequired)
      #expect(try await rig.view("work").state == .loginRequired)
    }
  }

  @Test("If UserInfo gives no verdict on the token, the list of sessions is requested") func asksSessions() async throws
  {
    let store = MemoryStore()
    try await store.signIn("work", refreshes: false)
    let rules = [Rule(name: "r", uid: 1001, gid: nil, accounts: ["*"], access: [.use])]
    let settings = ProviderSettings.plain { $0.server.endpoints[.userinfo] = "https://id.example/userinfo" }
    let rig = try await Rig(
      store: store, configuration: .plain([SteppedProvider(settings: settings)], rules: rules))
    rig.transport.answer(.userinfo) { _ in HTTPResponse(status: 503) }
    rig.transport.answer(.resource) { _ in HTTPResponse(status: 401) }
    _ = try await token(rig, Self.attacker)
    #expect(await rig.reason { try await report(rig, 1, Self.attacker) } == .loginRequired)
    #expect(rig.transport.count(.resource) == 1)
    #expect(await rig.reason { try await token(rig, .root) } == .loginRequired)
  }

  @Test("account.refresh refuses nothing: the old token is served until the new one exists")
  func refresh() async throws {
    let rig = try await rig()
    _ = try await token(rig, Self.neighbour)
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    for _ in 0..<4 {
      #expect(
        await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work")) } == .temporarilyUnavailable)
      #expect(try await token(rig, Self.neighbour).generation == 1)
      #expect(try await token(rig, .root).generation == 1)
    }
    rig.clock.advance(.seconds(3000))
    rig.transport.answer(.token, TokenServer.rotating)
    #expect(await eventually { (try? await rig.call(AccountRefresh.self, .init(account: "work")).refreshed) == true })
    // Who may use the account may ask for it, within a budget; who manages it as often as it likes.
    for _ in 0..<3 {
      _ = try await rig.call(AccountRefresh.self, .init(account: "work"), as: Self.neighbour)
    }
    #expect(
      await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work"), as: Self.neighbour) }
        == .temporarilyUnavailable)
    for _ in 0..<5 { #expect(try await rig.call(AccountRefresh.self, .init(account: "work")).refreshed) }
  }

  @Test("The provider is asked once, however many report and however short they wait; its answer counts all the same")
  func verifiedOnce() async throws {
    let store = MemoryStore()
    try await store.signIn("work", refreshes: false)
    let rules = [Rule(name: "r", uid: 1001, gid: nil, accounts: ["*"], access: [.use])]
    let settings = ProviderSettings.plain { $0.server.endpoints[.userinfo] = "https://id.example/userinfo" }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)], rules: rules))
    rig.transport.hold(.userinfo)
    rig.transport.answer(.userinfo) { _ in HTTPResponse(status: 401) }
    _ = try await token(rig, Self.attacker)
    for _ in 0..<20 {
      let params = TokenReportRejected.Params(account: "work", generation: 1, timeout: 0)
      #expect(await rig.reason { try await rig.call(TokenReportRejected.self, params, as: Self.attacker) } != nil)
    }
    #expect(await eventually { rig.transport.held(.userinfo) == 1 })
    await settle()
    #expect(rig.transport.held(.userinfo) == 1)
    rig.transport.release(.userinfo)
    #expect(await eventually { await rig.reason { try await token(rig, .root) } == .loginRequired })
    #expect(rig.transport.count(.userinfo) == 1)
  }

  @Test("Tokens of ever new resources have a budget per caller; a long min_ttl uses that of reports")
  func narrowed() async throws {
    let rig = try await rig()
    var served = 0
    for number in 0..<60 {
      // The provider's gate lets so many through in a while.
      rig.clock.advance(.seconds(1))
      let params = TokenGet.Params(account: "work", resource: "https://api.example/\(number)")
      if await rig.reason({ try await rig.call(TokenGet.self, params, as: Self.attacker) }) == nil { served += 1 }
    }
    #expect((32...34).contains(served))
    let other = TokenGet.Params(account: "work", resource: "https://api.example/other")
    #expect(await rig.reason { try await rig.call(TokenGet.self, other, as: Self.neighbour) } == nil)
    let before = rig.transport.count(.token)
    for _ in 0..<20 {
      rig.clock.advance(.seconds(400 / 20))
      let params = TokenGet.Params(account: "work", min_ttl: 1e9)
      #expect(await rig.reason { try await rig.call(TokenGet.self, params, as: Self.attacker) } == nil)
    }
    #expect(rig.transport.count(.token) - before <= 5)
  }
}
