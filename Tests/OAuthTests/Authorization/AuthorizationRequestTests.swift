import Foundation
import Testing

@testable import OAuth

@Suite("Authorization request")
struct AuthorizationRequestTests {
  static let endpoint = URL(string: "https://id.example/authorize")!

  func request(_ change: (inout AuthorizationRequest) -> Void = { _ in }) throws -> AuthorizationRequest {
    var request = AuthorizationRequest(
      clientID: "client", redirectURI: try RedirectURI("http://127.0.0.1:8400/cb"), scopes: ["openid", "e-mail"],
      state: Secret("st&te"), nonce: Secret("n"), challenge: "ch")
    change(&request)
    return request
  }

  @Test(
    "10. state is compared by content, at any length",
    arguments: [
      ("a", "a", true), ("a", "b", false), ("a", "aa", false), ("aa", "a", false), ("", "", true), ("", "a", false),
      ("a", "", false), ("abcabc", "abc", false),
    ])
  func comparison(left: String, right: String, equal: Bool) {
    #expect(constantTimeEqual(left, right) == equal)
    #expect((Secret(left) == Secret(right)) == equal)
  }

  @Test("11. the verifier and challenge of RFC 7636 appendix B")
  func vector() throws {
    let verifier = try #require(CodeVerifier(rawValue: Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")))
    #expect(verifier.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
    let octets: [UInt8] = [
      116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191, 240,
      91, 88, 5, 88, 83, 132, 141, 121,
    ]
    #expect(CodeVerifier(randomBytes: octets) == verifier)
    #expect(CodeVerifier(randomBytes: octets).secret.exposed.count == 43)
  }

  @Test(
    "11. a verifier is 43 to 128 unreserved characters",
    arguments: [
      (String(repeating: "a", count: 42), false), (String(repeating: "a", count: 43), true),
      (String(repeating: "~", count: 128), true), (String(repeating: "a", count: 129), false),
      (String(repeating: "a", count: 42) + "+", false), (String(repeating: "a", count: 42) + "é", false),
    ])
  func grammar(text: String, accepted: Bool) {
    #expect((CodeVerifier(rawValue: Secret(text)) != nil) == accepted)
  }

  @Test("11. the method is S256, always; 12. no challenge is sent where PKCE is off, and only there")
  func pkce() throws {
    let url = try request().url(at: Self.endpoint)
    #expect(url.parameter("code_challenge") == "ch" && url.parameter("code_challenge_method") == "S256")
    let off = try request { $0.challenge = nil }.url(at: Self.endpoint)
    #expect(off.parameter("code_challenge") == nil && off.parameter("code_challenge_method") == nil)
  }

