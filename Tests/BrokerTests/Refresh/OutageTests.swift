import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A provider that does not answer, seen from the broker.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct OutageTests {
  private func names(_ count: Int) -> [String] { (0..<count).map { "account-\($0)" } }

  private func expired(_ count: Int, lifetime: Duration = .seconds(3600)) async throws -> MemoryStore {
    let store = MemoryStore()
    for name in names(count) { try await store.signIn(name, age: lifetime + .seconds(100), lifetime: lifetime) }
    return store
  }

  /// Lets so many seconds pass while the clockwork runs.
  private func pass(_ rig: Rig, seconds: Int, step: Int = 1) async {
    for _ in 0..<(seconds / step) {
      rig.clock.advance(.seconds(step))
      #expect(await rig.clockworkRests())
    }
  }

  @Test("An outage with 1,000 accounts is a few requests a minute, ends nothing, and causes no burst at its end")
  func aThousandAccounts() async throws {
    let rig = try await Rig(store: expired(1000))
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    #expect(await rig.clockworkRests())
    await pass(rig, seconds: 60, step: 2)
    let first = rig.transport.count(.token)
    #expect(first <= 20)
    await pass(rig, seconds: 600, step: 10)
    #expect(rig.transport.count(.token) - first <= 10 * 4)
    #expect(try await rig.view("account-1").state == .degraded)
    #expect(await rig.reason { try await rig.token("account-1") } == .temporarilyUnavailable)
    #expect(names(1000).allSatisfy { rig.store.grant($0)?.refreshToken == Secret("\($0)-r1") })

    let before = rig.transport.count(.token)
    rig.transport.answer(.token, TokenServer.rotating)
    var busiest = 0
    var last = before
    for _ in 0..<55 {
      await pass(rig, seconds: 2, step: 2)
      busiest = max(busiest, rig.transport.count(.token) - last)
      last = rig.transport.count(.token)
    }
    #expect(last - before == 1000)
    #expect(busiest <= 80)
    #expect(names(1000).allSatisfy { rig.store.token($0)?.accessToken == Secret("\($0)-a2") })
  }

  @Test("Callers with a valid token never notice an outage, and the others learn at once when it is tried again")
  func callers() async throws {
    let store = try await expired(6)
    try await store.signIn("valid", age: .seconds(3200))
    let rig = try await Rig(store: store)
    rig.transport.answer(.token) { _ in HTTPResponse(status: 503) }
    for name in names(5) { #expect(await rig.reason { try await rig.token(name) } == .temporarilyUnavailable) }
    let count = rig.transport.count(.token)
    #expect(await rig.reason { try await rig.token("account-5") } == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == count)
    #expect(try await rig.token("valid").access_token == "valid-a1")
    #expect(rig.cached("valid") != nil)
  }

  @Test("Both turns of an outage are events")
  func events() async throws {
    let rig = try await Rig(store: expired(5))
    let session = FakeSession(.root)
    _ = try await rig.call(
      EventsSubscribe.self, .init(events: ["provider.unreachable", "provider.recovered"]), on: session)
    rig.transport.answer(.token, TokenServer.failing(.timedOut))
    for name in names(5) { _ = await rig.reason { try await rig.token(name) } }
    #expect(session.types == ["provider.unreachable"])
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(30))
    #expect(try await rig.token("account-0").access_token == "account-0-a2")
    #expect(session.types == ["provider.unreachable", "provider.recovered"])
  }

  @Test("One account that its provider always fails stops no other")
  func oneSickAccount() async throws {
    let rig = try await Rig(store: expired(4))
    rig.transport.answer(.token) { request in
      request.form["refresh_token"] == "account-0-r1"
        ? HTTPResponse(status: 500) : TokenServer.granted(request, lifetime: 3600)
    }
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    #expect(await rig.clockworkRests())
    await pass(rig, seconds: 60)
    for name in names(4).dropFirst() { #expect(rig.store.token(name)?.accessToken == Secret("\(name)-a2")) }
    // No other account is due for a long time, and then all are.
    await pass(rig, seconds: 3900, step: 15)
    for name in names(4).dropFirst() { #expect(rig.store.token(name)?.accessToken == Secret("\(name)-a3")) }
    #expect(try await rig.view("account-0").state == .degraded)
  }

  @Test(
    "Some refused requests are not an outage: other accounts are refreshed, and these have a delay",
    arguments: [
      reply(#"{"error":"invalid_request"}"#, status: 400), reply(#"{"error":"something_new"}"#, status: 403),
      HTTPResponse(status: 400), HTTPResponse(status: 404),
    ])
  func refusals(_ refusal: HTTPResponse) async throws {
    let rig = try await Rig(store: expired(8))
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["provider.unreachable"]), on: session)
    rig.transport.answer(.token) { _ in refusal }
    for name in names(7) { #expect(await rig.reason { try await rig.token(name) } == .temporarilyUnavailable) }
    #expect(rig.transport.count(.token) == 7)
    rig.transport.answer(.token, TokenServer.rotating)
    #expect(try await rig.token("account-7").access_token == "account-7-a2")
    #expect(session.types.isEmpty)
    // It is tried again by itself, in its own time.
    #expect(try await rig.view("account-0").state == .degraded)
    #expect(await rig.reason { try await rig.token("account-0") } == .temporarilyUnavailable)
    rig.clock.advance(.seconds(5))
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.token("account-0")?.accessToken == Secret("account-0-a2") })
  }

  @Test(
    "When the network is back everything that waits is tried at once", arguments: [RecheckCause.networkUp, .resumed])
  func recheck(_ cause: RecheckCause) async throws {
    let rig = try await Rig(store: expired(3))
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    #expect(await rig.clockworkRests())
    await pass(rig, seconds: 1200, step: 10)
    rig.transport.answer(.token, TokenServer.rotating)
    await rig.broker.recheck(cause)
    for name in names(3) {
      #expect(await eventually { rig.store.token(name)?.accessToken == Secret("\(name)-a2") })
    }
  }

  @Test("A caller waiting for a probe learns its failure within its own limit")
  func waitsForTheProbe() async throws {
    let rig = try await Rig(store: expired(6))
    rig.transport.answer(.token, TokenServer.failing(.lost))
    for name in names(5) { _ = await rig.reason { try await rig.token(name) } }
    rig.clock.advance(.seconds(5))
    rig.transport.hold(.token)
    let probe = Task { await rig.reason { try await rig.token("account-1", timeout: 300) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let other = Task { await rig.reason { try await rig.token("account-5", timeout: 300) } }
    let hasty = Task { await rig.reason { try await rig.token("account-4", timeout: 2) } }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 3 })
    rig.clock.advance(.seconds(2))
    #expect(await hasty.value == .timedOut)
    rig.transport.release(.token)
    #expect(await probe.value == .temporarilyUnavailable)
    #expect(await other.value == .temporarilyUnavailable)
  }
}

extension Rig {
  /// Waits until nothing is under way and the clockwork sleeps, alone.
  func clockworkRests() async -> Bool {
    await eventually { await broker.engine.leases.inFlight == 0 && clock.sleepers == 1 }
  }
}
