import Foundation
import Testing

@testable import OAuth

/// Tokens that the provider signs beside the ID token.
enum Signed {
  static let now = Tokens.now
  static let keys = Keys.set(Keys.jwk("ES256"))

  static func checks(_ change: (inout JWTChecks) -> Void = { _ in }) -> JWTChecks {
    var checks = JWTChecks(issuer: Tokens.issuer, clientID: "client", algorithms: ["ES256"], now: now)
    change(&checks)
    return checks
  }

  static func make(
    _ claims: [String: JSON], _ changes: [String: JSON?] = [:], header: [String: JSON?] = [:],
    algorithm: String = "ES256"
  ) -> Secret {
    var head: [String: JSON] = ["alg": .string(algorithm), "kid": .string("k1")]
    for (name, value) in header { head[name] = value }
    var body = claims
    for (name, value) in changes { body[name] = value }
    return Tokens.make(
      header: JSON.object(head).text(sorted: true), claims: JSON.object(body).text(sorted: true), algorithm: algorithm)
  }

  /// What all these tokens are refused for.
  static let common: [(String, [String: JSON?], [String: JSON?], JWTError)] = [
    ("alg none", [:], ["alg": .string("none")], .unsigned), ("crit", [:], ["crit": .array([])], .criticalHeader),
    ("alg not allowed", [:], ["alg": .string("RS256")], .algorithmNotAllowed("RS256")),
    ("alg symmetric", [:], ["alg": .string("HS512")], .algorithmNotAllowed("HS512")),
    ("kid unknown", [:], ["kid": .string("k2")], .unknownKey(kid: "k2")),
    (
      "iss", ["iss": .string("https://id.example/")], [:],
      .wrongIssuer(expected: Tokens.issuer, found: "https://id.example/")
    ),
    ("aud", ["aud": .string("other")], [:], .wrongAudience),
    ("aud array", ["aud": .array([.string("other")])], [:], .wrongAudience),
    ("aud type", ["aud": .number("1")], [:], .malformed("aud is not a string")),
    ("exp", ["exp": .number("1799999970")], [:], .expired(by: .seconds(30))),
    ("exp type", ["exp": .string("1800000300")], [:], .malformed("exp is not a number")),
    ("exp huge", ["exp": .number("1e99")], [:], .malformed("exp is not a date")),
    ("nbf", ["nbf": .number("1800000031")], [:], .notYetValid(by: .seconds(31))),
    ("iat", ["iat": .number("1800000031")], [:], .issuedInFuture(by: .seconds(31))),
  ]
}

@Suite("JARM")
struct JARMTests {
  static let claims: [String: JSON] = [
    "iss": .string(Tokens.issuer), "aud": .string("client"), "exp": .number("1800000060"), "code": .string("c"),
    "state": .string("s"),
  ]

  func parse(_ compact: Secret, _ checks: JWTChecks = Signed.checks()) throws(JARMError) -> AuthorizationResponse {
    try JARM.parse(compact, checks: checks, keys: Signed.keys)
  }