  @Test(
    "13. the endpoint's query is kept, and everything is there once",
    arguments: [
      ("https://id.example/authorize", "https://id.example/authorize?response_type=code&"),
      ("https://id.example/authorize?p=B2C%2F1", "https://id.example/authorize?p=B2C%2F1&response_type=code&"),
      ("https://id.example/authorize?", "https://id.example/authorize?response_type=code&"),
      ("dbapi-2://1/connect?k=1", "dbapi-2://1/connect?k=1&response_type=code&"),
    ])
  func query(endpoint: String, start: String) throws {
    let request = try request {
      $0.prompt = "consent"
      $0.loginHint = "a+b@c.example"
      $0.extra = [Parameter("access_type", "offline & more")]
    }
    let url = try request.url(at: #require(URL(string: endpoint)))
    #expect(url.absoluteString.hasPrefix(start))
    #expect(Set(url.parameters.map(\.name)).count == url.parameters.count)
    #expect(url.parameter("client_id") == "client" && url.parameter("scope") == "openid e-mail")
    #expect(url.parameter("redirect_uri") == "http://127.0.0.1:8400/cb" && url.parameter("nonce") == "n")
    #expect(url.parameter("state") == "st&te" && url.parameter("login_hint") == "a+b@c.example")
    #expect(url.parameter("prompt") == "consent" && url.parameter("access_type") == "offline & more")
    #expect(!url.absoluteString.contains("+"))
  }

  @Test("13. a parameter that would be there twice is an error")
  func twice() throws {
    let extra = try request { $0.extra = [Parameter("state", "mine")] }
    #expect(throws: AuthorizationRequestError.duplicateParameter("state")) { try extra.url(at: Self.endpoint) }
    let inEndpoint = try #require(URL(string: "https://id.example/authorize?client%5Fid=x"))
    #expect(throws: AuthorizationRequestError.duplicateParameter("client_id")) { try request().url(at: inEndpoint) }
    let fragment = try #require(URL(string: "https://id.example/authorize#x"))
    #expect(throws: AuthorizationRequestError.self) { try request().url(at: fragment) }
  }

  @Test("13. scopes are joined as the provider wants, and left out where there are none")
  func scopes() throws {
    let comma = try request { $0.scopeSeparator = "," }.url(at: Self.endpoint)
    #expect(comma.parameter("scope") == "openid,e-mail")
    #expect(try request { $0.scopes = [] }.url(at: Self.endpoint).parameter("scope") == nil)
  }

  @Test(
    "14. a resource is an absolute URI without a fragment, and there may be several",
    arguments: [
      (["https://api.example/a", "https://api.example/b"], true), (["urn:example:api"], true), (["/relative"], false),
      (["https://api.example/#f"], false), (["https://ok.example", "nothing"], false), ([""], false),
    ])
  func resources(resources: [String], accepted: Bool) throws {
    let request = try request { $0.resources = resources }
    let url = try? request.url(at: Self.endpoint)
    #expect((url != nil) == accepted)
    if let url { #expect(url.parameters.filter { $0.name == "resource" }.map(\.value) == resources) }
  }

  @Test("14. `resource` is repeatable in a pushed and in a signed request too, and checked there")
  func resourcesElsewhere() throws {
    let request = try request { $0.resources = ["https://api.example/a", "urn:b"] }
    let par = try #require(URL(string: "https://id.example/par"))
    #expect(try request.pushed(to: par, client: .none).form["resource"] == "https://api.example/a AND urn:b")
    let key = try KeyFiles.read(KeyFiles.ed25519)
    let signed = try request.requestObject(key: key, audience: "a", at: Tokens.now, identifier: "j")
    #expect(
      try SignedJWT.parse(signed).claims["resource"] == .array([.string("https://api.example/a"), .string("urn:b")]))
    let wrong = try self.request { $0.resources = ["https://api.example/#f"] }
    #expect(throws: AuthorizationRequestError.invalidResource("https://api.example/#f")) {
      try wrong.requestObject(key: key, audience: "a", at: Tokens.now, identifier: "j")
    }
    #expect(throws: AuthorizationRequestError.self) { try wrong.pushed(to: par, client: .none) }
  }

  @Test("parameters of a user, an API or a key are added to the request by name")
  func further() throws {
    let full = try request {
      $0.responseMode = "query.jwt"
      $0.maxAge = 0
      $0.acrValues = ["one", "two"]
      $0.uiLocales = ["de", "en"]
      $0.claims = #"{"userinfo":{"email":null}}"#
      $0.authorizationDetails = #"[{"type":"payment"}]"#
      $0.dpopThumbprint = "jkt"
    }
    let url = try full.url(at: Self.endpoint)
    let found = Dictionary(url.parameters.map { ($0.name, $0.value) }) { first, _ in first }
    #expect(found["response_mode"] == "query.jwt" && found["max_age"] == "0" && found["acr_values"] == "one two")
    #expect(found["ui_locales"] == "de en" && found["claims"] == #"{"userinfo":{"email":null}}"#)
    #expect(found["authorization_details"] == #"[{"type":"payment"}]"# && found["dpop_jkt"] == "jkt")
    for change in [
      { $0.claims = "[]" }, { $0.claims = "{" }, { $0.authorizationDetails = "{}" },
      { $0.extra = [Parameter("scope", "x")] },
    ] as [(inout AuthorizationRequest) -> Void] {
      #expect(throws: AuthorizationRequestError.self) { try request(change).url(at: Self.endpoint) }
    }
  }

  static let clients: [ClientAuthentication] = [
    .none, .post(secret: Secret("s")), .basic(secret: Secret("s"), encoding: .form), .mutualTLS,
  ]

  @Test("15. PAR: the whole request goes by the back channel, with the client's authentication")
  func pushed() throws {
    let par = try #require(URL(string: "https://id.example/par"))
    for client in Self.clients {
      let sent = try request().pushed(to: par, client: client)
      #expect(sent.form["client_id"] == "client" && sent.form["code_challenge_method"] == "S256")
      #expect(sent.method == "POST" && sent.url == par && sent.purpose == .par)
    }
    let key = try KeyFiles.read(KeyFiles.ed25519)
    let asserted = try request().pushed(to: par, client: .assertion(key: key, audience: "aud"))
    #expect(asserted.signatures == [.clientAssertion(key: key, clientID: "client", audience: "aud")])
  }

