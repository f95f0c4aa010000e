import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite struct ReloadTests {
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
    rig.reading.value = .success(.plain([OAuthProvider(.plain { $0.endpoints.token = "https://new.example/token" })]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.transport.release(.discovery)
    _ = try? await caller.value
    await settle()
    let known = try await rig.broker.providers.metadata(of: provider("example")).get()
    #expect(known.tokenEndpoint?.absoluteString == "https://new.example/token")
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
    await settle()
    #expect(await rig.broker.providers[provider("example")]?.gate.inFlight == 0)
  }

  @Test("Accounts of a provider that is gone say so, and work again when it is back")
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
}
