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
  ) throws -> ([String: JSON], ClientCredential?) {
    let registrar = ClientRegistrar()
    let candidate = try #require(
      registrar.candidates(issuer: Issuer(rawValue: issuerText)!, name: name, authorities: nil).first)
    var metadata = metadata
    metadata.endpoints[.registration] = URL(string: issuerText + "/register")
    metadata.supported.clientAuthentication = methods
    metadata.endpoints[.deviceAuthorization] = device ? URL(string: issuerText + "/device") : nil
    metadata.supported.grantTypes = grants
    let asked = RegistrationRequest(
      provider: name, clientName: "grantd", scopes: ["openid"], redirectURIs: ["http://127.0.0.1/callback"],
      fixedRedirectURI: nil, initialAccessToken: nil)
    var script = Script(answer(#"{"client_id":"c","client_secret":"s"}"#, status: 201))
    let saved = try script.run(registrar.registration(asked, at: candidate, metadata: metadata)).get()
    let body = try #require(script.sent.first?.body)
    let provider = registrar.provider(saved) as? OAuthProvider
    return (try #require(JSON(message: body)?.dictionary), provider?.settings.client.credential)
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

  private func registration(_ method: String) -> SavedRegistration {
    SavedRegistration(
      provider: name, issuer: Issuer(rawValue: issuerText)!, discovery: .openID, clientID: "c",
      clientSecret: method == "none" ? nil : Secret("s"), authMethod: method, scopes: [], redirectURI: nil,
      managementToken: nil, managementURL: nil, secretExpiresAt: nil, createdAt: Timestamp(seconds: 0))
  }

  @Test("a refused client authentication is replaced by the first that the server accepts, without a user's token")
  func authentication() throws {
    let registrar = ClientRegistrar()
    let refused = answer(#"{"error":"invalid_client"}"#, status: 401)
    let accepted = answer(#"{"error":"invalid_grant"}"#, status: 400)
    let overloaded = answer("busy", status: 503)
    for (answers, method) in [
      ([overloaded], "client_secret_basic"), ([refused, overloaded], "client_secret_basic"),
      ([accepted], "client_secret_basic"), ([refused, accepted], "client_secret_post"),
      ([refused, refused, accepted], "client_secret_basic_raw"), ([refused, refused, refused], nil),
    ] as [([HTTPResponse], String?)] {
      var step = registrar.authentication(of: registration("client_secret_basic"), metadata: metadata)
      var sent: [HTTPRequest] = []
      for answer in answers {
        guard case .send(let request, let next) = step else { break }
        sent.append(request)
        step = next(answer, at(1))
      }
      guard case .done(let found) = step else {
        Issue.record("\(step)")
        continue
      }
      #expect(found?.authMethod == method && sent.count == answers.count)
      for request in sent {
        let body = String(decoding: request.body ?? Data(), as: UTF8.self)
        #expect(body.contains("refresh_token=grantd-tests-its-authentication") && !body.contains("code="))
      }
    }
    guard case .done(let same) = registrar.authentication(of: registration("none"), metadata: metadata) else {
      Issue.record("a public client presents nothing that could be tried")
      return
    }
    #expect(same == registration("none"))
  }

  @Test("the options of a registration are settings of its provider, and hints name a section that can be written")
  func options() throws {
    var registered = registration("none")
    registered.options = .init(
      resource: "https://api.example/", apiBase: URL(string: "https://api.example/v1"), authorities: "pem")
    let provider = try #require(ClientRegistrar().provider(registered) as? OAuthProvider)
    #expect(
      provider.settings.access.resource == "https://api.example/"
        && provider.settings.server.tls?.authorities == Data("pem".utf8))
    #expect(try provider.apiTraits.resolve("/x").absoluteString == "https://api.example/v1/x")
    #expect(
      provider.section.hasPrefix(
        "a new section [provider.mine] with kind = \"oidc\", issuer = \"\(issuerText)\" and "
          + "client_id = \"c\""))
    #expect(provider.correction == "Write \(provider.section). Then run `grantctl reload`.")
    let secret = try #require(ClientRegistrar().provider(registration("client_secret_post")))
    #expect(secret.section.contains("a client that you register yourself"))
    #expect(ProviderName(rawValue: "127.0.0.1")?.section == "[provider.\"127.0.0.1\"]")
  }

  @Test(
    "a client that was registered by hand sends no registration, and authenticates as its secret and the server allow")
  func byHand() throws {
    let registrar = ClientRegistrar()
    let candidate = try #require(
      registrar.candidates(issuer: Issuer(rawValue: issuerText)!, name: name, authorities: nil).first)
    func made(_ secret: String?, method: String? = nil, offered: [String]? = nil) throws -> SavedRegistration {
      var metadata = metadata
      metadata.supported.clientAuthentication = offered
      var asked = RegistrationRequest(
        provider: name, clientName: "grantd", scopes: ["openid"], redirectURIs: [], fixedRedirectURI: nil,
        initialAccessToken: nil)
      asked.authMethod = method
      return try registrar.registration(
        of: GivenClient(id: "mine", secret: secret.map { Secret($0) }), asked, at: candidate, metadata: metadata,
        now: at(1))
    }
    #expect(try made(nil).authMethod == "none")
    #expect(try made("s").authMethod == "client_secret_basic")
    #expect(try made("s", offered: ["none", "client_secret_post"]).authMethod == "client_secret_post")
    #expect(try made("s", method: "client_secret_basic_raw").authMethod == "client_secret_basic_raw")
    let saved = try made("s")
    #expect(saved.isByHand && saved.clientID == "mine" && registrar.removal(of: saved) == nil)
    #expect(registrar.provider(saved) != nil)
    #expect(throws: ProviderFailure.self) { try made(nil, method: "client_secret_post") }
    #expect(throws: ProviderFailure.self) { try made("s", method: "none") }
  }

  @Test("the device grant is requested if the server has it")
  func deviceGrant() throws {
    let device = JSON.string("urn:ietf:params:oauth:grant-type:device_code")
    for hasDevice in [true, false] {
      let types = try #require(try request(nil, device: hasDevice).0["grant_types"]?.array)
      #expect(types.contains(device) == hasDevice)
    }
    let listed = try #require(try request(nil, device: true, grants: ["authorization_code"]).0["grant_types"]?.array)
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

  @Test("a provider over another has its client, and its own resource, scopes and API base")
  func derived() throws {
    let registrar = ClientRegistrar()
    let base = try #require(registrar.provider(registration("client_secret_post")) as? OAuthProvider)
    var saved = registration("none")
    saved.provider = ProviderName(rawValue: "notes")!
    saved.scopes = ["notes.read"]
    saved.options = .init(resource: "https://mcp.example.com/mcp", apiBase: URL(string: "https://mcp.example.com"))
    let made = try #require(registrar.provider(saved, over: base) as? OAuthProvider)
    #expect(made.name.rawValue == "notes" && made.settings.client.credential == .post(secret: Secret("s")))
    #expect(made.settings.client.id == "c" && made.settings.server.issuer == base.settings.server.issuer)
    #expect(made.tokenTraits.scopes == ["notes.read"] && made.tokenTraits.resource == "https://mcp.example.com/mcp")
    #expect(made.apiTraits.origins == ["https://mcp.example.com:443"])
    var other = saved
    other.issuer = Issuer(rawValue: "https://other.example")!
    #expect(registrar.provider(other, over: base) == nil)
  }
}
