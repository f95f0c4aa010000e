import Foundation
import Testing

@testable import OAuth

@Suite("Introspection")
struct IntrospectionTests {
  static let endpoint = URL(string: "https://id.example/introspect")!

  @Test(
    "51. Introspection (7662): `active` strictly a boolean",
    arguments: [
      (#"{"active":true,"scope":"a","exp":1}"#, true), (#"{"active":false}"#, false), (#"{"active":"true"}"#, nil),
      (#"{"active":1}"#, nil), (#"{"active":null}"#, nil), ("{}", nil), ("[]", nil), ("", nil), ("<html>", nil),
      (#"{"active":true,"active":false}"#, nil), (#"{"error":"invalid_client"}"#, nil),
    ] as [(String, Bool?)])
  func active(body: String, active: Bool?) throws {
    let parsed = try? IntrospectionResponse.parse(answer(body))
    #expect(parsed?.active == active)
    if active == true { #expect(parsed?.members["scope"] == .string("a")) }
  }

  @Test("51. a refusal is reported with its text; an outage and a redirect are not answers")
  func refusals() {
    let refused = ResponseError.oauth(OAuthError(code: .invalidClient), status: 401, retryAfter: nil)
    #expect(throws: refused) {
      try IntrospectionResponse.parse(answer(#"{"error":"invalid_client"}"#, status: 401))
    }
    for status in [201, 204, 302, 404, 500] {
      #expect(throws: ResponseError.self) {
        try IntrospectionResponse.parse(answer(#"{"active":true}"#, status: status))
      }
    }
  }

  @Test("51. an authenticated POST with token and hint")
  func request() {
    let request = IntrospectionRequest(token: Secret("t+"), hint: .accessToken)
      .httpRequest(to: Self.endpoint, clientID: "id", client: .basic(secret: Secret("s"), encoding: .form))
    #expect(request.form == ["token": "t+", "token_type_hint": "access_token"])
    #expect(request.purpose == .introspection && request.header("Authorization") == "Basic aWQ6cw==")
    let plain = IntrospectionRequest(token: Secret("t"), hint: nil)
      .httpRequest(to: Self.endpoint, clientID: "id", client: .none)
    #expect(plain.form == ["token": "t", "client_id": "id"])
  }
}

@Suite("RP-initiated logout")
struct EndSessionTests {
  func request(_ change: (inout EndSessionRequest) -> Void = { _ in }) -> EndSessionRequest {
    var request = EndSessionRequest(
      idTokenHint: Secret("a.b.c"), clientID: "id", postLogoutRedirectURI: "http://127.0.0.1:8400/out",
      state: Secret("s&t"))
    change(&request)
    return request
  }

  @Test("55. RP-initiated logout: id_token_hint, client_id, post_logout_redirect_uri, state")
  func url() throws {
    let endpoint = try #require(URL(string: "https://id.example/out?tenant=t"))
    let extra = [Parameter("logout_hint", "p"), Parameter("state", "other"), Parameter("tenant", "other")]
    let url = try #require(request { $0.extra = extra }.url(at: endpoint))
    #expect(
      url.parameters == [
        Parameter("tenant", "t"), Parameter("id_token_hint", "a.b.c"), Parameter("client_id", "id"),
        Parameter("post_logout_redirect_uri", "http://127.0.0.1:8400/out"), Parameter("state", "s&t"),
        Parameter("logout_hint", "p"),
      ])
    let bare = EndSessionRequest(idTokenHint: nil, clientID: nil, postLogoutRedirectURI: nil, state: Secret("s"))
    #expect(bare.url(at: endpoint) == endpoint)
    #expect(request().url(at: try #require(URL(string: "https://id.example/out#f"))) == nil)
    let plain = try #require(URL(string: "https://id.example/out?"))
    #expect(try #require(request().url(at: plain)).absoluteString.hasPrefix("https://id.example/out?id_token_hint="))
  }

  @Test(
    "55. state compared on return",
    arguments: [
      ("http://127.0.0.1:8400/out?state=s%26t", true), ("http://127.0.0.1:8400/out?x=1&state=s%26t", true),
      ("http://127.0.0.1:8400/out", false), ("http://127.0.0.1:8400/out?state=s", false),
      ("http://127.0.0.1:8400/out?state=s%26t&state=s%26t", false), ("http://127.0.0.1:8400/in?state=s%26t", false),
      ("http://127.0.0.1:8401/out?state=s%26t", false), ("/out?state=s%26t", false),
      ("http://127.0.0.1:8400/out?state=%", false),
      ("", false),
    ])
  func returned(url: String, accepted: Bool) {
    #expect(request().isReturn(url) == accepted)
    #expect(!request { $0.postLogoutRedirectURI = nil }.isReturn(url))
  }

  @Test("55. without a state of the login, a state in the callback is foreign")
  func noState() {
    let stateless = request { $0.state = nil }
    #expect(stateless.isReturn("http://127.0.0.1:8400/out"))
    #expect(!stateless.isReturn("http://127.0.0.1:8400/out?state=x"))
  }
}

@Suite("Client registration")
struct ClientRegistrationTests {
  static let endpoint = URL(string: "https://id.example/register")!

  @Test("a registration requests a native client's features, and publishes its public keys")
  func request() throws {
    let key = try KeyFiles.read(KeyFiles.ed25519)
    let request = ClientRegistrationRequest(
      name: "grantd", redirectURIs: ["http://127.0.0.1/cb"], authMethod: "private_key_jwt", scopes: ["openid", "x"],
      keys: [key], initialAccessToken: Secret("iat"), extra: ["application_type": .string("web")])
    let sent = request.httpRequest(to: Self.endpoint)
    #expect(sent.method == "POST" && sent.purpose == .registration)
    #expect(sent.header("Authorization") == "Bearer iat" && sent.header("Content-Type") == "application/json")
    let members = try #require(JSON(message: sent.body ?? Data())?.dictionary)
    #expect(members["redirect_uris"] == .array([.string("http://127.0.0.1/cb")]))
    #expect(members["scope"] == .string("openid x") && members["application_type"] == .string("web"))
    #expect(members["token_endpoint_auth_method"] == .string("private_key_jwt"))
    #expect(members["jwks"] == .object(["keys": .array([.object(try #require(key.publicJWK))])]))
    #expect(!JSON.object(members).text(sorted: true).contains(#""d""#))
    let bare = ClientRegistrationRequest(name: "x", redirectURIs: [], authMethod: "none").httpRequest(to: Self.endpoint)
    #expect(bare.header("Authorization") == nil && JSON(message: bare.body ?? Data())?.dictionary?["jwks"] == nil)
  }

  @Test("an answer with everything, at 200 and at 201", arguments: [200, 201])
  func full(status: Int) throws {
    let body = #"""
      {"client_id":"c","client_secret":"s","client_secret_expires_at":1800000000,"registration_access_token":"r",
       "registration_client_uri":"https://id.example/register/c","token_endpoint_auth_method":"client_secret_post"}
      """#
    let found = try ClientRegistration.parse(answer(body, status: status))
    #expect(found.clientID == "c" && found.clientSecret?.exposed == "s")
    #expect(found.clientSecretExpiresAt == Timestamp(seconds: 1_800_000_000))
    #expect(found.tokenEndpointAuthMethod == "client_secret_post")
    let management = try #require(found.management)
    let request = management.deleteRequest()
    #expect(request.method == "DELETE" && request.purpose == .registration)
    #expect(
      request.header("Authorization") == "Bearer r" && request.url.absoluteString == "https://id.example/register/c")
  }

  @Test(
    "an answer with less, and odd answers",
    arguments: [
      (#"{"client_id":"c"}"#, true), (#"{"client_id":"c","client_secret":"","client_secret_expires_at":0}"#, true),
      (#"{"client_id":"c","registration_access_token":"r"}"#, true),
      (#"{"client_id":"c","registration_access_token":"r","registration_client_uri":"http://id.example/c"}"#, true),
      (#"{"client_id":"c","registration_access_token":"r","registration_client_uri":7}"#, true),
      ("{}", false), ("[]", false), (#"{"client_id":""}"#, false), (#"{"client_id":7}"#, false),
      (#"{"client_id":"a\nb"}"#, false), (#"{"client_id":"c","client_secret":7}"#, false),
      (#"{"client_id":"c","client_secret_expires_at":"never"}"#, false),
      (#"{"client_id":"c","client_secret_expires_at":1e300}"#, false),
      (#"{"client_id":"\#(String(repeating: "c", count: 2049))"}"#, false),
      (#"{"client_id":"c","client_secret":"\#(String(repeating: "c", count: 16_385))"}"#, false),
    ])
  func odd(body: String, accepted: Bool) {
    let found = try? ClientRegistration.parse(answer(body, status: 201))
    #expect((found != nil) == accepted)
    if let found {
      #expect(found.clientSecret == nil && found.clientSecretExpiresAt == nil && found.management == nil)
    }
  }

  @Test("a refusal is reported with its text")
  func refusal() {
    let response = answer(#"{"error":"invalid_client_metadata","error_description":"no"}"#, status: 400)
    let error = OAuthError(code: .invalidClientMetadata, description: "no")
    #expect(throws: ResponseError.oauth(error, status: 400, retryAfter: nil)) {
      try ClientRegistration.parse(response)
    }
    #expect(throws: ResponseError.self) { try ClientRegistration.parse(answer(#"{"client_id":"c"}"#, status: 202)) }
    #expect(throws: ResponseError.oauth(error, status: 200, retryAfter: nil)) {
      try ClientRegistration.parse(HTTPResponse(status: 200, headers: response.headers, body: response.body))
    }
  }

  @Test(
    "a registration is gone when it is removed or not known; some servers keep it",
    arguments: [(204, true), (200, true), (401, true), (404, true), (405, false), (501, false)])
  func deleted(status: Int, isGone: Bool) throws {
    #expect(try ClientRegistration.Management.isDeleted(answer("", status: status)) == isGone)
    #expect(throws: ResponseError.self) { try ClientRegistration.Management.isDeleted(answer("", status: 503)) }
    #expect(throws: ResponseError.redirect(status: 303)) {
      try ClientRegistration.Management.isDeleted(answer("", status: 303))
    }
  }
}
