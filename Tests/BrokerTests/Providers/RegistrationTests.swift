import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A registered provider whose name the configuration takes.
@Suite("A registration", .timeLimit(.minutes(1))) struct RegistrationTests {
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
    (await rig.broker.providers[provider("example")]?.provider as? OAuthProvider)?.settings.clientID
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

  @Test("that the configuration hides is removed, and the configuration's provider stays")
  func hidden() async throws {
    let rig = try await rig()
    _ = try await register(rig).value
    #expect(await clientID(rig) == "registered")
    try await configure(rig)
    #expect(await clientID(rig) == "client")
    _ = try await rig.call(ProviderUnregister.self, .init(provider: "example"))
    #expect(await clientID(rig) == "client")
    #expect(await rig.broker.registrations.saved.isEmpty)
  }
}
