import Foundation
import TestSupport
import Testing

@testable import OAuth

@Suite("UserInfo, revocation, and their parts")
struct OtherMessageTests {
  static let endpoint = URL(string: "https://id.example/e")!

  @Test(
    "47. UserInfo is a JSON object about the ID token's subject",
    arguments: [
      (#"{"sub":"p","email":"e@x.example","email_verified":true,"name":7}"#, 200, "p", true),
      (#"{"sub":"p"}"#, 200, nil, true), (#"{"sub":"q"}"#, 200, "p", false), (#"{"sub":"P"}"#, 200, "p", false),
      (#"{"sub":""}"#, 200, nil, false), ("{}", 200, nil, false), (#"{"sub":7}"#, 200, nil, false),
      (#"{"sub":"p"}"#, 201, "p", false), ("ey.ey.ey", 200, "p", false),
    ] as [(String, Int, String?, Bool)])
  func userInfo(body: String, status: Int, subject: String?, accepted: Bool) {
    let info = try? UserInfo.parse(answer(body, status: status), subject: subject)
    #expect((info != nil) == accepted)
  }

  @Test("47. UserInfo's other claims decorate, and a mismatch names both subjects")
  func userInfoClaims() throws {
    let body = #"{"sub":"p","email":"e@x.example","email_verified":true,"name":7,"preferred_username":"pp"}"#
    let info = try UserInfo.parse(answer(body), subject: "p")
    #expect(info.email == "e@x.example" && info.name == nil && info.preferredUsername == "pp")
    #expect(throws: ResponseError.subjectMismatch(expected: "q", found: "p")) {
      try UserInfo.parse(answer(body), subject: "q")
    }
    let request = UserInfo.httpRequest(to: Self.endpoint, accessToken: Secret("t"))
    #expect(request.method == "GET" && request.purpose == .userinfo && request.header("Authorization") == "Bearer t")
  }

  @Test("50. a token is revoked by an authenticated POST")
  func revocation() {
    let request = RevocationRequest(token: Secret("r"), hint: .refreshToken)
      .httpRequest(to: Self.endpoint, clientID: "id", client: .post(secret: Secret("s")))
    #expect(request.method == "POST" && request.purpose == .revocation)
    #expect(
      request.form == ["token": "r", "token_type_hint": "refresh_token", "client_id": "id", "client_secret": "s"])
  }

  @Test(
    "50. 200 is revoked even for unknown tokens; an outage is retried; a refusal is told apart",
    arguments: [
      (200, "", .revoked), (204, "", .revoked), (200, "<html>", .revoked), (503, "", .retryLater(after: .seconds(9))),
      (500, "", .retryLater(after: .seconds(9))), (429, "", .retryLater(after: .seconds(9))),
      (400, #"{"error":"unsupported_token_type"}"#, .unsupported), (404, "", .unsupported), (405, "", .unsupported),
      (501, "", .unsupported), (302, "", .refused(nil)), (400, "", .refused(nil)),
      (401, #"{"error":"invalid_client"}"#, .refused(OAuthError(code: .invalidClient))),
      (200, #"{"error":"invalid_client"}"#, .refused(OAuthError(code: .invalidClient))),
    ] as [(Int, String, RevocationRequest.Outcome)])
  func outcomes(status: Int, body: String, outcome: RevocationRequest.Outcome) {
    let response = answer(body, status: status, headers: [.init("Retry-After", "9")])
    #expect(RevocationRequest(token: Secret("t"), hint: nil).outcome(of: response) == outcome)
  }

  @Test(
    "JSON is read strictly",
    arguments: [
      ("{\"a\":1}", true), (" [1,2] ", true), ("\u{feff}{}", true), (#""\ud83d\ude00\n\u00e9""#, true),
      ("-0.5e+10", true),
      ("", false), ("{", false), ("[1,]", false), ("{\"a\":1,}", false), ("{\"a\":1,\"a\":2}", false), ("01", false),
      ("+1", false), ("1.", false), (".5", false), ("1e", false), ("-", false), ("nul", false), ("NaN", false),
      ("Infinity", false), ("'a'", false), (#""\ud83d""#, false), (#""\ude00""#, false), (#""\x41""#, false),
      ("\"a\nb\"", false), ("\"open", false), ("{} {}", false), ("{a:1}", false), ("// x\n1", false),
      (String(repeating: "[", count: 33) + String(repeating: "]", count: 33), false),
      (String(repeating: "[", count: 100_000), false),
      (String(repeating: "[", count: 32) + String(repeating: "]", count: 32), true),
    ])
  func json(text: String, accepted: Bool) {
    #expect((JSON(message: Data(text.utf8)) != nil) == accepted)
  }

  @Test("JSON refuses bytes that are not UTF-8, and survives its own writing")
  func jsonBytes() throws {
    #expect(JSON(message: [0x22, 0xff, 0x22]) == nil)
    #expect(JSON(message: [0x22, 0xc0, 0x80, 0x22]) == nil)
    let text = #"{"a":["\"\\/\b\f\n\r\t\u0001é😀",1.50,-0,true,false,null,{}],"b":[]}"#
    let value = try #require(JSON(message: Data(text.utf8)))
    #expect(JSON(message: Data(value.serialized(sorted: true))) == value)
  }

  @Test("JSON never traps on any bytes")
  func jsonNoise() {
    var generator = Seeded(state: 1)
    let alphabet = Array(#"{}[]",:\u0d8e1-+.tfn "#.utf8) + [0xff, 0xc3, 0x00]
    for _ in 0..<20_000 {
      let bytes = (0..<Int.random(in: 0...24, using: &generator)).map { _ in alphabet.randomElement(using: &generator)!
      }
      _ = JSON(message: bytes)
      _ = FormEncoding.decode(String(decoding: bytes, as: UTF8.self))
      _ = URI(String(decoding: bytes, as: UTF8.self))
    }
  }

  @Test(
    "base64url without padding, both ways",
    arguments: [
      ([], ""), ([0xfb, 0xff], "-_8"), ([1], "AQ"), ([1, 2, 3], "AQID"),
      (Array("any carnal pleas".utf8), "YW55IGNhcm5hbCBwbGVhcw"),
    ] as [([UInt8], String)])
  func base64(bytes: [UInt8], text: String) {
    #expect(base64URL(bytes) == text)
    #expect(decodeBase64URL(text) == Data(bytes))
  }

  @Test("texts that are not base64url", arguments: ["A", "AQ==", "+/8", "A Q", "AQ\n", "AAAAA", "é", "AR", "AAB"])
  func notBase64(text: String) {
    #expect(decodeBase64URL(text) == nil)
  }

  @Test(
    "foreign text is made printable",
    arguments: [
      ("plain é 😀", 20, "plain é 😀"), ("a\nb\u{1b}[31m", 40, #"a\u{a}b\u{1b}[31m"#),
      ("\u{202e}evil", 40, #"\u{202e}evil"#), ("\u{2028}", 40, #"\u{2028}"#), ("abcdef", 6, "abcdef"),
      ("abcdefg", 6, "abcde…"),
      ("abc", 0, "…"),
    ])
  func printable(text: String, limit: Int, expected: String) {
    #expect(text.printable(limit: limit) == expected)
  }

  @Test("foreign text has no unsafe character afterwards, and keeps the others")
  func unsafeCharacters() {
    for scalar in UnsafeCharacters.all {
      let text = "a" + String(scalar) + "b"
      let printable = "a\\u{\(String(scalar.value, radix: 16))}b"
      #expect(text.printable(limit: 40) == printable)
      #expect([printable, "a b"].contains(text.asSentence(limit: 40)), "\(scalar.value)")
    }
    for scalar in UnsafeCharacters.safe {
      let text = "a" + String(scalar) + "b"
      for found in [text.printable(limit: 40), text.asSentence(limit: 40)] {
        #expect(found.unicodeScalars.elementsEqual(text.unicodeScalars), "\(scalar.value)")
      }
    }
  }

  @Test("control characters of a server's sentence are spaces")
  func sentence() {
    #expect("a\nb\u{1b}[31m\u{2028}\u{202e}c".asSentence(limit: 40) == #"a b [31m \u{202e}c"#)
    #expect("abcdefg".asSentence(limit: 6) == "abcde…")
  }

  @Test("moments saturate at the ends of time")
  func saturation() {
    #expect(Timestamp(seconds: .max).milliseconds == .max && Timestamp(seconds: .min).milliseconds == .min)
    #expect((Timestamp(milliseconds: .max) + .seconds(1)).milliseconds == .max)
    #expect((Timestamp(milliseconds: .min) - .seconds(1)).milliseconds == .min)
  }
}

@Suite("Secrets")
struct SecretTests {
  static let text = "S3CRET"
  static let secret = Secret(text)

  static func bearers() throws -> [Any] {
    let url = URL(string: "https://id.example/e?state=S3CRET")!
    let redirectURI = try RedirectURI("app:/cb")
    let verifier = CodeVerifier(rawValue: Secret(String(repeating: text, count: 8)))!
    var code = TokenRequest.code(secret, redirectURI: redirectURI, verifier: verifier)
    code.extraParameters = [Parameter("x", text)]
    code.extraHeaders = [.init("X", text)]
    let refresh = TokenRequest.refresh(secret)
    let client = ClientAuthentication.basic(secret: secret, encoding: .raw)
    let idToken = Tokens.make(["sub": .string(text), "email": .string(text), "nonce": .string(text)])
    let tokens = answer(
      #"{"access_token":"S3CRET","refresh_token":"S3CRET","id_token":"S3CRET","token_type":"bearer","k":"S3CRET"}"#)
    let response = try AuthorizationResponse.parse("/cb?code=S3CRET&state=S3CRET&session_id=S3CRET")
    return [
      secret, verifier, code, refresh, client, ClientAuthentication.post(secret: secret), tokens, response,
      refresh.httpRequest(to: url, clientID: "id", client: client), try IDToken.parse(idToken),
      try TokenResponse.parse(tokens, quirks: .init(keepMembers: ["k"])), RevocationRequest(token: secret, hint: nil),
      AuthorizationRequest(
        clientID: "id", redirectURI: redirectURI, scopes: [], state: secret, nonce: secret, challenge: nil,
        extra: [Parameter("x", text)]),
      AuthorizationResponse.Expectation(state: secret, issuer: nil, issuerPromised: false),
      Tokens.checks {
        $0.nonce = secret
        $0.accessToken = secret
        $0.code = secret
        $0.clientSecret = secret
        $0.previous = try? IDToken.parse(idToken)
      },
      PushedAuthorizationResponse(requestURI: secret, expiresIn: .zero),
      UserInfo.httpRequest(to: url, accessToken: secret),
    ] + (try moreBearers())
  }

  private static func moreBearers() throws -> [Any] {
    let url = URL(string: "https://id.example/e?state=S3CRET")!
    let key = try SigningKey.shared(secret, algorithm: .hs256)
    let claims = GrantAssertionClaims(issuer: "i", audience: "a")
    let exchange = try TokenExchangeRequest(
      subjectToken: secret, actorToken: secret, actorTokenType: .idToken, audiences: [text])
    let logout = Signed.make(LogoutTokenTests.claims, ["sub": .string(text), "sid": .string(text)])
    var endSession = EndSessionRequest(idTokenHint: secret, clientID: nil, postLogoutRedirectURI: nil, state: secret)
    endSession.extra = [Parameter("x", text)]
    let tls = TLSChoice(authorities: Data(text.utf8), certificates: Data(text.utf8), key: secret)
    var request = HTTPRequest(purpose: .token, method: "POST", url: url, body: Data(text.utf8))
    request.tls = tls
    request.signatures = [.clientAssertion(key: key, clientID: "id", audience: "a")]
    return [
      key, ClientAssertion(key: key, audience: .issuer), ClientAuthentication.assertion(key: key, audience: "a"), tls,
      request, HTTPRequest.Signature.proof(key: DPoPKey(randomBytes: Array(1...32)), accessToken: secret), exchange,
      TokenRequest.exchange(exchange), TokenRequest.deviceCode(secret),
      TokenRequest.password(username: text, password: secret, scopes: []),
      TokenRequest.jwtBearer(key: key, claims: claims), try LogoutToken.parse(logout), endSession,
      try DeviceAuthorizationResponse.parse(
        answer(
          #"{"device_code":"S3CRET","user_code":"S3CRET","verification_uri":"https://x.example","expires_in":1}"#)),
      IntrospectionRequest(token: secret, hint: nil),
      try IntrospectionResponse.parse(answer(#"{"active":true,"username":"S3CRET"}"#)),
      ClientRegistrationRequest(members: ["software_statement": .string(text)], initialAccessToken: secret),
      try ClientRegistration.parse(
        answer(
          #"{"client_id":"c","client_secret":"S3CRET","registration_access_token":"S3CRET","registration_client_uri":"https://x.example"}"#
        )),
      Signed.checks { $0.clientSecret = secret },
      try UserInfo.parse(
        signed: Signed.make(["sub": .string(text), "email": .string(text)]), checks: Signed.checks(),
        keys: Signed.keys, subject: nil),
    ]
  }

  @Test("no type that bears a secret shows it, by interpolation, dump or reflection", arguments: 0..<37)
  func redaction(index: Int) throws {
    let bearers = try Self.bearers()
    try #require(bearers.count == 37)
    let bearer = bearers[index]
    var dumped = ""
    dump(bearer, to: &dumped)
    let optional: Any? = bearer
    for shown in ["\(bearer)", String(reflecting: bearer), String(describing: optional), "\([bearer])", dumped] {
      #expect(!shown.contains(Self.text), "\(type(of: bearer))")
    }
  }
}