  @Test("57. JARM: aud, exp, iss, signature, then the callback checks")
  func good() throws {
    let compact = Signed.make(Self.claims)
    let callback = try AuthorizationResponse.parse("/cb?response=" + compact.exposed)
    #expect(callback.response == compact && callback.code == nil)
    let response = try parse(try #require(callback.response))
    let expected = AuthorizationResponse.Expectation(state: Secret("s"), issuer: Tokens.issuer, issuerPromised: true)
    #expect(try response.code(for: expected).exposed == "c")
    var other = expected
    other.state = Secret("t")
    #expect(throws: CallbackError.wrongState) { try response.code(for: other) }
  }

  @Test("57. an error inside is the provider's, and a token inside is not asked for")
  func inside() throws {
    let expected = AuthorizationResponse.Expectation(state: Secret("s"), issuer: Tokens.issuer, issuerPromised: true)
    let denied = try parse(Signed.make(Self.claims, ["code": nil, "error": .string("access_denied")]))
    #expect(throws: CallbackError.denied(OAuthError(code: .accessDenied))) { try denied.code(for: expected) }
    let token = try parse(Signed.make(Self.claims, ["access_token": .string("t")]))
    #expect(throws: CallbackError.unexpectedToken) { try token.code(for: expected) }
    for value in [JSON.array([.string("c")]), .object(["c": .string("c")]), .bool(true), .null] {
      let odd = try parse(Signed.make(Self.claims, ["code": value]))
      #expect(throws: CallbackError.neitherCodeNorError, "\(value)") { try odd.code(for: expected) }
    }
    let odd = try parse(Signed.make(Self.claims, ["expires_in": .number("60")]))
    #expect(odd.others["expires_in"]?.exposed == "60" && odd.others["exp"] == nil && odd.others["aud"] == nil)
    let nested = try parse(Signed.make(Self.claims, ["response": .string("x.y.z")]))
    #expect(nested.response == nil)
  }

  @Test("57. an invalid token of any kind leaves the login pending", arguments: Signed.common.indices)
  func common(index: Int) {
    let (name, changes, header, error) = Signed.common[index]
    let compact = Signed.make(Self.claims, changes, header: header)
    #expect(throws: JARMError.token(error), "\(name)") { try parse(compact) }
  }

  @Test("57. iss, aud and exp must be there", arguments: ["iss", "aud", "exp"])
  func missing(claim: String) {
    #expect(throws: JARMError.token(.malformed("it has no \(claim)"))) {
      try parse(Signed.make(Self.claims, [claim: nil]))
    }
    #expect(throws: JARMError.token(.malformed("it has no \(claim)"))) {
      try parse(Signed.make(Self.claims, [claim: .null]))
    }
  }

  @Test("57. an altered response, a response twice, and a text that is not a token are refused")
  func altered() throws {
    let compact = Signed.make(Self.claims).exposed
    let parts = compact.split(separator: ".")
    let forged = base64URL(#"{"iss":"https://id.example","aud":"client","exp":1800000060,"code":"x"}"#.utf8)
    #expect(throws: JARMError.token(.badSignature)) { try parse(Secret("\(parts[0]).\(forged).\(parts[2])")) }
    #expect(throws: CallbackError.duplicateParameter("response")) {
      try AuthorizationResponse.parse("/cb?response=a&response=b")
    }
    for text in ["", "a.b", "a.b.c.d.e", String(repeating: "x", count: 70_000)] {
      #expect(throws: JARMError.self) { try parse(Secret(text)) }
    }
    #expect(throws: JARMError.callback(.tooLarge)) {
      try parse(Signed.make(Self.claims, ["state": .string(String(repeating: "s", count: 3000))]))
    }
  }

  @Test("57. a response signed with the client secret, where that is configured")
  func symmetric() throws {
    let compact = Signed.make(Self.claims, algorithm: "HS256")
    let checks = Signed.checks {
      $0.algorithms = ["HS256"]
      $0.clientSecret = Keys.clientSecret
    }
    #expect(try parse(compact, checks).code?.exposed == "c")
    #expect(CallbackError.unsigned.leavesLoginPending && CallbackError.invalidSignedResponse("x").leavesLoginPending)
  }
}

@Suite("Signed user information")
struct SignedUserInfoTests {
  static let claims: [String: JSON] = ["sub": .string("p"), "email": .string("e@x.example")]

  func parse(_ compact: Secret, subject: String? = "p") throws(UserInfoError) -> UserInfo {
    try UserInfo.parse(signed: compact, checks: Signed.checks(), keys: Signed.keys, subject: subject)
  }

  @Test("47. UserInfo `sub` equals the id_token's, in a signed answer too")
  func subject() throws {
    let compact = Signed.make(Self.claims)
    let response = answer(compact.exposed + "\n", type: "application/jwt;charset=utf-8")
    #expect(UserInfo.compact(response) == compact)
    let info = try parse(try #require(UserInfo.compact(response)))
    #expect(
      info.subject == "p" && info.email == "e@x.example"
        && JSON(message: info.claims)?.dictionary?["sub"] == .string("p"))
    #expect(throws: UserInfoError.response(.subjectMismatch(expected: "q", found: "p"))) {
      try parse(compact, subject: "q")
    }
    #expect(throws: UserInfoError.token(.malformed("sub is not a non-empty string"))) {
      try parse(Signed.make(["email": .string("e")]))
    }
    #expect(throws: Never.self) { try parse(compact, subject: nil) }
  }

  @Test("47. JSON is not taken for a signed answer, nor an error")
  func compact() {
    #expect(UserInfo.compact(answer("{}")) == nil)
    #expect(UserInfo.compact(answer("a.b.c", status: 401, type: "application/jwt")) == nil)
    let bytes = HTTPResponse(status: 200, headers: [.init("Content-Type", "application/jwt")], body: Data([0xff]))
    #expect(UserInfo.compact(bytes) == nil)
  }

  @Test("47. the signature is always checked; iss, aud and times if present", arguments: Signed.common.indices)
  func common(index: Int) {
    let (name, changes, header, error) = Signed.common[index]
    #expect(throws: UserInfoError.token(error), "\(name)") {
      try parse(Signed.make(Self.claims, changes, header: header))
    }
  }
}
