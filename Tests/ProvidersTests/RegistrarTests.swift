import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

/// What a client is registered with (RFC 7591), and how it authenticates itself then.
@Suite struct RegistrarTests {
  private let name = ProviderName(rawValue: "mine")!

  /// The request that registers a client at a server with these metadata.
  private func request(
    _ methods: [String]?, device: Bool = false, grants: [String]? = nil
  ) throws -> ([String: JSONValue], ClientCredential?) {
    let registrar = ClientRegistrar()
    let candidate = try #require(try registrar.candidates(issuer: issuerText, name: name).first)
    var metadata = metadata
    metadata.registrationEndpoint = URL(string: issuerText + "/register")
    metadata.tokenEndpointAuthMethodsSupported = methods
    metadata.deviceAuthorizationEndpoint = device ? URL(string: issuerText + "/device") : nil
    metadata.grantTypesSupported = grants
    let asked = RegistrationRequest(
      provider: name, clientName: "grantd", scopes: ["openid"], redirectURIs: ["http://127.0.0.1/callback"],
      fixedRedirectURI: nil, initialAccessToken: nil)
    var script = Script(answer(#"{"client_id":"c","client_secret":"s"}"#, status: 201))
    let saved = try script.run(registrar.registration(asked, at: candidate, metadata: metadata)).get()
    let body = try #require(script.sent.first?.body)
    let provider = registrar.provider(saved) as? OAuthProvider
    return (try #require(JSONValue(body)?.members), provider?.settings.client)
  }

  @Test(
    "no secret is preferred, then one in the body, then one in the header",
    arguments: [
      (["client_secret_basic", "client_secret_post", "none"], "none"),
      (["client_secret_basic", "client_secret_post"], "client_secret_post"),
      (["client_secret_basic"], "client_secret_basic"), (nil, "client_secret_basic"),
    ] as [([String]?, String)])
  func methods(_ offered: [String]?, _ method: String) throws {
    let (body, credential) = try request(offered)
    #expect(body["token_endpoint_auth_method"] == .string(method))
    switch method {
    case "none": #expect(credential == ClientCredential.none)
    case "client_secret_post": #expect(credential == .post(secret: Secret("s")))
    default: #expect(credential == .basic(secret: Secret("s"), encoding: .formWithID))
    }
  }

  @Test("the device grant is requested if the server has it")
  func deviceGrant() throws {
    let device = JSONValue.string("urn:ietf:params:oauth:grant-type:device_code")
    for hasDevice in [true, false] {
      let types = try #require(try request(nil, device: hasDevice).0["grant_types"]?.elements)
      #expect(types.contains(device) == hasDevice)
    }
    let listed = try #require(try request(nil, device: true, grants: ["authorization_code"]).0["grant_types"]?.elements)
    #expect(!listed.contains(device))
  }

  @Test("a registered client that uses the header has its id in the body too")
  func identified() throws {
    let client = ClientAuthentication.basic(secret: Secret("s"), encoding: .formWithID)
    let request = TokenRequest.refresh(Secret("r"), scopes: [], resources: [])
      .httpRequest(to: URL(string: issuerText + "/token")!, clientID: "c", client: client)
    let body = String(decoding: request.body ?? Data(), as: UTF8.self)
    #expect(body.contains("client_id=c") && !body.contains("client_secret"))
    #expect(request.headers.contains { $0.name == "Authorization" })
  }
}
