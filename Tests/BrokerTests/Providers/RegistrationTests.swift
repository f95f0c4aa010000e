import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A registered provider whose name the configuration takes.
@Suite("A registration", .scheduled, .timeLimit(.minutes(5))) struct RegistrationTests {
  private static let metadata = """
    {"issuer":"https://id.example","authorization_endpoint":"https://id.example/authorize",\
    "token_endpoint":"https://id.example/token","registration_endpoint":"https://id.example/register",\
    "token_endpoint_auth_methods_supported":["none"]}
    """

  private func rig() async throws -> Rig {
    let rig = try await Rig(configuration: .plain([]), registrar: ClientRegistrar())
    rig.transport.answer(.discovery) { _ in reply(Self.metadata) }
    rig.transport.answer(.registration) { _ in
      reply(#"{"client_id":"registered","token_endpoint_auth_method":"none"}"#, status: 201)
    }
    return rig
  }

  private func register(_ rig: Rig) -> Task<ProviderRegister.Result, any Error> {
    Task {
      try await rig.call(ProviderRegister.self, .init(issuer: "https://id.example", provider: "example"))
    }
  }

  /// The configuration takes the name.
  private func configure(_ rig: Rig) async throws {
    rig.reading.value = .success(.plain())
    _ = try await rig.call(BrokerReload.self, NoParams())
  }

  private func clientID(_ rig: Rig) async -> String? {
    (await rig.broker.providers[provider("example")]?.provider as? OAuthProvider)?.settings.client.id
  }

  @Test("that is being written does not replace the configuration's provider of that name")
  func beingWritten() async throws {
    let rig = try await rig()
    rig.store.set(.hangs) { $0.contains { if case .putRegistration = $0 { true } else { false } } }
    let registered = register(rig)
    #expect(await eventually { rig.store.hanging == 1 })
    try await configure(rig)
    rig.store.set(.works)
    #expect(try await registered.value.warnings.contains { $0.contains("[provider.example]") })
    #expect(await clientID(rig) == "client")
  }

  @Test("with a client ID sends no registration request, survives a reload, and is removed without a request")
  func byHand() async throws {
    let rig = try await rig()
    let made = try await rig.call(
      ProviderRegister.self, .init(issuer: "https://id.example", provider: "example", client_id: "mine"))
    #expect(made.client_id == "mine" && made.warnings.isEmpty)
    #expect(await clientID(rig) == "mine")
    let shown = try await rig.call(ProviderGet.self, .init(provider: "example"))
    #expect(shown.section?["client_id"] == "mine" && shown.section?["kind"] == "oidc")
    #expect(shown.section_files == [])
    let removed = try await rig.call(ProviderUnregister.self, .init(provider: "example"))
    #expect(removed.steps.map(\.result) == ["unsupported", "done"])
    #expect(rig.transport.requests(.registration).isEmpty && rig.transport.requests(.token).isEmpty)
  }

  @Test("with a client secret that the issuer refuses is not kept", arguments: ["invalid_client", "invalid_grant"])
  func secret(code: String) async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { _ in reply("{\"error\":\"\(code)\"}", status: code == "invalid_client" ? 401 : 400) }
    let params = ProviderRegister.Params(
      issuer: "https://id.example", provider: "example", client_id: "mine", client_secret: SecretText("s"))
    if code == "invalid_client" {
      await #expect(throws: RPCError.self) { try await rig.call(ProviderRegister.self, params) }
      #expect(await rig.broker.clients.registrations.saved.isEmpty)
    } else {
      _ = try await rig.call(ProviderRegister.self, params)
      let shown = try await rig.call(ProviderGet.self, .init(provider: "example"))
      #expect(shown.section_files == ["client_secret_file"] && shown.section?["client_secret"] == nil)
    }
  }

  @Test("a client secret without a client ID, and unprintable values, are refused")
  func unfit() async throws {
    let rig = try await rig()
    for params in [
      ProviderRegister.Params(issuer: "https://id.example", client_secret: SecretText("s")),
      .init(issuer: "https://id.example", client_id: ""), .init(issuer: "https://id.example", client_id: "a\nb"),
      .init(issuer: "https://id.example", client_id: "a", client_secret: SecretText("a\u{FEFF}")),
      .init(issuer: "https://id.example", initial_access_token: SecretText("t"), client_id: "a"),
    ] {
      await #expect(throws: RPCError.self) { try await rig.call(ProviderRegister.self, params) }
    }
    #expect(rig.transport.requests(.discovery).isEmpty)
  }

  @Test("with an unknown client authentication is refused, with the command that chooses it")
  func unknownMethod() async throws {
    let rig = try await rig()
    let params = ProviderRegister.Params(issuer: "https://id.example", provider: "example", auth_method: "mtls")
    let error = await #expect(throws: RPCError.self) { try await rig.call(ProviderRegister.self, params) }
    #expect(error?.hint?.contains("`grantctl provider register https://id.example`") == true)
  }

  @Test("at a plain http URL of another machine is refused, with the command for https")
  func plainHTTP() async throws {
    let rig = try await rig()
    let params = ProviderRegister.Params(issuer: "http://id.example/a", provider: "example")
    let error = await #expect(throws: RPCError.self) { try await rig.call(ProviderRegister.self, params) }
    #expect(error?.message.hasSuffix("the issuer “http://id.example/a” is not https") == true)
    #expect(error?.hint == "Use https: `grantctl provider register https://id.example/a`.")
    #expect(error?.detail == ProviderRegister.notHTTPS && rig.transport.requests(.discovery).isEmpty)
  }

  @Test("at an issuer without a scheme is refused, with the command for its URL")
  func withoutScheme() async throws {
    let rig = try await rig()
    let error = await #expect(throws: RPCError.self) {
      try await rig.call(ProviderRegister.self, ProviderRegister.Params(issuer: "127.0.0.1"))
    }
    #expect(error?.message.contains("the issuer “127.0.0.1” is not a URL") == true)
    #expect(error?.hint == "Give its URL: `grantctl provider register https://127.0.0.1`.")
    #expect(rig.transport.requests(.discovery).isEmpty)
  }

  @Test("under a name that exists is refused, with the command for another name")
  func existing() async throws {
    let rig = try await rig()
    _ = try await register(rig).value
    let error = await #expect(throws: RPCError.self) { try await register(rig).value }
    #expect(error?.message.hasSuffix("provider example already exists") == true)
    #expect(error?.hint == "Choose another name: `grantctl provider register https://id.example --name NAME`.")
  }

  @Test("that the configuration hides is removed, and the configuration's provider stays")
  func hidden() async throws {
    let rig = try await rig()
    _ = try await register(rig).value
    #expect(await clientID(rig) == "registered")
    try await configure(rig)
    #expect(await clientID(rig) == "client")
    _ = try await rig.call(ProviderUnregister.self, .init(provider: "example"))
    #expect(await clientID(rig) == "client")
    #expect(await rig.broker.clients.registrations.saved.isEmpty)
  }
}
