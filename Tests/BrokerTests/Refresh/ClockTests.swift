import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Testing

@testable import Broker

/// A wall clock that is set while the broker runs.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ClockTests {
  static let year = 365 * 86_400

  @Test(
    "A clock that is behind at the start: a token on disk is refreshed first, and never has more than its lifetime left",
    arguments: [86_400, 56 * year])
  func behindAtStart(_ seconds: Int) async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(-seconds))
    try await store.signIn("fixed", age: .seconds(-seconds), refreshes: false)
    let rig = try await Rig(store: store)
    let clock = try await rig.call(BrokerStatus.self, NoParams()).clock
    #expect(clock?.behind_seconds == Int64(seconds))
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    for name in ["work", "fixed", "work"] {
      let token = try await rig.token(name)
      #expect(token.access_token == "\(name)-a1" && token.expires_in == 3600)
      #expect(token.expires_at == rig.clock.now.seconds + 3600)
      #expect(rig.cached(name) == nil)
    }
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(60))
    #expect(try await rig.token("work").access_token == "work-a2")
    rig.clock.step(.seconds(seconds))
    _ = await rig.broker.tick()
    #expect(try await rig.call(BrokerStatus.self, NoParams()).clock == nil)
  }

  @Test(
    "A clock that is set by a year costs tokens of this run nothing, and they show their end by the new time",
    arguments: [year, -year, 3600, -3600])
  func tokensOfThisRun(_ step: Int) async throws {
    let rig = try await Rig(store: .expired("work"))
    _ = try await rig.token("work")
    rig.clock.advance(.seconds(60))
    rig.clock.step(.seconds(step))
    // The clock was not checked yet: the fast path does not need it.
    #expect(rig.cached("work")?.expiresIn == 3540)
    _ = await rig.broker.tick()
    await settle()
    #expect(rig.transport.count(.token) == 1)
    let token = try await rig.token("work")
    #expect(token.access_token == "work-a2")
    #expect(token.expires_at == rig.clock.now.seconds + 3540)
    #expect(rig.cached("work")?.expiresIn == 3540)
    // No caller waits for that commit.
    #expect(await eventually { rig.store.token("work")?.expiresAt == rig.clock.now + .seconds(3540) })
  }

  @Test(
    "A token of a sign-in ends in time, even if the clock is set while the provider or disk is slow",
    arguments: [true, false], [86_400, -86_400])
  func signIn(duringCommit: Bool, _ step: Int) async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    if duringCommit { rig.store.set(.hangs, concerning: isRenewal) } else { rig.transport.hold(.token) }
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { duringCommit ? rig.store.hanging == 1 : rig.transport.held(.token) == 1 })
    rig.clock.advance(.seconds(10))
    rig.clock.step(.seconds(step))
    _ = await rig.broker.tick()
    rig.transport.release(.token)
    rig.store.set(.works)
    #expect(await callback.value.kind == .completed)
    let token = try await rig.token("work")
    #expect(token.access_token == "work-a1" && token.expires_in == 3590)
    #expect(await eventually { rig.store.token("work")?.expiresAt == rig.clock.now + .seconds(3590) })
  }

  @Test("Three hundred tokens from before a clock leapt are refreshed over a minute, not at once")
  func noStorm() async throws {
    let store = MemoryStore()
    for index in 0..<300 { try await store.signIn("account-\(index)") }
    let rig = try await Rig(store: store)
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    #expect(await rig.clockworkRests())
    rig.clock.step(.seconds(Self.year))
    await rig.broker.recheck(.clockStepped)
    #expect(await eventually { rig.transport.count(.token) > 0 })
    #expect(await rig.clockworkRests())
    #expect(rig.transport.count(.token) <= 40)
    // Thirty-five are enough; on a busy machine, requests of one round end in the next.
    for _ in 0..<60 where rig.transport.count(.token) < 300 {
      rig.clock.advance(.seconds(2))
      #expect(await rig.clockworkRests())
    }
    #expect(rig.transport.count(.token) == 300)
  }

  @Test("A machine that starts with a wrong clock is right again once it is set", arguments: [year, -year])
  func wrongAtBoot(_ wrong: Int) async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let clock = ManualClock()
    clock.step(.seconds(wrong))
    let rig = try await Rig(clock: clock, store: store)
    // TLS does not work with such a clock.
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    for _ in 0..<20 {
      clock.advance(.seconds(1))
      await settle()
    }
    clock.step(.seconds(-wrong))
    rig.transport.answer(.token, TokenServer.rotating)
    await rig.broker.recheck(.clockStepped)
    await settle()
    #expect(try await rig.token("work").access_token?.hasPrefix("work-a") == true)
    #expect(await eventually { (try? await rig.view("work").state) == .ok })
    #expect(rig.store.grant("work")?.refreshToken != nil)
  }

  @Test("A pending login of this run keeps its limit, and no caller waits longer after the clock is set back")
  func loginsAndDeadlines() async throws {
    let rig = try await Rig(store: .expired("work"))
    let login = try await rig.start(account: "home")
    rig.transport.hold(.token)
    let caller = Task { await rig.reason { try await rig.token("work", timeout: 10) } }
    #expect(await eventually { rig.transport.held(.token) == 1 && rig.clock.sleepers == 1 })
    rig.clock.step(.seconds(-Self.year))
    _ = await rig.broker.tick()
    await settle()
    rig.clock.advance(.seconds(10))
    #expect(await caller.value == .timedOut)
    rig.clock.step(.seconds(2 * Self.year))
    _ = await rig.broker.tick()
    rig.transport.release(.token)
    #expect(await rig.callBack(login).kind == .completed)
  }

  @Test("A clock that was set is an event, and a drifting one is not", arguments: [(1, 0), (3, 1), (-3, 1)])
  func event(_ step: Int, _ events: Int) async throws {
    let rig = try await Rig()
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["clock.stepped"]), on: session)
    rig.clock.step(.seconds(step))
    _ = await rig.broker.tick()
    #expect(session.told.count == events)
  }

  @Test(
    "The provider's Date tells how far the clocks are apart",
    arguments: [("Fri, 15 Jan 2027 08:00:00 GMT", 0), ("Fri, 15 Jan 2027 07:55:00 GMT", 299), ("nonsense", nil)])
  func skew(_ date: String, _ ahead: Int64?) async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { request in
      var answer = TokenServer.granted(request, lifetime: 3600)
      answer.headers.append(.init("Date", date))
      return answer
    }
    _ = try await rig.token("work")
    let skew = await rig.broker.providers[provider("example")]?.observed.skew
    #expect((skew?.offset.wholeSeconds) == ahead)
  }
}

