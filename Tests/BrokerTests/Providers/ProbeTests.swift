import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import TestSupport
import Testing

@testable import Broker

/// The caller that tries an unavailable provider, and how long the others wait for it.
@Suite("Probes of a provider that does not answer", .scheduled, .timeLimit(.minutes(5))) struct ProbeTests {
  private static let names = (0..<8).map { "account-\($0)" }

  /// An outage after five lost answers; the next probe comes five seconds later.
  private func outage(_ change: (inout RefreshPolicy) -> Void = { _ in }) async throws -> Rig {
    let store = MemoryStore()
    for name in Self.names { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(
      store: store,
      configuration: .plain {
        $0.jitter = 0
        change(&$0)
      })
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    for name in Self.names.prefix(5) { _ = await rig.reason { try await rig.token(name) } }
    return rig
  }

  private func tick(_ rig: Rig, after seconds: Int) async {
    rig.clock.advance(.seconds(seconds))
    _ = await rig.broker.tick()
    // Whatever began has been sent, and has ended unless it is held.
    #expect(await eventually { await rig.broker.engine.leases.inFlight == rig.transport.held(.token) })
  }

  @Test("A stuck probe delays others by at most five seconds, and its answer is still read")
  func stuck() async throws {
    let rig = try await outage()
    rig.transport.answer(.token, TokenServer.rotating)
    rig.transport.hold(.token)
    await tick(rig, after: 5)
    #expect(rig.transport.held(.token) == 1)
    await tick(rig, after: 4)
    #expect(rig.transport.held(.token) == 1)
    await tick(rig, after: 1)
    #expect(rig.transport.held(.token) == 2)
    let probes = rig.transport.requests(.token).suffix(2).compactMap { $0.form["refresh_token"] }
    #expect(Set(probes).count == 2)
    rig.transport.releaseOne(.token, last: true)
    #expect(await eventually { await rig.broker.providers[provider("example")]?.gate.circuit.outage == nil })
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
    for name in probes.map({ String($0.dropLast(3)) }) {
      #expect(rig.store.grant(name)?.refreshToken == Secret("\(name)-r2"))
    }
  }

  @Test("Probes that are stuck are fewer and fewer, and no more than the provider has places")
  func bounded() async throws {
    let rig = try await outage { $0.concurrentPerProvider = 3 }
    rig.transport.hold(.token)
    var began: [Int] = []
    for second in 1...120 {
      await tick(rig, after: 1)
      while began.count < rig.transport.held(.token) { began.append(second) }
    }
    #expect(began == [5, 10, 20])
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
  }

  @Test("If stuck requests fill all slots, a caller is informed that the provider does not answer", arguments: [1, 2])
  func full(places: Int) async throws {
    let rig = try await outage { $0.concurrentPerProvider = places }
    rig.transport.hold(.token)
    await tick(rig, after: 5)
    // The one place of a provider that gets one request at a time does not stay with a request that is stuck.
    await tick(rig, after: 5)
    #expect(rig.transport.held(.token) == 2)
    await tick(rig, after: 12)
    let probers = rig.transport.requests(.token).suffix(2).compactMap { $0.form["refresh_token"]?.dropLast(3) }
    let other = try #require(Self.names.last { !probers.contains($0[...]) })
    do {
      _ = try await rig.token(other, timeout: 5)
      Issue.record("a token of a provider that does not answer")
    } catch let error as RPCError {
      #expect(error.reason == .temporarilyUnavailable && error.retry_after == 5, "\(error)")
    }
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
  }

  @Test("a caller's question probes five seconds after the last one failed, however long its account's own wait is")
  func caller() async throws {
    let rig = try await outage()
    for wait in [5, 10, 20, 30] { await tick(rig, after: wait) }
    #expect(await rig.isQuiet())
    rig.transport.answer(.token, TokenServer.rotating)
    let sent = rig.transport.count(.token)
    rig.clock.advance(.seconds(3))
    #expect(await rig.reason { try await rig.token("account-0") } == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == sent)
    rig.clock.advance(.seconds(2))
    #expect(try await rig.token("account-0", timeout: 60).access_token == "account-0-a2")
  }

  @Test("Callers during a probe wait for its result, but not for a stuck one")
  func callers() async throws {
    let rig = try await outage()
    for wait in [5, 10, 20, 30] { await tick(rig, after: wait) }
    rig.transport.answer(.token, TokenServer.rotating)
    rig.transport.hold(.token)
    rig.clock.advance(.seconds(10))
    func ask(_ name: String) -> Task<String?, Never> {
      Task { (try? await rig.token(name, timeout: 60))?.access_token }
    }
    let first = ask("account-0")
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let others = ["account-1", "account-2"].map(ask)
    #expect(await eventually { await rig.broker.runtime.waiters.count == 3 })
    rig.transport.release(.token)
    #expect(await rig.clock.passes { await first.value } == "account-0-a2")
    for (number, other) in others.enumerated() {
      #expect(await rig.clock.passes { await other.value } == "account-\(number + 1)-a2")
    }

    let stuck = try await outage()
    for wait in [5, 10, 20, 30] { await tick(stuck, after: wait) }
    stuck.transport.hold(.token)
    stuck.clock.advance(.seconds(10))
    let began = stuck.clock.elapsed
    let waiting = Task { await stuck.reason { try await stuck.token("account-0", timeout: 60) } }
    #expect(await eventually { stuck.transport.held(.token) == 1 })
    let prober = try #require(stuck.transport.requests(.token).last?.form["refresh_token"]).dropLast(3)
    let other = try #require(Self.names.last { $0 != prober && $0 != "account-0" })
    let refused = Task {
      let reason = await stuck.reason { try await stuck.token(other, timeout: 60) }
      return (reason, stuck.clock.elapsed)
    }
    #expect(await eventually { await stuck.broker.runtime.waiters.count == 2 })
    let (reason, end) = await stuck.clock.passes { await refused.value }
    #expect(
      reason == .temporarilyUnavailable && end - began < .seconds(60),
      "\(String(describing: reason)) after \(end - began)")
    stuck.transport.release(.token)
    _ = await stuck.clock.passes { await waiting.value }
  }

  @Test("A caller's question probes as soon as the only account's stuck request has ended")
  func onlyAccount() async throws {
    let store = MemoryStore()
    try await store.signIn("only", age: .seconds(4000))
    let rig = try await Rig(store: store, configuration: .plain { $0.jitter = 0 })
    rig.transport.answer(.token, TokenServer.failing(.timedOut))
    for wait in [5, 15, 60, 300, 5] {
      _ = await rig.reason { try await rig.token("only") }
      await tick(rig, after: wait)
    }
    await tick(rig, after: 60)
    #expect(await rig.isQuiet())
    rig.transport.hold(.token)
    await tick(rig, after: 60)
    #expect(rig.transport.held(.token) == 1)
    rig.clock.advance(.seconds(30))
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
    rig.transport.answer(.token, TokenServer.rotating)
    #expect(try await rig.token("only", timeout: 60).access_token == "only-a2")
  }

  @Test("A stuck probe that fails after the recovery is repeated at once")
  func stuckBeyondRecovery() async throws {
    let rig = try await outage()
    rig.transport.hold(.token)
    await tick(rig, after: 5)
    await tick(rig, after: 5)
    #expect(rig.transport.held(.token) == 2)
    let probes = rig.transport.requests(.token).suffix(2).compactMap { $0.form["refresh_token"]?.dropLast(3) }
    let stuck = String(try #require(probes.first))
    rig.transport.answer(.token, TokenServer.rotating)
    rig.transport.releaseOne(.token, last: true)
    #expect(await eventually { await rig.broker.providers[provider("example")]?.gate.circuit.outage == nil })
    rig.transport.answer(.token, TokenServer.failing(.timedOut))
    rig.transport.releaseOne(.token)
    #expect(await eventually { if case .failing = rig.store.grant(stuck)?.standing { true } else { false } })
    rig.transport.answer(.token, TokenServer.rotating)
    rig.transport.release(.token)
    #expect(try await rig.token(stuck, timeout: 60).access_token == "\(stuck)-a2")
  }

  @Test("A caller's question probes no sooner than the provider asked for")
  func callerAndRetryAfter() async throws {
    let rig = try await outage()
    rig.transport.answer(.token) { _ in HTTPResponse(status: 503, headers: [.init("Retry-After", "120")]) }
    await tick(rig, after: 5)
    let sent = rig.transport.count(.token)
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(119))
    #expect(await rig.reason { try await rig.token("account-7") } == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == sent)
    rig.clock.advance(.seconds(1))
    #expect(try await rig.token("account-7", timeout: 60).access_token == "account-7-a2")
  }

  @Test("Who loses nothing by a lost answer probes first, though another is at risk already and its token ends sooner")
  func withoutLoss() async throws {
    let store = MemoryStore()
    for name in Self.names { try await store.signIn(name, age: .seconds(4000)) }
    let declared = DeclaredAccount(
      name: account("robot"), provider: provider("example"), source: .clientCredentials, scopes: ["read"])
    var configuration = BrokerConfiguration.plain { $0.jitter = 0 }
    configuration.accounts = [declared]
    let rig = try await Rig(store: store, configuration: configuration)
    rig.transport.answer(.token, TokenServer.failing(.lost))
    for name in Self.names.prefix(5) { _ = await rig.reason { try await rig.token(name) } }
    await tick(rig, after: 5)
    #expect(await rig.isQuiet())
    #expect(rig.transport.requests(.token).last?.form["grant_type"] == "client_credentials")
    #expect(rig.transport.count(.token) == 6)
  }
}
