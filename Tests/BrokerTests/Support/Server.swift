import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Two authorization servers: a reload moves the provider `example` from one to the other. Everything secret that one of
/// them gives, or that is for it alone, is named after it: `access-1-of-a.example`.
enum Server: CaseIterable {
  case first, second

  var host: String { self == .first ? "a.example" : "b.example" }

  func settings(_ change: (inout ProviderSettings) -> Void = { _ in }) -> ProviderSettings {
    .plain { settings in
      settings.server.issuer = Issuer(rawValue: "https://\(host)")
      settings.client.credential = .post(secret: Secret("secret-of-\(host)"))
      settings.server.endpoints[.authorization] = "https://\(host)/authorize"
      settings.server.endpoints[.token] = "https://\(host)/token"
      settings.server.endpoints[.revocation] = "https://\(host)/revoke"
      settings.server.endpoints[.introspection] = "https://\(host)/introspect"
      settings.server.endpoints[.userinfo] = "https://\(host)/userinfo"
      settings.server.endpoints[.endSession] = "https://\(host)/out"
      settings.server.endpoints[.pushedAuthorizationRequest] = "https://\(host)/par"
      settings.server.endpoints[.deviceAuthorization] = "https://\(host)/device"
      change(&settings)
    }
  }

  /// The same, its endpoints from its metadata.
  func discovered(_ change: (inout ProviderSettings) -> Void = { _ in }) -> ProviderSettings {
    settings { settings in
      settings.server.endpoints = [:]
      settings.server.discovery = .oauth
      change(&settings)
    }
  }

  static func named(by request: HTTPRequest) -> Server? { allCases.first { $0.host == request.url.host() } }

  static func metadata(_ request: HTTPRequest) -> HTTPResponse {
    let host = request.url.host() ?? ""
    let endpoints = [
      "authorization": "authorize", "token": "token", "revocation": "revoke", "introspection": "introspect",
      "userinfo": "userinfo", "end_session": "out", "pushed_authorization_request": "par",
      "device_authorization": "device",
    ]
    let members = endpoints.map { "\"\($0)_endpoint\":\"https://\(host)/\($1)\"" }.sorted().joined(separator: ",")
    return reply("{\"issuer\":\"https://\(host)\",\(members)}")
  }

  /// Every request for a token is granted, with a refresh token if a user signed in.
  static func grants(_ request: HTTPRequest, number: Int) -> HTTPResponse {
    let host = request.url.host() ?? ""
    let isUnattended = ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"]
      .contains(request.form["grant_type"])
    let refresh = isUnattended ? "" : "\"refresh_token\":\"refresh-\(number)-of-\(host)\","
    return reply(
      """
      {"access_token":"access-\(number)-of-\(host)","token_type":"Bearer","expires_in":3600,\(refresh)\
      "issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}
      """)
  }

  static func device(_ request: HTTPRequest) -> HTTPResponse {
    let host = request.url.host() ?? ""
    return reply(
      """
      {"device_code":"device-of-\(host)","user_code":"AB-CD","verification_uri":"https://\(host)/device",\
      "expires_in":1800,"interval":5}
      """)
  }
}

extension BrokerConfiguration {
  /// The provider at this server, with these accounts that need no login.
  static func at(
    _ server: Server, accounts: [String] = [], isDiscovered: Bool = false,
    _ change: (inout ProviderSettings) -> Void = { _ in }, refresh: (inout RefreshPolicy) -> Void = { _ in }
  ) -> BrokerConfiguration {
    let settings = isDiscovered ? server.discovered(change) : server.settings(change)
    let provider = SteppedProvider(settings: settings) {
      $0.authorizationTraits.correlation = $0.base.authorizationTraits.correlation
      $0.apiTraits = APITraits(base: URL(string: "https://\(server.host)/api")!)
    }
    var configuration = BrokerConfiguration.plain([provider], refresh)
    configuration.accounts = accounts.map {
      DeclaredAccount(name: account($0), provider: provider.name, source: .clientCredentials)
    }
    return configuration
  }
}

extension Rig {
  /// With both servers.
  static func ofServers(_ configuration: BrokerConfiguration, store: MemoryStore = MemoryStore()) async throws -> Rig {
    let rig = try await Rig(store: store, configuration: configuration)
    rig.transport.answer(.discovery, Server.metadata)
    rig.transport.answer(.device, Server.device)
    rig.transport.answer(.token) { [transport = rig.transport] request in
      Server.grants(request, number: transport.count(.token))
    }
    rig.transport.answer(.par) { request in
      reply(#"{"request_uri":"urn:request-of-\#(request.url.host() ?? "")","expires_in":600}"#, status: 201)
    }
    for purpose in [HTTPRequest.Purpose.introspection, .userinfo, .resource] {
      rig.transport.answer(purpose) { _ in reply(#"{"sub":"work","active":true}"#) }
    }
    return rig
  }

  /// The active configuration differs. Some time has passed since the last one.
  func reload(_ configuration: BrokerConfiguration) async throws {
    clock.advance(.seconds(1))
    reading.value = .success(configuration)
    _ = try await call(BrokerReload.self, NoParams())
  }

  /// The requests that brought a server something of the other one's.
  var astray: [String] {
    transport.requests.compactMap { request in
      guard let server = Server.named(by: request) else { return "an unknown server: \(request.url)" }
      let sent =
        [request.url.absoluteString, String(decoding: request.body ?? Data(), as: UTF8.self)]
        + request.headers.map(\.value)
      let others = Server.allCases.filter { $0 != server }.map(\.host)
      let strays = others.filter { other in sent.contains { $0.contains("of-\(other)") } }
      return strays.isEmpty ? nil : "\(request.purpose) of \(server.host) has a secret of \(strays[0])"
    }
  }
}
