import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import OAuth

@Suite("Signed requests")
struct RequestSigningTests {
  static let endpoint = URL(string: "https://id.example:8443/token?x=1#f")!
  static let now = Timestamp(milliseconds: 1_800_000_000_900)

  /// Identifiers in order: j1, j2, …
  final class Identifiers {
    var count = 0
    func next() -> String {
      count += 1
      return "j\(count)"
    }
  }

  func header(_ compact: String) throws -> [String: JSON] {
    let first = try #require(compact.split(separator: ".").first)
    return try #require(decodeBase64URL(first).flatMap { JSON(message: $0)?.dictionary })
  }

  func claims(_ compact: String?) throws -> [String: JSON] {
    try SignedJWT.parse(Secret(try #require(compact))).claims
  }

  @Test(
    "54. private_key_jwt, client_secret_jwt: iss = sub = client_id, aud, exp ≤ 60 s, unique jti for every attempt",
    arguments: [BodyFormat.form, .json])
  func clientAssertion(format: BodyFormat) throws {
    let keys = [
      try KeyFiles.read(KeyFiles.ec256), try KeyFiles.read(Keys.rsa.pemRepresentation),
      try SigningKey.shared(Keys.clientSecret, algorithm: .hs256),
    ]
    for key in keys {
      let client = ClientAuthentication.assertion(key: key, audience: "https://id.example")
      let request = TokenRequest.refresh(Secret("r+r"), resources: ["x:1", "x:2"])
        .httpRequest(to: Self.endpoint, clientID: "id", client: client, format: format)
      let identifiers = Identifiers()
      let first = try request.signed(at: Self.now, identifier: identifiers.next, nonce: nil)
      let second = try first.signed(at: Self.now + .seconds(9), identifier: identifiers.next, nonce: nil)
      for (sent, identifier, seconds) in [(first, "j1", 1_800_000_000), (second, "j2", 1_800_000_009)] {
        let body = parameters(sent, format)
        #expect(body["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        #expect(body["client_id"] == "id" && body["refresh_token"] == "r+r" && body["client_secret"] == nil)
        #expect(format == .json || body["resource"] == "x:1 AND x:2")
        #expect(sent.header("Authorization") == nil)
        let claims = try claims(body["client_assertion"])
        #expect(
          claims == [
            "iss": .string("id"), "sub": .string("id"), "aud": .string("https://id.example"),
            "jti": .string(identifier), "iat": .number("\(seconds)"), "exp": .number("\(seconds + 60)"),
          ])
      }
      #expect(parameters(second, format).count == parameters(first, format).count)
    }
  }

  @Test("54. aud, if the provider requires it: the requested endpoint, each its own")
  func endpointAudience() throws {
    let client = ClientAuthentication.assertion(key: try KeyFiles.read(KeyFiles.ec256), audience: nil)
    for text in ["https://id.example/token", "https://id.example/revoke?x=1"] {
      let request = RevocationRequest(token: Secret("r"), hint: nil)
        .httpRequest(to: try #require(URL(string: text)), clientID: "id", client: client)
      let sent = try request.signed(at: Self.now, identifier: { "j" }, nonce: nil)
      #expect(try claims(sent.form["client_assertion"])["aud"] == .string(text))
    }
  }

  func parameters(_ request: HTTPRequest, _ format: BodyFormat) -> [String: String] {
    guard format == .json else { return request.form }
    let members = JSON(message: request.body ?? Data())?.dictionary ?? [:]
    return members.compactMapValues { if case .string(let text) = $0 { text } else { nil } }
  }

  @Test("a service account's assertion is made at each sending, with scope where the provider wants it there")
  func grantAssertion() throws {
    let key = try KeyFiles.read(Keys.rsa.pemRepresentation)
    let claims = GrantAssertionClaims(
      issuer: "svc@x.example", subject: "p@x.example", audience: "https://id.example/token", scope: "a b",
      extra: ["iss": .string("forged"), "tenant": .string("t")])
    let request = TokenRequest.jwtBearer(key: key, claims: claims)
      .httpRequest(to: Self.endpoint, clientID: "", client: .none)
    #expect(request.form == ["grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"])
    let sent = try request.signed(at: Self.now, identifier: { "j" }, nonce: nil)
    #expect(
      try self.claims(sent.form["assertion"]) == [
        "iss": .string("svc@x.example"), "sub": .string("p@x.example"), "aud": .string("https://id.example/token"),
        "jti": .string("j"), "iat": .number("1800000000"), "exp": .number("1800003600"), "scope": .string("a b"),
        "tenant": .string("t"),
      ])
    #expect(sent.form.keys.sorted() == ["assertion", "grant_type"])
    let bare = GrantAssertionClaims(issuer: "i", audience: "a", lifetime: .seconds(60))
    let short = try bare.assertion(key: key, identifier: "j", at: Self.now)
    let found = try SignedJWT.parse(short).claims
    #expect(found["sub"] == nil && found["scope"] == nil && found["exp"] == .number("1800000060"))
  }

  @Test("a request without signatures is sent unchanged")
  func unsigned() throws {
    let request = TokenRequest.refresh(Secret("r")).httpRequest(to: Self.endpoint, clientID: "id", client: .none)
    let sent = try request.signed(
      at: Self.now,
      identifier: {
        Issue.record("nothing needs an identifier")
        return ""
      }, nonce: "n")
    #expect(sent == request)
  }

  @Test("mutual TLS names only the client in the body")
  func mutualTLS() {
    let request = TokenRequest.refresh(Secret("r")).httpRequest(to: Self.endpoint, clientID: "id", client: .mutualTLS)
    #expect(request.form == ["grant_type": "refresh_token", "refresh_token": "r", "client_id": "id"])
    #expect(request.header("Authorization") == nil && request.signatures.isEmpty && request.tls == nil)
  }

  static let key = DPoPKey(randomBytes: Array(1...32))

  @Test("48. DPoP (9449): `dpop+jwt`, public jwk, htm, htu without query and fragment, fresh jti, iat")
  func proof() throws {
    let request = TokenRequest.refresh(Secret("r")).httpRequest(to: Self.endpoint, clientID: "id", client: .none)
      .proving(Self.key)
    let identifiers = Identifiers()
    let first = try request.signed(at: Self.now, identifier: identifiers.next, nonce: nil)
    let retry = try first.signed(at: Self.now, identifier: identifiers.next, nonce: "n-1")
    for (sent, identifier, nonce) in [(first, "j1", nil), (retry, "j2", "n-1")] as [(HTTPRequest, String, String?)] {
      #expect(sent.headers.filter { $0.name == "DPoP" }.count == 1)
      let proof = try #require(sent.header("DPoP"))
      let head = try header(proof)
      #expect(head["typ"] == .string("dpop+jwt") && head["alg"] == .string("ES256") && head["kid"] == nil)
      let jwk = try #require(head["jwk"]?.dictionary)
      #expect(jwk.keys.sorted() == ["crv", "kty", "x", "y"])
      var expected: [String: JSON] = [
        "htm": .string("POST"), "htu": .string("https://id.example:8443/token"), "jti": .string(identifier),
        "iat": .number("1800000000"),
      ]
      expected["nonce"] = nonce.map(JSON.string)
      #expect(try claims(proof) == expected)
      let keys = try #require(JWKSet(Data(#"{"keys":[\#(JSON.object(jwk).text(sorted: true))]}"#.utf8)))
      let algorithm = try SignedJWT.parse(Secret(proof))
        .verifySignature(algorithms: ["ES256"], clientSecret: nil, keys: keys)
      #expect(algorithm == .es256)
    }
  }

  @Test(
    "48. htu is the URL as written, with a path",
    arguments: [
      ("https://API.example/a%20b/?q#f", "https://API.example/a%20b/"), ("https://api.example", "https://api.example/"),
      ("https://api.example?q", "https://api.example/"), ("http://[::1]:80/x#?", "http://[::1]:80/x"),
    ])
  func target(url: String, target: String) throws {
    let proof = try Self.key.proof(
      method: "GET", url: try #require(URL(string: url)), accessToken: nil, nonce: nil, identifier: "j", at: Self.now)
    #expect(try claims(proof.exposed)["htu"] == .string(target))
  }

  @Test("48. `ath` at resources, by the vector of RFC 9449 §7.1")
  func tokenHash() throws {
    let token = Secret("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU")
    let request = UserInfo.httpRequest(to: Self.endpoint, accessToken: token, proof: Self.key)
    #expect(request.header("Authorization") == "DPoP " + token.exposed)
    let sent = try request.signed(at: Self.now, identifier: { "j" }, nonce: nil)
    let claims = try claims(sent.header("DPoP"))
    #expect(claims["ath"] == .string("fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo") && claims["htm"] == .string("GET"))
    #expect(UserInfo.httpRequest(to: Self.endpoint, accessToken: token).signatures.isEmpty)
  }

  @Test("48. the key is kept with the account: it survives its own form, and its thumbprint names it")
  func keptKey() throws {
    let kept = try #require(DPoPKey(raw: Self.key.raw))
    #expect(kept == Self.key && kept.thumbprint == Self.key.thumbprint && kept.thumbprint.utf8.count == 43)
    #expect(DPoPKey(randomBytes: Array(2...33)) != kept)
    // Zero is no key, and neither is anything beyond the curve's order: others are made of them.
    #expect(
      DPoPKey(randomBytes: Array(repeating: 0, count: 32)) != DPoPKey(randomBytes: Array(repeating: 255, count: 32)))
    for text in ["", "AAAA", "!", base64URL(Array(repeating: UInt8(255), count: 32))] {
      #expect(DPoPKey(raw: Secret(text)) == nil)
    }
  }

  @Test("48. the thumbprint of RFC 9449's own key")
  func thumbprint() {
    let members = #"""
      {"crv":"P-256","kty":"EC","x":"l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs","y":"9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"}
      """#
    #expect(JSON(message: Data(members.utf8))?.text(sorted: true) == members)
    #expect(base64URL(SHA256.hash(data: Data(members.utf8))) == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
  }

  @Test(
    "48. `use_dpop_nonce` asks for a nonce, in a body at the authorization server, in a challenge at a resource",
    arguments: [
      (400, #"{"error":"use_dpop_nonce"}"#, "n", nil, true), (401, #"{"error":"use_dpop_nonce"}"#, "n", nil, true),
      (400, #"{"error":"use_dpop_nonce"}"#, nil, nil, false), (400, #"{"error":"invalid_grant"}"#, "n", nil, false),
      (200, #"{"error":"use_dpop_nonce"}"#, "n", nil, false), (500, #"{"error":"use_dpop_nonce"}"#, "n", nil, false),
      (401, "", "n", #"DPoP error="use_dpop_nonce", error_description="x, y=\"z\"""#, true),
      (401, "", "n", #"Bearer realm="a", dpop algs="ES256", error=use_dpop_nonce"#, true),
      (401, "", "n", #"Bearer error="use_dpop_nonce""#, false), (401, "", "n", "DPoP", false),
      (401, "", "n", #"DPoP error="invalid_token", Bearer error="use_dpop_nonce""#, false),
      (403, "", "n", #"DPoP error="use_dpop_nonce""#, false), (401, "", "n", #"DPoP error="use_dpop_nonce"#, false),
      (401, "", "n", #"error="use_dpop_nonce""#, false), (401, "", "n", #",,"=,DPoP"#, false),
      (401, "", "n", String(repeating: "DPoP error=use_dpop_nonce,", count: 400), false),
    ] as [(Int, String, String?, String?, Bool)])
  func nonceAsked(status: Int, body: String, nonce: String?, challenge: String?, asked: Bool) {
    var headers = nonce.map { [HTTPRequest.Header("DPoP-Nonce", $0)] } ?? []
    if let challenge { headers.append(.init("WWW-Authenticate", challenge)) }
    let response = answer(body, status: status, headers: headers)
    #expect(response.asksForDPoPNonce == asked)
    #expect(response.dpopNonce == nonce)
  }

  @Test(
    "48. a nonce is one header of the characters that a nonce has",
    arguments: [
      (["n"], "n"), ([" eyJ7S_zG.eyJH0-Z.HX4w-7v "], "eyJ7S_zG.eyJH0-Z.HX4w-7v"), (["a", "b"], nil), ([""], nil),
      (["a b"], nil), (["a\"b"], nil), (["a\\b"], nil), (["a\r\nX: y"], nil), (["é"], nil), ([], nil),
      ([String(repeating: "n", count: 1025)], nil),
    ] as [([String], String?)])
  func nonces(values: [String], nonce: String?) {
    #expect(HTTPResponse(status: 200, headers: values.map { .init("dpop-nonce", $0) }).dpopNonce == nonce)
  }

  @Test(
    "48. nonces are kept for each origin: scheme, host and port",
    arguments: [
      ("https://ID.example/token", "https://id.example:443"), ("HTTPS://id.example:443", "https://id.example:443"),
      ("http://127.0.0.1/x", "http://127.0.0.1:80"), ("https://[::1]:8443/x?y", "https://[::1]:8443"),
    ])
  func origins(url: String, origin: String) throws {
    #expect(HTTPRequest(purpose: .token, method: "GET", url: try #require(URL(string: url))).origin == origin)
  }
}
