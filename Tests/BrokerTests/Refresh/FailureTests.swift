import BrokerAPI
import Foundation
import Grants
import OAuth
import Testing

@testable import Broker

/// What a failed refresh means to callers and to the account.
@Suite(.scheduled) struct FailureTests {
  @Test("A refused refresh token is tried twice; then callers get an answer at once, even after a restart")
  func aDeadGrantAnswersAtOnceAlso() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    #expect(await rig.reasonInTime { try await rig.token("work") } == .loginRequired)
    for _ in 0..<3 { #expect(await rig.reason { try await rig.token("work") } == .loginRequired) }
    #expect(rig.transport.count(.token) == 2)
    let restarted = try await Rig(clock: rig.clock, store: rig.store, transport: rig.transport)
    #expect(await restarted.reason { try await restarted.token("work") } == .loginRequired)
    #expect(rig.transport.count(.token) == 2)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
    #expect(try await restarted.view("work").state == .loginRequired)
  }

  @Test("A first refusal is on disk, announces no login, and is followed by one more attempt, even after a restart")
  func refusedOnce() async throws {
    let rig = try await Rig(store: .expired("work"))
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session)
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    let waiting = Task { try await rig.token("work").access_token }
    #expect(await eventually { rig.store.grant("work")?.isRefusedOnce == true })
    #expect(await eventually { session.types == ["token.failed"] })
    await settle()
    #expect(rig.transport.count(.token) == 1 && session.types == ["token.failed"])
    #expect(try await rig.view("work").state == .degraded)
    #expect(try await rig.view("work").last_error?.reason == .temporarilyUnavailable)
    // Another broker on the same store, as after a restart.
    let store = MemoryStore()
    try await store.commit([
      .putGrant(try #require(rig.store.grant("work"))), .putToken(try #require(rig.store.token("work"))),
    ])
    let restarted = try await Rig(store: store)
    restarted.transport.answer(.token, TokenServer.refused("invalid_grant"))
    #expect(await restarted.reasonInTime { try await restarted.token("work") } == .loginRequired)
    #expect(restarted.transport.count(.token) == 1)

    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(2))
    #expect(try await waiting.value == "work-a2")
    #expect(rig.store.grant("work")?.isRefusedOnce == false && rig.transport.count(.token) == 2)
    #expect(!session.types.contains("login.required"))
  }

  @Test("A refusal before the access token's end announces no login before the second attempt after it")
  func earlyRefusal() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session)
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    #expect(
      await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work", now: true)) }
        == .temporarilyUnavailable)
    let view = try await rig.view("work")
    #expect(view.state == .degraded && view.last_error?.reason == .temporarilyUnavailable)
    #expect(view.last_error?.hint.contains("works until its end") == true)
    #expect(try await rig.token("work").access_token == store.token("work")?.accessToken.exposed)
    #expect(!session.types.contains("login.required"))
    let end = try #require(store.token("work")?.expiresAt)
    rig.clock.advance(end - rig.clock.now + .seconds(1))
    #expect(await rig.reasonInTime { try await rig.token("work") } == .loginRequired)
    #expect(session.types.filter { $0 == "login.required" }.count == 1 && rig.transport.count(.token) == 2)
    #expect(try await rig.view("work").state == .loginRequired)
  }

  @Test("A refresh that fails for ten minutes after the access token's end probably means an ended grant")
  func probablyEnded() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { _ in reply("", status: 400) }
    func hint() async throws -> String { try await rig.view("work").last_error?.hint ?? "" }
    _ = await rig.reason { try await rig.token("work") }
    #expect(try await hint().hasPrefix("Nothing to do"))
    for _ in 0..<3 {
      rig.clock.advance(.seconds(400))
      _ = await rig.reason { try await rig.token("work") }
    }
    #expect(try await hint().hasPrefix("The provider probably ended this grant: `grantctl login example work`"))
    #expect(try await rig.view("work").state == .degraded)
  }

  @Test("A temporary error is repeated at growing intervals, for a caller after 5 s, and does not end the grant")
  func whatMayPassIsTriedAgainAt() async throws {
    let rig = try await Rig(
      store: .expired("work"),
      configuration: .plain {
        $0.jitter = 0
        // In an outage a caller's request may try sooner.
        $0.outageThreshold = 100
      })
    rig.transport.answer(.token) { _ in HTTPResponse(status: 503) }
    _ = await rig.broker.tick()
    for (tries, wait) in [(1, 5), (2, 15), (3, 60), (4, 300), (5, 900), (6, 900)] {
      #expect(await eventually { rig.transport.count(.token) == tries })
      await settle()
      rig.clock.advance(.seconds(wait - 1))
      _ = await rig.broker.tick()
      await settle()
      #expect(rig.transport.count(.token) == tries, "asked again too early")
      rig.clock.advance(.seconds(1))
      _ = await rig.broker.tick()
    }
    #expect(await eventually { rig.transport.count(.token) == 7 })
    await settle()
    // Without waiting for the next interval, but not at each request.
    for tries in 7...9 {
      rig.clock.advance(.seconds(4))
      #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
      #expect(rig.transport.count(.token) == tries, "asked again too early")
      rig.clock.advance(.seconds(1))
      #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
      #expect(rig.transport.count(.token) == tries + 1)
    }
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(5))
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(try await rig.view("work").last_error == nil)
  }

  @Test("A lost answer, then invalid_grant, is a lost rotation; over a restart as well")
  func aLostAnswerThenInvalidGrantIs() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.failing(.lost))
    #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
    #expect(rig.store.intent("work")?.attempts == 1)
    rig.clock.advance(.seconds(10))
    let restarted = try await Rig(clock: rig.clock, store: rig.store)
    restarted.transport.answer(.token, TokenServer.refused("invalid_grant"))
    do {
      _ = try await restarted.token("work")
      Issue.record("a token out of nothing")
    } catch {
      #expect((error as? RPCError)?.detail == "lost_rotation")
    }
    #expect(rig.store.intent("work")?.attempts == 1, "for a login that brings no other refresh token")
  }

  @Test("A lost answer, then a refused client, then invalid_grant, is a lost rotation still")
  func aLostAnswerThenARefusedClient() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.failing(.lost))
    #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
    rig.clock.advance(.seconds(10))
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    #expect(await rig.reason { try await rig.token("work") } == .providerMisconfigured)
    #expect(rig.store.intent("work") != nil)
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    do {
      _ = try await rig.token("work")
      Issue.record("a token out of nothing")
    } catch {
      #expect((error as? RPCError)?.detail == "lost_rotation")
    }
  }

  @Test("A clock that steps back by a year stops no retry")
  func aWallClockThatStepsBackBy() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token) { _ in HTTPResponse(status: 503) }
    #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.step(.seconds(-365 * 86_400))
    await theClockworkRefreshes(rig)
    #expect(rig.transport.count(.token) == 2)
  }

  @Test("A wall clock that steps back by a year lifts a suspension rather than making it last a year")
  func aWallClockThatStepsBackBy2()
    async throws
  {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    #expect(await rig.reason { try await rig.token("work") } == .providerMisconfigured)
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.step(.seconds(-365 * 86_400))
    await theClockworkRefreshes(rig)
  }

  @Test("A clock that steps by a year causes no storm", arguments: [365 * 86_400, -365 * 86_400])
  func aClockThatStepsByAYear(_ step: Int) async throws {
    let store = MemoryStore()
    for index in 0..<20 { try await store.signIn("account-\(index)") }
    let rig = try await Rig(store: store)
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    #expect(await eventually { rig.clock.sleepers == 1 })
    rig.clock.step(.seconds(step))
    for _ in 0..<4 {
      rig.clock.advance(.seconds(30))
      await settle()
      #expect(await eventually { rig.clock.sleepers >= 1 })
    }
    #expect(rig.transport.count(.token) <= 20)
  }

  /// Within three rounds of the clockwork.
  private func theClockworkRefreshes(_ rig: Rig) async {
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    for _ in 0..<3 {
      #expect(await eventually { rig.clock.sleepers >= 1 })
      rig.clock.advance(.seconds(30))
      await settle()
    }
    #expect(await eventually { rig.store.token("work")?.accessToken == Secret("work-a2") })
  }
}