@Suite(.scheduled, .timeLimit(.minutes(5))) struct ExpiringTests {
  @Test("A refresh token that will end is announced a week before and on its last day, once each, over restarts")
  func announced() async throws {
    let store = MemoryStore()
    try await store.signIn("work", lifetime: nil)
    var saved = store.grant("work")!
    saved.refreshTokenIssuedAt = ManualClock.start
    saved.refreshTokenExpiresAt = ManualClock.start + .seconds(90 * 86_400)
    try await store.commit([.putGrant(saved)])
    let clock = ManualClock()
    var told: [Int64] = []
    for day in 0..<89 {
      // A restart every day.
      let rig = try await Rig(clock: clock, store: store)
      rig.transport.answer(.token) { TokenServer.granted($0, lifetime: nil, rotates: false) }
      let session = FakeSession(.root)
      _ = try await rig.call(EventsSubscribe.self, .init(events: ["refresh_token.expiring"]), on: session)
      for _ in 0..<3 { _ = await rig.broker.tick() }
      #expect(await eventually { store.grant("work")?.expiryAnnouncedAt == nil || !session.told.isEmpty || day > 83 })
      await settle()
      told += session.told.map { _ in Int64(day) }
      if let event = session.told.first {
        #expect(event["account"]?.string == "work" && event["hint"]?.string?.contains("grantctl login") == true)
        #expect(event["refresh_expires_at"]?.integer == saved.refreshTokenExpiresAt?.seconds)
      }
      clock.advance(.seconds(86_400))
    }
    #expect(told == [83])
  }

  @Test("Two grants that ended at one age give a learned lifetime, even after a restart")
  func learned() async throws {
    let store = MemoryStore()
    let clock = ManualClock()
    try await store.signIn("first", age: .seconds(7 * 86_400))
    let rig = try await Rig(clock: clock, store: store)
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    #expect(await rig.reasonInTime { try await rig.token("first") } == .loginRequired)
    clock.advance(.seconds(3 * 86_400))
    try await store.signIn("second", age: .seconds(7 * 86_400), at: clock.now)
    try await store.signIn("third", age: .seconds(6 * 86_400), at: clock.now)
    let restarted = try await Rig(clock: clock, store: store, transport: rig.transport)
    #expect(await restarted.reasonInTime { try await restarted.token("second") } == .loginRequired)
    let third = try #require(await restarted.broker.accounts[account("third")])
    let end = try #require(await restarted.broker.accounts.refreshTokenEnd(of: third))
    #expect(end.isLearned)
    #expect(abs((end.at - clock.now - .seconds(86_400)).wholeSeconds) < 60)
  }
}

@Suite(.scheduled) struct ClockAndRevocationTests {
  @Test(
    "A revocation that waits for its provider is neither given up nor put off by a clock that was set",
    arguments: [ClockTests.year, -ClockTests.year])
  func revocationWaits(_ step: Int) async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    _ = try await rig.call(AccountLogout.self, .init(account: "work"))
    #expect(rig.transport.count(.revocation) == 1)
    // What comes next is told from the end of an attempt.
    #expect(await eventually { rig.store.revocations.first?.attempts == 1 })
    rig.clock.step(.seconds(step))
    _ = await rig.broker.tick()
    rig.clock.advance(.seconds(60))
    _ = await rig.broker.tick()
    // The step itself may have made one due, and the minute another.
    #expect(await eventually { rig.transport.count(.revocation) >= 2 })
    #expect(
      await eventually { rig.store.revocations.first?.attempts == rig.transport.count(.revocation) })
    rig.clock.advance(.seconds(300))
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 200) }
    rig.clock.advance(.seconds(60))
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.revocations.isEmpty })
  }
}
