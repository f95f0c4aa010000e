import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite(.scheduled) struct RefreshTests {
  @Test("200 callers of two expired accounts share one refresh each and never get the other's token")
  func case200CallersOfTwoExpiredAccountsShare()
    async throws
  {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(store: store)
    rig.transport.hold(.token)
    let callers = (0..<200).map { index in
      let name = index.isMultiple(of: 2) ? "work" : "home"
      return Task { (name, try await rig.token(name)) }
    }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    #expect(await eventually { await rig.broker.runtime.waiters.count == 200 })
    rig.transport.release(.token)
    for caller in callers {
      let (name, token) = try await caller.value
      #expect(token.access_token == "\(name)-a2")
      #expect(token.account == name && token.generation == 2)
    }
    #expect(rig.transport.count(.token) == 2)
  }

  @Test("A caller that hangs up cancels nothing shared") func aCallerThatHangsUpCancelsNothing() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.hold(.token)
    let first = Task { try await rig.token("work") }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let second = Task { try await rig.token("work") }
    first.cancel()
    rig.transport.release(.token)
    #expect(try await second.value.access_token == "work-a2")
    #expect(rig.transport.count(.token) == 1)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("A caller waits until its deadline at most, and the refresh continues") func aCallerWaitsNoLongerThanIts()
    async throws
  {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.hold(.token)
    let impatient = Task { await rig.reason { try await rig.token("work", timeout: 5) } }
    let patient = Task { try await rig.token("work", timeout: 60) }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 })
    rig.clock.advance(.seconds(5))
    #expect(await impatient.value == .timedOut)
    rig.transport.release(.token)
    #expect(try await patient.value.access_token == "work-a2")
  }

  @Test("A hanging refresh does not delay a token that is still valid") func whileTheTokenIsValidAHanging()
    async throws
  {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3590))
    let rig = try await Rig(store: store)
    rig.transport.hold(.token)
    let caller = Task { try await rig.token("work", timeout: 2) }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 1 && rig.clock.sleepers == 1 })
    rig.clock.advance(.seconds(2))
    #expect(try await caller.value.access_token == "work-a1")
    rig.transport.release(.token)
    #expect(await eventually { rig.store.token("work")?.accessToken == Secret("work-a2") })
  }

  @Test("The scheduler refreshes before the token ends, without callers")
  func theClockworkRefreshesBeforeTheTokenEnds() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    for _ in 0..<96 {
      #expect(await eventually { rig.clock.sleepers == 1 })
      rig.clock.advance(.seconds(30))
      await settle()
    }
    #expect(await eventually { rig.store.token("work")?.accessToken == Secret("work-a2") })
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("The request carries the refresh token once and the intent is on disk before it")
  func theRequestCarriesTheRefreshTokenOnce() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.hold(.token)
    let caller = Task { try await rig.token("work") }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(rig.store.intent("work")?.refreshTokenHash == Secret("work-r1").fingerprint)
    rig.transport.release(.token)
    _ = try await caller.value
    #expect(rig.store.intent("work") == nil)
    #expect(rig.transport.requests(.token).map { $0.form["refresh_token"] } == ["work-r1"])
  }

  @Test("A token's life counts from when its request was sent, not from when it had to queue")
  func aTokensLifeCountsFromWhenIts() async throws {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(store: store, configuration: .plain { $0.concurrentPerProvider = 1 })
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 100) }
    rig.transport.hold(.token)
    let first = Task { try await rig.token("work", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let second = Task { try await rig.token("home", timeout: 300) }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 })
    rig.clock.advance(.seconds(90))
    rig.transport.release(.token)
    #expect(try await second.value.expires_in == 100)
    _ = try? await first.value
    #expect(rig.transport.requests(.token).filter { $0.form["refresh_token"]?.hasPrefix("home") == true }.count == 1)
    #expect(rig.store.token("home")?.issuedAt == ManualClock.start + .seconds(90))
  }

  @Test(
    "A token that is already expired in its answer is neither requested again at once nor released", arguments: [0, 1])
  func aTokenThatIsOverWhenIt(_ lifetime: Int)
    async throws
  {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { request in
      rig.clock.advance(.seconds(2))
      return TokenServer.granted(request, lifetime: lifetime)
    }
    let reason = await rig.reason { try await rig.token("work") }
    #expect(reason == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == 1)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"), "the rotation must not be lost")
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    #expect(await eventually { rig.clock.sleepers == 1 })
    await settle()
    #expect(rig.transport.count(.token) <= 2)
  }

  @Test("Wanting more than a slow provider can give refreshes once") func wantingMoreThanASlowProviderCan() async throws
  {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { request in
      rig.clock.advance(.seconds(20))
      return TokenServer.granted(request, lifetime: 100)
    }
    let token = try await rig.token("work", minTTL: 86_400, timeout: 300)
    #expect(token.access_token == "work-a2" && token.expires_in == 80)
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("A token whose answer takes longer than it lives is not asked for again and again by one caller")
  func aTokenWhoseAnswerTakesLongerThan()
    async throws
  {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { request in
      rig.clock.advance(.seconds(11))
      return TokenServer.granted(request, lifetime: 10)
    }
    #expect(await rig.reason { try await rig.token("work", timeout: 300) } == .providerError)
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("A refused token is refreshed once for all who report it") func aRefusedTokenIsRefreshedOnceFor() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    rig.transport.hold(.token)
    let reports = (0..<20).map { _ in
      Task { try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 1)) }
    }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 20 })
    #expect(rig.cached("work") == nil)
    rig.transport.release(.token)
    for report in reports { #expect(try await report.value == .init(refreshed: true, generation: 2)) }
    let late = try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 1))
    #expect(late == .init(refreshed: false, generation: 2))
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("A refused token stays refused over a restart where there is no refresh token")
  func aRefusedTokenStaysRefusedOverA() async throws {
    let store = MemoryStore()
    try await store.signIn("work", refreshes: false)
    let rig = try await Rig(store: store)
    let report = await rig.reason {
      try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 1))
    }
    #expect(report == .loginRequired)
    let restarted = try await Rig(clock: rig.clock, store: store)
    #expect(await restarted.reason { try await restarted.token("work") } == .loginRequired)
    #expect(restarted.cached("work") == nil)
  }

  @Test("Errors name the wrong parameter") func errorsNameWhatIsWrongWithWhat() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    #expect(await rig.reason { try await rig.token("nobody") } == .unknownAccount)
    #expect(
      await rig.reason { try await rig.call(TokenGet.self, .init(account: "work", scopes: ["write"])) }
        == .scopeNotGranted)
    #expect(
      await rig.reason { try await rig.call(TokenGet.self, .init(account: "work", resource: "other")) }
        == nil)
    await #expect(throws: RPCError.self) { try await rig.token("work", minTTL: -1) }
    await #expect(throws: RPCError.self) { try await rig.token("work", timeout: -1) }
    await #expect(throws: RPCError.self) { try await rig.token("a b") }
  }
}

extension MemoryStore {
  /// A store with accounts whose tokens have expired.
  static func expired(_ names: String...) async throws -> MemoryStore {
    let store = MemoryStore()
    for name in names { try await store.signIn(name, age: .seconds(4000)) }
    return store
  }
}