  @Test("15. the front channel then carries client_id and request_uri alone")
  func front() throws {
    let pushed = try PushedAuthorizationResponse.parse(
      answer(#"{"request_uri":"urn:x:1","expires_in":60}"#, status: 201))
    #expect(pushed.expiresIn == .seconds(60))
    let url = try request().url(at: Self.endpoint, pushedAs: pushed)
    #expect(url.parameters == [Parameter("client_id", "client"), Parameter("request_uri", "urn:x:1")])
  }

  @Test("15. a signed request is pushed with only the client's identity next to it")
  func pushedSigned() throws {
    let par = try #require(URL(string: "https://id.example/par"))
    for client in Self.clients {
      let sent = try request().pushed(to: par, client: client, requestObject: Secret("a.b.c"))
      var names = ["client_id", "request"]
      if case .post = client { names.append("client_secret") }
      #expect(sent.form.keys.sorted() == names.sorted() && sent.form["request"] == "a.b.c" && sent.purpose == .par)
    }
  }

  @Test("a signed request (RFC 9101) has all parameters as claims, with an expiry, for this provider")
  func requestObject() throws {
    let key = try KeyFiles.read(KeyFiles.ec256)
    let full = try request {
      $0.maxAge = 60
      $0.claims = #"{"userinfo":{}}"#
      $0.authorizationDetails = #"[{"type":"p"}]"#
      $0.extra = [Parameter("audience", "api"), Parameter("request", "x"), Parameter("iss", "forged")]
    }
    let compact = try full.requestObject(key: key, audience: "https://id.example", at: Tokens.now, identifier: "j")
    let token = try SignedJWT.parse(compact)
    #expect(token.type == "oauth-authz-req+jwt" && token.algorithm == "ES256" && token.kid == "k1")
    #expect(
      token.claims == [
        "iss": .string("client"), "aud": .string("https://id.example"), "jti": .string("j"),
        "iat": .number("1800000000"), "nbf": .number("1800000000"), "exp": .number("1800000300"),
        "client_id": .string("client"), "response_type": .string("code"), "scope": .string("openid e-mail"),
        "redirect_uri": .string("http://127.0.0.1:8400/cb"), "state": .string("st&te"), "nonce": .string("n"),
        "code_challenge": .string("ch"), "code_challenge_method": .string("S256"), "max_age": .number("60"),
        "claims": .object(["userinfo": .object([:])]), "audience": .string("api"),
        "authorization_details": .array([.object(["type": .string("p")])]),
      ])
    let url = try full.url(at: Self.endpoint, requestObject: compact)
    #expect(
      url.parameters == [
        Parameter("client_id", "client"), Parameter("response_type", "code"), Parameter("scope", "openid e-mail"),
        Parameter("request", compact.exposed),
      ])
    let plain = try request { $0.scopes = ["x"] }.url(at: Self.endpoint, requestObject: compact)
    #expect(plain.parameters.map(\.name) == ["client_id", "response_type", "request"])
  }

  @Test(
    "15. a pushed request's answer is 201, or a 200 that says the same, with request_uri and a positive expires_in",
    arguments: [
      (201, #"{"request_uri":"urn:x","expires_in":60}"#, true),
      (200, #"{"request_uri":"urn:x","expires_in":60}"#, true),
      (202, #"{"request_uri":"urn:x","expires_in":60}"#, false), (200, #"{"error":"invalid_request"}"#, false),
      (200, #"{"expires_in":60}"#, false),
      (201, #"{"request_uri":"","expires_in":60}"#, false), (201, #"{"request_uri":"urn:x","expires_in":0}"#, false),
      (201, #"{"request_uri":"urn:x","expires_in":true}"#, false), (201, #"{"request_uri":"urn:x"}"#, false),
      (201, "[]", false),
    ])
  func pushedAnswer(status: Int, body: String, accepted: Bool) {
    #expect(((try? PushedAuthorizationResponse.parse(answer(body, status: status))) != nil) == accepted)
  }

  @Test("15. a refusal of a pushed request is reported with its text, even at status 200")
  func pushedRefusal() {
    for status in [200, 400] {
      let response = answer(#"{"error":"invalid_scope"}"#, status: status)
      #expect(throws: ResponseError.oauth(OAuthError(code: .invalidScope), status: status, retryAfter: nil)) {
        try PushedAuthorizationResponse.parse(response)
      }
    }
  }
}
