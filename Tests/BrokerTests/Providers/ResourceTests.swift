import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// `resource.add`: what the documents of a resource can lead to.
@Suite("A resource", .scheduled, .timeLimit(.minutes(5))) struct ResourceTests {
  private static let url = "https://mcp.example/mcp"

  private static func server(_ members: String = "") -> String {
    """
    {"issuer":"https://id.example","authorization_endpoint":"https://id.example/authorize",\
    "token_endpoint":"https://id.example/token","registration_endpoint":"https://id.example/register",\
    "token_endpoint_auth_methods_supported":["none"]\(members)}
    """
  }

  private static let resource = """
    {"resource":"https://mcp.example/mcp","authorization_servers":["https://id.example"],"scopes_supported":["a"]}
    """

  private func rig(
    server: String = server(), resource: String = resource, _ configured: [any Provider] = [], store: MemoryStore? = nil
  ) async throws -> Rig {
    let rig = try await Rig(
      store: store ?? MemoryStore(), configuration: .plain(configured), registrar: ClientRegistrar())
    rig.transport.answer(.resource) { _ in
      reply("", status: 401, headers: [.init("WWW-Authenticate", "Bearer")])
    }
    rig.transport.answer(.discovery) { request in
      switch (request.url.host, request.url.path) {
      case ("mcp.example", "/.well-known/oauth-protected-resource/mcp"): reply(resource)
      case ("id.example", "/.well-known/oauth-authorization-server"): reply(server)
      default: reply("{}", status: 404)
      }
    }
    rig.transport.answer(.registration) { _ in
      reply(#"{"client_id":"registered","token_endpoint_auth_method":"none"}"#, status: 201)
    }
    return rig
  }

  @Test("is stored with its provider, and found again")
  func added() async throws {
    let rig = try await rig()
    let made = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    #expect(made.provider == "mcp.example" && made.created && made.client == .registration)
    #expect(made.scopes == ["a"] && made.resource == Self.url && made.forward_path == "/mcp")
    let saved = try #require(await rig.broker.clients.registrations.saved[provider("mcp.example")])
    #expect(saved.options.reach == .global && saved.options.url == Self.url)
    let again = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    #expect(again.provider == "mcp.example" && !again.created)
    #expect(rig.transport.requests(.registration).count == 1)
    // Each request that a document caused was limited to public addresses; the user named the first URL.
    #expect(rig.transport.pools(.resource).allSatisfy { $0.reach == nil })
    #expect(rig.transport.pools(.discovery).allSatisfy { $0.reach == .global })
    #expect(rig.transport.pools(.registration).allSatisfy { $0.reach == .global })
  }

  @Test("with the client of a provider of the configuration does not ask for that provider's audience and rights")
  func foreignParameters() async throws {
    let base = OAuthProvider(
      .plain {
        $0.server.issuer = Issuer(rawValue: "https://id.example")
        $0.authorization.parameters = ["audience": "https://internal.example"]
        $0.token.parameters = ["audience": "https://internal.example"]
        $0.refresh.parameters = ["audience": "https://internal.example"]
        $0.authorization.details = #"[{"type":"payment"}]"#
        $0.authorization.claims = "{}"
      })
    let rig = try await rig([base])
    let made = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    #expect(made.client == .provider && rig.transport.requests(.registration).isEmpty)
    let derived = await rig.broker.providers[provider("mcp.example")]?.provider as? OAuthProvider
    let settings = try #require(derived).settings
    #expect(settings.authorization.parameters.isEmpty && settings.token.parameters.isEmpty)
    #expect(
      settings.refresh.parameters.isEmpty && settings.authorization.details == nil
        && settings.authorization.claims == nil)
    #expect(settings.access.resource == Self.url && settings.api.reach == .global)
  }

  @Test("does not take the name of a removed provider whose accounts remain: their refresh tokens would go to it")
  func takenName() async throws {
    let store = MemoryStore()
    try await store.signIn("work", provider: "mcp.example")
    let rig = try await rig(store: store)
    let made = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    #expect(made.provider != "mcp.example")
    let error = await #expect(throws: RPCError.self) {
      try await rig.call(ResourceAdd.self, .init(url: Self.url, provider: "mcp.example"))
    }
    #expect(error?.message.contains("accounts of one that was removed") == true)
  }

  @Test("that adds scopes to each challenge is remembered within a limit")
  func manyScopes() {
    let challenges = (0..<40).map { round in (0..<50).map { "s\(round)-\($0)" } }
    var scopes: [String] = []
    for challenge in challenges { scopes = StepUp.joined(scopes, challenge) }
    #expect(scopes.count <= Limit.scopes && scopes.first == "s0-0")
    #expect(StepUp.joined(["a", "b"], ["b", "a"]) == ["a", "b"])
  }

  @Test("discovery stores nothing")
  func discovered() async throws {
    let rig = try await rig()
    let found = try await rig.call(ResourceDiscover.self, .init(url: Self.url))
    #expect(found.issuer == "https://id.example" && found.client == .registration && found.provider == nil)
    #expect(await rig.broker.clients.registrations.saved.isEmpty && rig.transport.requests(.registration).isEmpty)
  }

  @Test(
    "a document that names an address of another network is refused, and nothing is stored",
    arguments: [
      "https://10.0.0.1/token", "https://127.0.0.1/token", "http://127.0.0.1/token", "https://localhost/token",
      "https://[fd00::1]/token", "https://169.254.169.254/token",
    ])
  func near(endpoint: String) async throws {
    let rig = try await rig(server: Self.server(",\"revocation_endpoint\":\"\(endpoint)\""))
    do {
      _ = try await rig.call(ResourceAdd.self, .init(url: Self.url))
      Issue.record("it was stored")
    } catch let error as RPCError {
      #expect(error.reason == .providerError && error.message.contains("oauth-authorization-server"))
    }
    #expect(await rig.broker.clients.registrations.saved.isEmpty && rig.transport.requests(.registration).isEmpty)
  }

  @Test("a provider that others use for its client is not removed before them")
  func base() async throws {
    let rig = try await rig()
    _ = try await rig.call(
      ProviderRegister.self, .init(issuer: "https://id.example", provider: "base", client_id: "mine"))
    let made = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    #expect(made.client == .provider && made.client_id == "mine")
    await #expect(throws: RPCError.self) { try await rig.call(ProviderUnregister.self, .init(provider: "base")) }
    _ = try await rig.call(ProviderUnregister.self, .init(provider: "mcp.example"))
    _ = try await rig.call(ProviderUnregister.self, .init(provider: "base"))
    #expect(rig.transport.requests(.registration).isEmpty)
  }

  @Test(
    "of two look-ups of its name the farther address counts: its owner may change it in between",
    arguments: [
      ([.machine, .global], .global), ([.global, .machine], .global), ([.site, .machine], .site),
      ([.machine, .machine], .machine),
    ] as [([AddressScope], AddressScope)])
  func rebinding(found: [AddressScope], reach: AddressScope) async throws {
    let rig = try await rig()
    rig.transport.find(found)
    _ = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    #expect(rig.transport.pools(.discovery).allSatisfy { $0.reach == reach })
    #expect(rig.transport.pools(.registration).allSatisfy { $0.reach == reach })
    let saved = try #require(await rig.broker.clients.registrations.saved[provider("mcp.example")])
    #expect(saved.options.reach == reach && saved.options.apiReach == reach)
  }

  @Test("a private resource at the server of a public one is reached; its server still only at public addresses")
  func privateResource() async throws {
    let rig = try await rig()
    rig.transport.find([.global, .global, .site, .site])
    _ = try await rig.call(ResourceAdd.self, .init(url: Self.url))
    let resource = Self.resource.replacing("https://mcp.example", with: "https://mcp.lan")
    rig.transport.answer(.discovery) { request in
      reply(request.url.host == "mcp.lan" ? resource : Self.server())
    }
    let made = try await rig.call(ResourceAdd.self, .init(url: "https://mcp.lan/mcp"))
    #expect(made.client == .provider && made.provider == "mcp.lan")
    let connection = try #require(await rig.broker.providers[provider("mcp.lan")])
    for (use, reach) in [
      (.forwarded, .site), (.callers, .site), (.refreshes, .global), (.logins, .global),
    ] as [(ConnectionPool.Use, AddressScope)] {
      #expect(await connection.pool(use).reach == reach)
    }
  }

  @Test("all its requests have one deadline, and nothing is registered after it", arguments: [20, 31, 61])
  func slow(seconds: Int) async throws {
    let rig = try await rig()
    rig.transport.answer(.discovery) { request in
      rig.clock.advance(.seconds(seconds))
      return reply(request.url.host == "mcp.example" ? Self.resource : Self.server())
    }
    let params = ResourceAdd.Params(url: Self.url)
    let reason = await rig.reason { try await rig.call(ResourceAdd.self, params) }
    #expect(reason == (seconds == 20 ? nil : .timedOut))
    #expect(rig.transport.requests(.registration).count == (seconds == 20 ? 1 : 0))
    #expect(await rig.broker.clients.registrations.saved.count == (seconds == 20 ? 1 : 0))
  }

  @Test("the same requests at once are one, and have the same result", arguments: [true, false])
  func together(_ works: Bool) async throws {
    let rig = try await rig(resource: works ? Self.resource : "{}")
    rig.transport.hold(.discovery)
    let params = ResourceAdd.Params(url: Self.url)
    let tasks = (0..<20).map { _ in Task { try? await rig.call(ResourceAdd.self, params) } }
    await settle()
    rig.transport.release(.discovery)
    var results: [ResourceAdd.Result] = []
    for task in tasks { if let result = await task.value { results.append(result) } }
    #expect(results.count == (works ? 20 : 0) && results.filter(\.created).count == (works ? 1 : 0))
    #expect(rig.transport.requests(.resource).count == 1)
    #expect(rig.transport.requests(.registration).count == (works ? 1 : 0))
  }
}
