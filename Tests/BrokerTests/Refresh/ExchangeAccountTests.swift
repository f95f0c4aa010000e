import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Accounts that trade another account's token, at their provider's gate.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ExchangeAccountTests {
  private func configuration(
    _ names: [String], from: String = "work", _ change: (inout RefreshPolicy) -> Void = { _ in }
  ) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain(
      [
        OAuthProvider(.plain()),
        OAuthProvider(.plain("other") { $0.server.endpoints[.token] = "https://other.example/token" }),
      ],
      change)
    configuration.accounts = names.map { .robot(ExchangeSource(from: account(from)), name: $0) }
    return configuration
  }

  @Test("As many of them as the provider has places wait for a subject of the same provider, and all get a token")
  func places() async throws {
    let names = (0..<RefreshPolicy().concurrentPerProvider).map { "robot-\($0)" }
    let rig = try await Rig(store: .expired("work"), configuration: configuration(names))
    rig.transport.answer(.token, TokenServer.trading)
    let callers = names.map { name in Task { try? await rig.token(name, timeout: 300).access_token } }
    guard await eventually({ names.allSatisfy { rig.store.token($0) != nil } }) else {
      Issue.record("stalled after \(rig.transport.count(.token)) requests")
      return
    }
    for caller in callers { #expect(await caller.value == "work-a2-for-all") }
    #expect(rig.transport.count(.token) == names.count + 1)
    #expect(await rig.broker.providers[provider("example")]?.gate.inFlight == 0)
  }

  @Test("Without callers: they are refreshed through a single slot")
  func due() async throws {
    let rig = try await Rig(
      store: .expired("work"), configuration: configuration(["robot"]) { $0.concurrentPerProvider = 1 })
    rig.transport.answer(.token, TokenServer.trading)
    for _ in 0..<2 {
      _ = await rig.broker.tick()
      await settle()
    }
    #expect(rig.store.token("robot")?.accessToken == Secret("work-a2-for-all"))
  }

  @Test("An account whose subject has no token does not change its provider's outage")
  func blocked() async throws {
    let store = try await MemoryStore.expired("a", "b", "c", "d", "e")
    try await store.signIn("work", provider: "other", age: .seconds(7200))
    let rig = try await Rig(store: store, configuration: configuration(["robot"]))
    let session = FakeSession(.root)
    _ = try await rig.call(
      EventsSubscribe.self, .init(events: ["provider.unreachable", "provider.recovered"]), on: session)
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    for name in ["a", "b", "c", "d", "e"] { _ = await rig.reason { try await rig.token(name) } }
    #expect(session.types == ["provider.unreachable"])
    rig.clock.advance(.seconds(30))
    #expect(await rig.reason { try await rig.token("robot") } == .temporarilyUnavailable)
    #expect(session.types == ["provider.unreachable"])
    // Another one was tried in its place.
    let gate = await rig.broker.providers[provider("example")]?.gate
    #expect(gate?.circuit.outage != nil)
    #expect(await eventually { await rig.broker.providers[provider("example")]?.gate.inFlight == 0 })
    rig.transport.answer(.token, TokenServer.trading)
    rig.clock.advance(.seconds(30))
    #expect(try await rig.token("robot").access_token == "work-a2-for-all")
    #expect(session.types == ["provider.unreachable", "provider.recovered"])
  }

  @Test("A token to trade that has grown old while its account waited for a place is fetched again")
  func grownOld() async throws {
    let store = try await MemoryStore.expired("home")
    try await store.signIn("work", provider: "other", age: .seconds(7200))
    let rig = try await Rig(
      store: store, configuration: configuration(["robot"]) { $0.concurrentPerProvider = 1 })
    rig.transport.answer(.token) { request throws(TransportError) in
      request.url.host() == "other.example"
        ? TokenServer.granted(request, lifetime: 120) : try TokenServer.trading(request)
    }
    rig.transport.hold(.token)
    let first = Task { try? await rig.token("home", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let robot = Task { try? await rig.token("robot", timeout: 300).access_token }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    #expect(await eventually { rig.store.token("work")?.accessToken == Secret("work-a2") })
    #expect(await rig.isIdle(account("robot")))
    rig.clock.advance(.seconds(119))
    rig.transport.release(.token)
    _ = await first.value
    #expect(await robot.value == "work-a3-for-all")
  }
}

extension Rig {
  /// Waits until the account has the tokens that it trades.
  fileprivate func isIdle(_ account: AccountName) async -> Bool {
    await eventually {
      let (isFetching, underWay) = await (
        broker.engine.trades.fetching.contains(account), broker.engine.leases.inFlight
      )
      return !isFetching && underWay == 1
    }
  }
}
