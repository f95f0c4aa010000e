import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Synchronization
import Testing

@testable import Broker

@Suite(.scheduled) struct ReloadTests {
  @Test("A file that cannot be used changes nothing") func aFileThatCannotBeUsedChanges() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    rig.reading.value = .failure(RPCError(.invalidConfiguration, "line 3"))
    #expect(await rig.reason { try await rig.call(BrokerReload.self, NoParams()) } == .invalidConfiguration)
    #expect(try await rig.call(ProviderList.self, NoParams()).providers.map(\.provider) == ["example"])
    #expect(rig.cached("work") != nil)
  }

  @Test("Policy, providers and the fast path change together") func policyProvidersAndTheFastPathChange() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let alice = Caller.user(1000)
    let rule = Rule(name: "alice", uid: 1000, gid: nil, accounts: ["work"], access: [.use])
    let rig = try await Rig(store: store, configuration: .plain(rules: [rule]))
    #expect(rig.cached("work", as: alice) != nil)
    rig.reading.value = .success(.plain([OAuthProvider(.plain("other"))]))
    let result = try await rig.call(BrokerReload.self, NoParams())
    #expect(result.providers == 1)
    #expect(rig.cached("work", as: alice) == nil)
    #expect(await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), as: alice) } == .notPermitted)
    #expect(try await rig.call(ProviderList.self, NoParams()).providers.map(\.provider) == ["other"])
  }

  @Test("Metadata that were asked for under the old settings do not count under the new")
  func metadataThatWereAskedForUnderThe() async throws {
    let rig = try await Rig(store: .expired("work"), configuration: .plain([OAuthProvider(.discovered())]))
    rig.transport.hold(.discovery)
    let caller = Task { try await rig.token("work", timeout: 300) }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    rig.reading.value = .success(
      .plain([OAuthProvider(.plain { $0.server.endpoints[.token] = "https://new.example/token" })]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.transport.release(.discovery)
    _ = try? await caller.value
    await settle()
    let connection = try #require(await rig.broker.providers[provider("example")])
    let known = try await connection.currentMetadata().get()
    #expect(known.endpoints[.token]?.absoluteString == "https://new.example/token")
  }

  @Test("A provider that goes and comes while it is busy keeps to its places") func aProviderThatGoesAndComesWhile()
    async throws
  {
    let store = try await MemoryStore.expired("work", "home")
    let one = BrokerConfiguration.plain { $0.concurrentPerProvider = 1 }
    let rig = try await Rig(store: store, configuration: one)
    rig.transport.hold(.token)
    let callers = ["work", "home"].map { name in Task { try? await rig.token(name, timeout: 300) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.reading.value = .success(.plain([]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.reading.value = .success(one)
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.transport.release(.token)
    for caller in callers { _ = await caller.value }
    #expect(await eventually { await rig.broker.providers[provider("example")]?.gate.inFlight == 0 })
  }

  @Test("Accounts of a removed provider report it, and work again when it returns")
  func accountsOfAProviderThatIsGone() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.reading.value = .success(.plain([]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(await rig.reason { try await rig.token("work") } == .providerMisconfigured)
    #expect(try await rig.view("work").state == .actionRequired)
    rig.reading.value = .success(.plain())
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(try await rig.token("work").access_token == "work-a2")
  }

  // MARK: Reloads that overlap

  private func configuration(_ name: String, declaring accounts: [String] = []) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain([OAuthProvider(.plain(name))])
    configuration.accounts = accounts.map {
      DeclaredAccount(name: account($0), provider: provider(name), source: .clientCredentials)
    }
    return configuration
  }

  private func reload(_ rig: Rig) -> Task<BrokerReload.Result, any Error> {
    Task { try await rig.call(BrokerReload.self, NoParams()) }
  }

  @Test("The later of two overlapping reloads is active everywhere, even if the other ends last")
  func ofTwoReadingsThatOverlap() async throws {
    let rig = try await Rig()
    let edges = Edges()
    rig.reading.edges = { configuration in
      let name = configuration.providers.first?.name.rawValue ?? ""
      edges.apply(name)
      return ["edges: \(name)"]
    }
    rig.reading.hold()
    var reloads: [Task<BrokerReload.Result, any Error>] = []
    for name in ["older", "newer"] {
      rig.reading.value = .success(configuration(name, declaring: [name]))
      reloads.append(reload(rig))
      #expect(await eventually { rig.reading.held == reloads.count })
    }
    rig.reading.releaseLast()
    #expect(try await reloads[1].value.warnings == ["edges: newer"])
    rig.reading.releaseLast()
    // The read configuration is not active: it answers with the active one.
    #expect(try await reloads[0].value.warnings == ["edges: newer"])
    #expect(edges.applied == ["newer"])
    #expect(try await rig.call(ProviderList.self, NoParams()).providers.map(\.provider) == ["newer"])
    #expect(await rig.broker.accounts.names.map(\.rawValue) == ["newer"])
  }

  @Test("A reload during another one is applied after it") func oneAfterTheOther() async throws {
    let rig = try await Rig()
    rig.reading.value = .success(configuration("older", declaring: ["a", "b"]))
    rig.store.set(.hangs) { $0.contains { if case .putGrant = $0 { true } else { false } } }
    let older = reload(rig)
    #expect(await eventually { rig.store.hanging == 2 })
    rig.reading.value = .success(configuration("newer"))
    let newer = reload(rig)
    await settle()
    rig.store.set(.works)
    _ = try await (older.value, newer.value)
    #expect(await rig.broker.accounts.names.isEmpty && rig.store.grant("b") == nil)
    #expect(try await rig.call(ProviderList.self, NoParams()).providers.map(\.provider) == ["newer"])
  }

  @Test("A stricter policy waits neither for the earlier reload nor for the rest of the daemon")
  func policyAtOnce() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let alice = Caller.user(1000)
    let rule = Rule(name: "alice", uid: 1000, gid: nil, accounts: ["work"], access: [.use])
    let rig = try await Rig(store: store, configuration: .plain(rules: [rule]))
    func isRefused() async -> Bool {
      let reason = await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), as: alice) }
      return reason == .notPermitted && rig.cached("work", as: alice) == nil
    }
    var first = BrokerConfiguration.plain(rules: [rule])
    first.accounts = [DeclaredAccount(name: account("a"), provider: provider("example"), source: .clientCredentials)]
    rig.reading.value = .success(first)
    rig.store.set(.hangs) { $0.contains { if case .putGrant = $0 { true } else { false } } }
    let older = reload(rig)
    #expect(await eventually { rig.store.hanging == 1 })
    #expect(await !isRefused())
    rig.reading.value = .success(.plain())
    let newer = reload(rig)
    #expect(await eventually { await isRefused() })
    #expect(rig.store.hanging == 1)
    rig.store.set(.works)
    _ = try await (older.value, newer.value)

    rig.reading.value = .success(.plain(rules: [rule]))
    _ = try await reload(rig).value
    #expect(await !isRefused())
    let (edges, applied) = AsyncStream.makeStream(of: Void.self)
    rig.reading.edges = { _ in
      for await _ in edges {}
      return []
    }
    rig.reading.value = .success(.plain())
    let slow = reload(rig)
    #expect(await eventually { await isRefused() })
    applied.finish()
    _ = try await slow.value
  }
}

/// The active settings outside the broker.
private final class Edges: Sendable {
  private let state = Mutex<[String]>([])

  func apply(_ name: String) { state.withLock { $0.append(name) } }
  var applied: [String] { state.withLock { $0 } }
}
