import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Testing

@testable import Broker

/// A provider that asks for a longer pause than a caller should wait.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct RetryAfterTests {
  private static let names = (0..<5).map { "account-\($0)" }

  /// The first account's refresh failed so; in an outage, those of all.
  private func locked(_ status: Int, outage: Bool) async throws -> Rig {
    let store = MemoryStore()
    for name in Self.names { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(store: store, configuration: .plain { $0.jitter = 0 })
    rig.transport.answer(.token) { _ in
      HTTPResponse(status: status, headers: [.init("Retry-After", "86400")])
    }
    for name in Self.names.prefix(outage ? 5 : 1) {
      #expect(await rig.reason { try await rig.token(name) } == .temporarilyUnavailable)
    }
    // A 429 is not an outage, and holds all accounts.
    #expect(
      (await rig.broker.providers[provider("example")]?.gate.circuit.outage != nil) == (outage && status != 429))
    return rig
  }

  @Test("No caller waits longer than longest_retry_after", arguments: [429, 503], [false, true])
  func bounded(_ status: Int, outage: Bool) async throws {
    let rig = try await locked(status, outage: outage)
    do {
      _ = try await rig.token("account-0")
      Issue.record("a token out of nothing")
    } catch {
      #expect((error as? RPCError)?.retry_after == 300)
    }
    rig.transport.answer(.token, TokenServer.rotating)
    let sent = rig.transport.count(.token)
    // A caller whose own time ends later waits.
    rig.clock.advance(.seconds(269))
    #expect(await rig.reason { try await rig.token("account-0") } == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == sent)
    rig.clock.advance(.seconds(31))
    #expect(try await rig.token("account-0").access_token == "account-0-a2")
  }

  @Test("A question of the broker's own that the provider puts off is put off for five minutes at most")
  func boundedQuestion() {
    for (asked, told) in [(86_400, 300), (120, 120), (nil, 30)] as [(Int64?, Double)] {
      for failure in [
        ProviderFailure.tryLater(message: "busy", nil, retryAfter: asked.map { .seconds($0) }),
        .unclear(message: "busy", retryAfter: asked.map { .seconds($0) }),
      ] {
        #expect(providerError(failure, provider: provider("example"), correction: "").retry_after == told)
      }
    }
  }

  enum Release: CaseIterable, Sendable {
    case refresh, check, reload, restart
  }

  @Test(
    "account.refresh, a check that succeeds, a reload and a restart try at once", arguments: Release.allCases,
    [false, true])
  func released(_ release: Release, outage: Bool) async throws {
    let rig = try await locked(503, outage: outage)
    rig.transport.answer(.token, TokenServer.rotating)
    var after = rig
    switch release {
    case .refresh:
      let result = try await rig.call(AccountRefresh.self, .init(account: "account-0"))
      #expect(result == .init(refreshed: true, generation: 2))
    case .check: #expect(try await rig.call(ProviderCheck.self, .init(provider: "example")).ok)
    case .reload: _ = try await rig.call(BrokerReload.self, NoParams())
    case .restart: after = try await Rig(clock: rig.clock, store: rig.store)
    }
    #expect(try await after.token("account-0").access_token == "account-0-a2")
  }

  @Test("A restart during an outage starts the account's delays from the beginning")
  func restartedInOutage() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(4000))
    let rig = try await Rig(store: store, configuration: .plain { $0.jitter = 0 })
    rig.transport.answer(.token) { _ in HTTPResponse(status: 503) }
    for wait in [5, 15, 60, 300, 900] {
      _ = await rig.reason { try await rig.token("work") }
      rig.clock.advance(.seconds(wait - 1))
    }
    let after = try await Rig(clock: rig.clock, store: rig.store, configuration: .plain { $0.jitter = 0 })
    after.transport.answer(.token) { _ in HTTPResponse(status: 503) }
    #expect(await after.reason { try await after.token("work") } == .temporarilyUnavailable)
    after.transport.answer(.token, TokenServer.rotating)
    after.clock.advance(.seconds(6))
    #expect(try await after.token("work").access_token == "work-a2")
  }

  @Test("account.refresh is for callers with `use`, and has no effect on an account without a refresh")
  func who() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3500))
    try await store.signIn("session", refreshes: false)
    let access: [Access] = [.observe, .login]
    let rule = Rule(name: "alice", uid: 1000, gid: nil, accounts: ["*"], access: Set(access))
    let rig = try await Rig(store: store, configuration: .plain(rules: [rule]))
    let alice = Caller.user(1000)
    #expect(
      await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work"), as: alice) } == .notPermitted)
    #expect(rig.transport.count(.token) == 0)
    #expect(
      await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "session")) } == .unsupportedByProvider)
    #expect(try await rig.token("session").access_token == "session-a1")
    #expect(await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "none")) } == .unknownAccount)
    // The old one is released until there is a new one.
    rig.transport.answer(.token) { _ in HTTPResponse(status: 503) }
    for _ in 0..<2 {
      #expect(
        await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work")) } == .temporarilyUnavailable)
    }
    #expect(rig.transport.count(.token) == 2)
    #expect(try await rig.token("work").access_token == "work-a1")
  }

  @Test("account.refresh lifts the rest of a provider that refused the client")
  func suspended() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    #expect(await rig.reason { try await rig.token("work") } == .providerMisconfigured)
    rig.transport.answer(.token, TokenServer.rotating)
    #expect(try await rig.call(AccountRefresh.self, .init(account: "work")).refreshed)
    #expect(try await rig.token("work").access_token == "work-a2")
  }

  @Test("A check that the provider does not answer releases nothing")
  func checkFails() async throws {
    let rig = try await locked(503, outage: true)
    rig.transport.answer(.discovery, TokenServer.failing(.notSent))
    #expect(try await !rig.call(ProviderCheck.self, .init(provider: "example")).ok)
    let sent = rig.transport.count(.token)
    #expect(await rig.reason { try await rig.token("account-0") } == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == sent)
  }
}
