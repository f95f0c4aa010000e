import Foundation
import Testing

@testable import OAuth

@Suite("Grant types")
struct GrantTypeTests {
  static let endpoint = URL(string: "https://id.example/token")!

  func form(_ request: TokenRequest, _ client: ClientAuthentication = .none) -> [String: String] {
    request.httpRequest(to: Self.endpoint, clientID: "id", client: client).form
  }

  @Test("the client's own grant asks for scopes and resources, with the client's authentication")
  func clientCredentials() {
    let request = TokenRequest.clientCredentials(scopes: ["a", "b"], resources: ["https://x.example"])
    #expect(
      form(request, .post(secret: Secret("s"))) == [
        "grant_type": "client_credentials", "scope": "a b", "resource": "https://x.example", "client_id": "id",
        "client_secret": "s",
      ])
    #expect(form(.clientCredentials(scopes: [])) == ["grant_type": "client_credentials", "client_id": "id"])
  }

  @Test("58. the password grant has name and password only in the body; tokens never in URLs or logs")
  func password() {
    let request = TokenRequest.password(username: "p@x.example", password: Secret("pa&ss"), scopes: ["a"])
    #expect(
      form(request) == [
        "grant_type": "password", "username": "p@x.example", "password": "pa&ss", "scope": "a", "client_id": "id",
      ])
    let sent = request.httpRequest(to: Self.endpoint, clientID: "id", client: .none)
    #expect(
      sent.url == Self.endpoint && "\(request) \(sent)" == "token request for a password POST https://id.example/token")
  }

  @Test("extra parameters never replace a grant's own, nor an assertion")
  func extra() {
    var request = TokenRequest.deviceCode(Secret("d"))
    request.extraParameters = [
      Parameter("device_code", "x"), Parameter("grant_type", "x"), Parameter("assertion", "x"),
      Parameter("client_assertion", "x"), Parameter("client_assertion_type", "x"), Parameter("y", "z"),
    ]
    #expect(
      form(request) == [
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": "d", "client_id": "id", "y": "z",
      ])
  }

  // MARK: Token exchange

  @Test("52. Token exchange (8693): the request carries subject, actor and targets, each by its name")
  func exchange() throws {
    let exchange = try TokenExchangeRequest(
      subjectToken: Secret("s"), subjectTokenType: .accessToken, actorToken: Secret("a"), actorTokenType: .idToken,
      requestedTokenType: .idToken, audiences: ["one", "two"], resources: ["https://x.example"], scopes: ["r", "w"])
    #expect(
      form(.exchange(exchange)) == [
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "client_id": "id",
        "subject_token": "s", "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "actor_token": "a", "actor_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id_token", "audience": "one AND two",
        "resource": "https://x.example", "scope": "r w",
      ])
    let plain = try TokenExchangeRequest(subjectToken: Secret("s"))
    #expect(form(.exchange(plain)).keys.sorted() == ["client_id", "grant_type", "subject_token", "subject_token_type"])
  }

  @Test(
    "52. actor_token needs its type",
    arguments: [
      ("s", "a", nil, [], .actorTokenWithoutType), ("s", "a", "", [], .actorTokenWithoutType),
      ("s", nil, "t", [], .typeWithoutActorToken), ("", nil, nil, [], .noSubjectToken),
      ("s", nil, nil, ["/x"], .invalidResource("/x")), ("s", nil, nil, ["https://x.example/#"], nil),
      ("s", "a", "t", ["urn:x:y"], nil),
    ] as [(String, String?, String?, [String], TokenExchangeRequestError?)])
  func exchangeRefused(
    subject: String, actor: String?, type: String?, resources: [String], error: TokenExchangeRequestError?
  ) {
    let found = thrown { () throws(TokenExchangeRequestError) in
      _ = try TokenExchangeRequest(
        subjectToken: Secret(subject), actorToken: actor.map(Secret.init),
        actorTokenType: type.map(TokenExchangeRequest.TokenType.init), resources: resources)
    }
    // An empty fragment is a fragment (RFC 3986 §3.5).
    let expected = resources == ["https://x.example/#"] ? .invalidResource(resources[0]) : error
    #expect(found == expected)
  }

  static let exchanged = #""access_token":"a","issued_token_type":"urn:x""#

  @Test(
    "52. `issued_token_type` required; `token_type` may be `N_A`",
    arguments: [
      (#"{\#(exchanged),"token_type":"Bearer"}"#, "Bearer"), (#"{\#(exchanged),"token_type":"N_A"}"#, "N_A"),
      (#"{\#(exchanged),"token_type":"n_a"}"#, "N_A"), (#"{\#(exchanged),"token_type":"mac"}"#, nil),
      (#"{\#(exchanged)}"#, nil), (#"{"access_token":"a","token_type":"Bearer"}"#, nil),
      (#"{"access_token":"a","token_type":"Bearer","issued_token_type":""}"#, nil),
      (#"{"access_token":"a","token_type":"Bearer","issued_token_type":7}"#, nil),
      (#"{"access_token":"","issued_token_type":"urn:x","token_type":"N_A"}"#, nil),
    ] as [(String, String?)])
  func exchangeAnswer(body: String, type: String?) {
    let parsed = try? TokenResponse.parseExchange(answer(body), quirks: .init())
    #expect(parsed?.tokenType == type)
    #expect(parsed == nil || parsed?.issuedTokenType == "urn:x")
  }

  @Test("52. N_A is a token type only of exchanges")
  func notElsewhere() {
    let body = #"{"access_token":"a","token_type":"N_A"}"#
    #expect(throws: ResponseError.self) { try TokenResponse.parse(answer(body), quirks: .init()) }
  }

  // MARK: Odd answers

  @Test(
    "31. if the provider never sends the type, the configuration does, and a received type is still read",
    arguments: [
      (#"{"access_token":"a"}"#, "Bearer"), (#"{"access_token":"a","token_type":null}"#, "Bearer"),
      (#"{"access_token":"a","token_type":"DPoP"}"#, "DPoP"), (#"{"access_token":"a","token_type":"mac"}"#, nil),
      (#"{"access_token":"a","token_type":7}"#, nil), (#"{"access_token":"a","token_type":""}"#, "Bearer"),
    ] as [(String, String?)])
  func assumedType(body: String, type: String?) {
    let quirks = TokenResponseQuirks(tokenType: "bearer")
    #expect((try? TokenResponse.parse(answer(body), quirks: quirks))?.tokenType == type)
  }

  static let quirks = TokenResponseQuirks(
    successMember: "ok", errorMembers: ["error.type", "errcode", "fault.code"],
    errorDescriptionMembers: ["error.message", "errmsg"])

  @Test(
    "37. success-with-error in a provider's own form, at 200 and at 400",
    arguments: [
      (#"{"ok":false}"#, "ok is false", nil), (#"{"ok":false,"error":"token_revoked"}"#, "token_revoked", nil),
      (#"{"errcode":40029,"errmsg":"no\nsuch code"}"#, "40029", "no such code"),
      (#"{"error":{"message":"gone","type":"OAuthException","code":190}}"#, "OAuthException", "gone"),
      (#"{"fault":{"code":"x"},"error_description":"d"}"#, "x", "d"),
      (#"{"error":"e","errmsg":"m"}"#, "e", "m"), (#"{"error":"e","error_description":"d","errmsg":"m"}"#, "e", "d"),
    ] as [(String, String, String?)], [200, 400])
  func ownWords(row: (body: String, code: String, description: String?), status: Int) {
    let error = OAuthError(code: .init(rawValue: row.code), description: row.description)
    // What OAuthError escapes is escaped once.
    let found = thrown { () throws(ResponseError) in
      _ = try TokenResponse.parse(answer(row.body, status: status), quirks: Self.quirks)
    }
    guard case .oauth(let refusal, status, nil)? = found else {
      Issue.record("\(String(describing: found))")
      return
    }
    #expect(refusal.code == error.code && refusal.description == row.description)
  }

  @Test(
    "37. an answer without that error text is a success",
    arguments: [
      #","ok":true"#, #","errcode":0"#, #","errcode":"","fault":[]"#, #","fault":{"code":{}}"#, #","ok":"false""#,
    ])
  func noError(members: String) {
    let body = #"{"access_token":"a","token_type":"bearer"\#(members)}"#
    #expect(throws: Never.self) { try TokenResponse.parse(answer(body), quirks: Self.quirks) }
  }
}
