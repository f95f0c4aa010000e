import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

enum OAuthProviders {
  static let plain = OAuthProvider(.plain())
  static let discovered = OAuthProvider(.discovered())
}

/// What is shared by the accounts of one provider: its metadata, its keys, its places, its suspension.
@Suite(.scheduled) struct ProviderTests {
  private func names(_ count: Int) -> [String] { (0..<count).map { "account-\($0)" } }

  private func expired(_ count: Int) async throws -> MemoryStore {
    let store = MemoryStore()
    for name in names(count) { try await store.signIn(name, age: .seconds(4000)) }
    return store
  }

  @Test("Metadata are fetched once for all who wait for them") func metadataAreFetchedOnceForAllWho() async throws {
    let rig = try await Rig(store: expired(20), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.hold(.discovery)
    let callers = names(20).map { name in Task { try await rig.token(name) } }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 20 })
    rig.transport.release(.discovery)
    for caller in callers { _ = try await caller.value }
    #expect(rig.transport.count(.discovery) == 1)
  }

  @Test("While the provider's metadata cannot be had, old ones serve; and failures are not asked for again at once")
  func whileTheProvidersMetadataCannotBeHad()
    async throws
  {
    let rig = try await Rig(store: expired(1), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.answer(.discovery, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await rig.token("account-0") } == .temporarilyUnavailable)
    for _ in 0..<5 { _ = await rig.broker.providers[provider("example")]?.currentMetadata() }
    #expect(rig.transport.count(.discovery) == 1)
    rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
    rig.clock.advance(.seconds(5))
    #expect(try await rig.token("account-0").access_token == "account-0-a2")
    rig.transport.answer(.discovery, TokenServer.failing(.notSent))
    rig.clock.advance(.seconds(100_000))
    #expect(try await rig.token("account-0").access_token == "account-0-a3")
  }

  @Test("Metadata of another issuer are an administrator's error: accounts report it until the correction")
  func anotherIssuer() async throws {
    var configuration = BrokerConfiguration.plain([OAuthProviders.discovered])
    configuration.accounts = [
      DeclaredAccount(name: account("robot"), provider: provider("example"), source: .clientCredentials)
    ]
    for first in ["account-0", "robot"] {
      let rig = try await Rig(store: expired(1), configuration: configuration)
      rig.transport.answer(.discovery) { _ in reply(#"{"issuer":"https://other.example"}"#) }
      for name in [first, "account-0", "robot"] {
        let error = await #expect(throws: RPCError.self) { try await rig.token(name) }
        #expect(error?.reason == .providerMisconfigured)
        #expect(error?.message.contains("https://other.example") == true)
        #expect(error?.message.contains("refuses") == false)
        #expect(error?.hint == "Correct [provider.example] in the configuration, then run `grantctl reload`.")
      }
      #expect(try await rig.view("account-0").state == .actionRequired)
      #expect(rig.transport.count(.token) == 0)
      #expect(rig.store.grant("account-0")?.refreshToken == Secret("account-0-r1"))
      rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
      _ = try await rig.call(BrokerReload.self, NoParams())
      #expect(try await rig.token("account-0").access_token == "account-0-a2")
      _ = try await rig.token("robot")
    }
  }

  @Test("While discovery hangs, old metadata serve at once, and new ones are fetched once behind")
  func oldMetadataServeWhileDiscoveryHangs() async throws {
    let rig = try await Rig(store: expired(1), configuration: .plain([OAuthProviders.discovered]))
    _ = try await rig.token("account-0")
    rig.transport.hold(.discovery)
    rig.clock.advance(.seconds(100_000))
    #expect(try await rig.token("account-0").access_token == "account-0-a3")
    _ = await rig.broker.providers[provider("example")]?.currentMetadata()
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    #expect(rig.transport.count(.discovery) == 2)
    rig.transport.release(.discovery)
  }

  @Test("No more requests are under way at a provider than its places") func noMoreRequestsAreUnderWayAt() async throws
  {
    let rig = try await Rig(store: expired(30), configuration: .plain { $0.concurrentPerProvider = 3 })
    rig.transport.hold(.token)
    let callers = names(30).map { name in Task { try await rig.token(name) } }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 30 })
    #expect(await eventually { rig.transport.held(.token) == 3 })
    rig.transport.releaseOne(.token)
    #expect(await eventually { rig.transport.count(.token) == 4 })
    rig.transport.release(.token)
    for caller in callers { _ = try await caller.value }
    #expect(rig.transport.mostInFlight == 3)
    #expect(await rig.broker.providers[provider("example")]?.gate.inFlight == 0)
  }

  @Test("a refused client is tried once for each account that a caller waits for, and a reload tries it again")
  func refusedClient() async throws {
    let rig = try await Rig(store: expired(5), configuration: .plain { $0.concurrentPerProvider = 1 })
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    rig.transport.hold(.token)
    let callers = names(5).map { name in Task { await rig.reason { try await rig.token(name) } } }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 5 })
    rig.transport.release(.token)
    for caller in callers { #expect(await caller.value == .providerMisconfigured) }
    #expect(rig.transport.count(.token) == 5)
    #expect(try await rig.view("account-3").state == .degraded)
    #expect(await rig.reason { try await rig.token("account-3") } == .providerMisconfigured)
    #expect(rig.transport.count(.token) == 5)

    rig.transport.answer(.token, TokenServer.rotating)
    _ = try await rig.call(BrokerReload.self, NoParams())
    for name in names(5) { #expect(try await rig.token(name).access_token == "\(name)-a2") }
  }

  @Test("A suspended provider does not delay a token that is still valid") func aSuspendedProviderKeepsNobodyFromA()
    async throws
  {
    let store = MemoryStore()
    try await store.signIn("dead", age: .seconds(4000))
    try await store.signIn("work", age: .seconds(3590))
    let rig = try await Rig(store: store)
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    #expect(await rig.reason { try await rig.token("dead") } == .providerMisconfigured)
    #expect(try await rig.token("work").access_token == "work-a1")
    #expect(try await rig.token("work", minTTL: 600).access_token == "work-a1")
  }

  @Test("A refused client is tried again after a while") func aRefusedClientIsTriedAgainAfter() async throws {
    let rig = try await Rig(store: expired(1))
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    #expect(await rig.reason { try await rig.token("account-0") } == .providerMisconfigured)
    rig.transport.answer(.token, TokenServer.rotating)
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    for _ in 0..<32 {
      #expect(await eventually { rig.clock.sleepers >= 1 })
      rig.clock.advance(.seconds(30))
      await settle()
    }
    #expect(await eventually { rig.store.token("account-0")?.accessToken == Secret("account-0-a2") })
    #expect(try await rig.view("account-0").state == .ok)
  }

  @Test("Keys are fetched again for an unknown one at most once a minute, and once for all who ask")
  func keysAreFetchedAgainForAnUnknown() async throws {
    let name = provider("example")
    let settings = ProviderSettings.oidc()
    let rig = try await Rig(configuration: .plain([OAuthProvider(settings)]))
    _ = await rig.broker.providers[name]!.fetchKeys(unknown: nil)
    _ = await rig.broker.providers[name]!.fetchKeys(unknown: nil)
    #expect(rig.transport.count(.keys) == 1)
    rig.transport.hold(.keys)
    let callers = (0..<10).map { _ in Task { await rig.broker.providers[name]!.fetchKeys(unknown: "k2") } }
    #expect(await eventually { rig.transport.held(.keys) == 1 })
    await settle()
    rig.transport.release(.keys)
    for caller in callers { _ = await caller.value }
    #expect(rig.transport.count(.keys) == 2)
    rig.clock.advance(.seconds(59))
    _ = await rig.broker.providers[name]!.fetchKeys(unknown: "k3")
    #expect(rig.transport.count(.keys) == 2)
    rig.clock.advance(.seconds(1))
    _ = await rig.broker.providers[name]!.fetchKeys(unknown: "k3")
    #expect(rig.transport.count(.keys) == 3)
  }

  @Test("Known keys serve while they cannot be fetched again") func knownKeysServeWhileTheyCannotBe() async throws {
    let name = provider("example")
    let rig = try await Rig(configuration: .plain([OAuthProvider(.oidc())]))
    _ = await rig.broker.providers[name]!.fetchKeys(unknown: nil)
    rig.transport.answer(.keys, TokenServer.failing(.timedOut))
    rig.clock.advance(.seconds(100_000))
    guard case .success = await rig.broker.providers[name]!.fetchKeys(unknown: nil) else {
      Issue.record("the old keys were removed")
      return
    }
  }
}

extension ProviderSettings {
  /// OpenID Connect with configured endpoints.
  static func oidc(_ name: String = "example", _ change: (inout ProviderSettings) -> Void = { _ in }) -> Self {
    var settings = ProviderSettings(name: provider(name), kind: .oidc, displayName: name, clientID: "client")
    settings.server.issuer = Issuer(rawValue: "https://id.example")
    settings.server.endpoints[.authorization] = "https://id.example/authorize"
    settings.server.endpoints[.token] = "https://id.example/token"
    settings.server.endpoints[.keys] = "https://id.example/keys"
    settings.server.endpoints[.revocation] = "https://id.example/revoke"
    settings.access.scopes = ["openid"]
    change(&settings)
    return settings
  }
}
