import CryptoExtras
import Foundation
import Testing

@testable import OAuth

@Suite("ID token")
struct IDTokenTests {
  static let algorithms = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
  ]

  @Test("a valid token is accepted with every signature algorithm", arguments: algorithms)
  func good(algorithm: String) throws {
    let compact = Tokens.make(
      [
        "email": .string("p@x.example"), "name": .number("7"), "tid": .string("t"),
        "auth_time": .number("1799999990.75"),
      ],
      algorithm: algorithm)
    let token = try IDToken.parse(compact)
    try token.verify(Tokens.checks(algorithm), keys: Keys.set(Keys.jwk(algorithm)))
    #expect(token.subject == "person-1" && token.audience == ["client"] && token.email == "p@x.example")
    #expect(token.name == nil && token.tenant == "t" && token.jwt.kid == "k1" && token.jwt.algorithm == algorithm)
    #expect(token.expiresAt == Timestamp(seconds: 1_800_000_300))
    #expect(token.authTime == Timestamp(milliseconds: 1_799_999_990_750))
    #expect(JSON(message: token.jwt.payload)?.dictionary?["sub"] == .string("person-1"))
  }

  @Test(
    "38. three segments of base64url JSON",
    arguments: [
      "", "a", "a.b", "a.b.c.d", "....", "e30.e30.", "e30=.e30.e30", "W10.e30.e30", "e30.W10.e30", "e30.e30.!",
    ])
  func segments(text: String) {
    guard case .token(.malformed)? = Tokens.verdict(Secret(text)) else {
      Issue.record("taken: \(text)")
      return
    }
  }

  @Test("38. crit is refused, alg none is refused, and size is bounded")
  func header() {
    #expect(Tokens.verdict(Tokens.make(header: ["crit": .array([.string("b64")])])) == .token(.criticalHeader))
    for none in ["none", "None", "NONE"] {
      let compact = Tokens.make(algorithm: "none", header: ["alg": .string(none)])
      #expect(Tokens.verdict(compact, Tokens.checks(none)) == .token(.unsigned))
    }
    #expect(Tokens.verdict(Tokens.make(["x": .string(String(repeating: "x", count: 64 << 10))])) == .token(.tooLarge))
    let twice = Tokens.make(
      header: #"{"alg":"ES256","kid":"k1"}"#, claims: #"{"iss":"a","iss":"b"}"#, algorithm: "ES256")
    #expect(Tokens.verdict(twice) == .token(.malformed("its claims are not a JSON object")))
  }

  @Test("38. a symmetric algorithm only with a client secret, and only if configured")
  func symmetric() {
    let compact = Tokens.make(algorithm: "HS256")
    let none = Keys.set()
    let refused = IDTokenError.token(.algorithmNotAllowed("HS256"))
    #expect(Tokens.verdict(compact, Tokens.checks("HS256") { $0.clientSecret = Keys.clientSecret }, keys: none) == nil)
    #expect(Tokens.verdict(compact, Tokens.checks("HS256"), keys: none) == refused)
    #expect(Tokens.verdict(compact, Tokens.checks("HS256") { $0.clientSecret = Secret("") }, keys: none) == refused)
    #expect(
      Tokens.verdict(compact, Tokens.checks("RS256") { $0.clientSecret = Keys.clientSecret }, keys: none) == refused)
    let wrong = Tokens.checks("HS256") { $0.clientSecret = Secret("another") }
    #expect(Tokens.verdict(compact, wrong, keys: none) == .token(.badSignature))
  }

  @Test(
    "39. alg is the client's configuration, else the metadata, else RS256",
    arguments: [
      (["ES256"], ["RS256"], ["ES256"]), (["HS256"], nil, ["HS256"]), ([], ["ES256", "PS256"], ["ES256", "PS256"]),
      ([], ["none", "HS256", "XX"], ["RS256"]), ([], ["none", "HS256", "EdDSA"], ["EdDSA"]), ([], [], ["RS256"]),
      ([], nil, ["RS256"]),
    ] as [([String], [String]?, [String])])
  func allowed(configured: [String], offered: [String]?, allowed: [String]) {
    #expect(IDToken.algorithms(configured: configured, metadata: offered) == allowed)
    #expect(IDToken.algorithms(configured: configured, metadata: nil) == (configured.isEmpty ? ["RS256"] : configured))
    #expect(
      IDToken.algorithms(configured: nil, metadata: offered) == IDToken.algorithms(configured: [], metadata: offered))
  }

  @Test("39. an algorithm that is not allowed is refused, even with a good signature")
  func notAllowed() {
    #expect(Tokens.verdict(Tokens.make(), Tokens.checks("RS256")) == .token(.algorithmNotAllowed("ES256")))
    #expect(
      Tokens.verdict(Tokens.make(), Tokens.checks { $0.algorithms = [] }) == .token(.algorithmNotAllowed("ES256")))
    let strange = Tokens.make(header: ["alg": .string("ES256K")])
    #expect(Tokens.verdict(strange, Tokens.checks("ES256K")) == .token(.algorithmNotAllowed("ES256K")))
  }

  @Test(
    "40. each required claim is present, and each claim has its own type",
    arguments: [
      ("iss", nil), ("sub", nil), ("aud", nil), ("exp", nil), ("iat", nil), ("iss", .number("1")), ("iss", .string("")),
      ("sub", .string("")), ("sub", .number("1")), ("aud", .array([])), ("aud", .string("")), ("aud", .bool(true)),
      ("aud", .array([.number("1")])), ("exp", .string("1800000300")), ("exp", .bool(true)), ("iat", .null),
      ("exp", .number("1e400")), ("exp", .number("-1e400")), ("iat", .number("9223372036854775807")),
      ("nonce", .number("1")), ("auth_time", .string("x")), ("nbf", .bool(false)), ("azp", .array([])),
      ("at_hash", .number("1")),
    ] as [(String, JSON?)])
  func types(claim: String, value: JSON?) {
    guard case .token(.malformed(let reason))? = Tokens.verdict(Tokens.make([claim: value])) else {
      Issue.record("taken")
      return
    }
    #expect(reason.hasPrefix("\(claim) is not"))
  }

  @Test("40. auth_time is there where max_age was sent, and recent enough")
  func maxAge() {
    let checks = Tokens.checks { $0.maxAge = .seconds(60) }
    #expect(Tokens.verdict(Tokens.make(), checks) == .missingAuthTime)
    #expect(Tokens.verdict(Tokens.make(["auth_time": .number("1799999910")]), checks) == nil)
    #expect(
      Tokens.verdict(Tokens.make(["auth_time": .number("1799999909")]), checks)
        == .authenticatedTooLongAgo(by: .seconds(31)))
  }

  static let many = JSON.array([.string("service"), .string("client")])

  @Test(
    "41. the client is an audience; several audiences demand azp = client_id; azp, where present, is the client",
    arguments: [
      (.string("client"), nil, nil), (.array([.string("client")]), nil, nil), (.string("client"), "client", nil),
      (many, "client", nil), (many, nil, .wrongAuthorizedParty(nil)),
      (many, "service", .wrongAuthorizedParty("service")),
      (.string("client"), "other", .wrongAuthorizedParty("other")), (.string("other"), nil, .token(.wrongAudience)),
      (.string("Client"), nil, .token(.wrongAudience)), (.array([.string("other")]), "client", .token(.wrongAudience)),
    ] as [(JSON, String?, IDTokenError?)])
  func audiences(audience: JSON, party: String?, error: IDTokenError?) {
    #expect(Tokens.verdict(Tokens.make(["aud": audience, "azp": party.map(JSON.string)])) == error)
  }

  @Test("41. with a list of trusted audiences, no others may be next to the client")
  func trustedAudiences() {
    let compact = Tokens.make(["aud": Self.many, "azp": .string("client")])
    #expect(Tokens.verdict(compact, Tokens.checks { $0.trustedAudiences = ["service"] }) == nil)
    let other = Tokens.checks { $0.trustedAudiences = ["else"] }
    #expect(Tokens.verdict(compact, other) == .untrustedAudience("service"))
  }

  @Test("41. iss is exact, except by a named rule")
  func issuer() {
    for found in [Tokens.issuer + "/", "http://id.example", "id.example"] {
      let error = Tokens.verdict(Tokens.make(["iss": .string(found)]))
      #expect(error == .token(.wrongIssuer(expected: Tokens.issuer, found: found)))
    }
    let google = Tokens.checks {
      $0.issuer = "https://accounts.google.com"
      $0.issuerRule = .google
    }
    #expect(Tokens.verdict(Tokens.make(["iss": .string("accounts.google.com")]), google) == nil)
    let guid = UUID().uuidString
    let entra = Tokens.checks {
      $0.issuer = "https://login.example/{tenantid}/v2.0"
      $0.issuerRule = .entraTenant
    }
    let own = Tokens.make(["iss": .string("https://login.example/\(guid)/v2.0"), "tid": .string(guid)])
    #expect(Tokens.verdict(own, entra) == nil)
    let other = Tokens.make(["iss": .string("https://login.example/\(guid)/v2.0"), "tid": .string(UUID().uuidString)])
    guard case .token(.wrongIssuer)? = Tokens.verdict(other, entra) else {
      Issue.record("a foreign tenant was taken")
      return
    }
  }

  @Test(
    "42. exp, nbf and iat within the tolerance; the error says by how much the clocks differ",
    arguments: [
      ("exp", "1799999971", nil, ""), ("exp", "1799999970", .token(.expired(by: .seconds(30))), "off by 30 s"),
      ("exp", "1799996400", .token(.expired(by: .seconds(3600))), "off by 3600 s"), ("nbf", "1800000030", nil, ""),
      ("nbf", "1800000031", .token(.notYetValid(by: .seconds(31))), "off by 31 s"), ("iat", "1800000030", nil, ""),
      ("iat", "1800000031", .token(.issuedInFuture(by: .seconds(31))), "off by 31 s"),
      ("exp", "-62135596800", .token(.expired(by: .seconds(63_935_596_800))), "off by"),
    ] as [(String, String, IDTokenError?, String)])
  func times(claim: String, seconds: String, error: IDTokenError?, text: String) {
    let found = Tokens.verdict(Tokens.make([claim: .number(seconds)]))
    #expect(found == error)
    #expect((found?.description ?? "").contains(text) || text.isEmpty)
  }

  @Test("42. the tolerance is a setting")
  func tolerance() {
    let compact = Tokens.make(["exp": .number("1799999940")])
    #expect(Tokens.verdict(compact, Tokens.checks { $0.tolerance = .seconds(61) }) == nil)
    #expect(Tokens.verdict(compact, Tokens.checks { $0.tolerance = .zero }) == .token(.expired(by: .seconds(60))))
  }

  @Test(
    "43. the nonce is equal, and absent if none was sent",
    arguments: [
      (nil, nil, nil), ("n", "n", nil), ("n", "m", .wrongNonce), ("n", "nn", .wrongNonce), ("n", nil, .missingNonce),
      (nil, "n", .unexpectedNonce), ("n", "", .wrongNonce),
    ] as [(String?, String?, IDTokenError?)])
  func nonce(sent: String?, found: String?, error: IDTokenError?) {
    let checks = Tokens.checks { $0.nonce = sent.map { Secret($0) } }
    #expect(Tokens.verdict(Tokens.make(["nonce": found.map(JSON.string)]), checks) == error)
  }

  @Test("44. at_hash and c_hash are checked where they are present", arguments: algorithms)
  func hashes(algorithm: String) {
    let keys = Keys.set(Keys.jwk(algorithm))
    let digest = SignatureAlgorithm(rawValue: algorithm)!.digest(Data("token".utf8))
    let hash = JSON.string(base64URL(digest.prefix(digest.count / 2)))
    func verdict(_ claim: String, _ access: String?, _ code: String?) -> IDTokenError? {
      let checks = Tokens.checks(algorithm) {
        $0.accessToken = access.map { Secret($0) }
        $0.code = code.map { Secret($0) }
      }
      return Tokens.verdict(Tokens.make([claim: hash], algorithm: algorithm), checks, keys: keys)
    }
    #expect(verdict("at_hash", "token", "x") == nil)
    #expect(verdict("at_hash", "other", "x") == .wrongAccessTokenHash)
    #expect(verdict("at_hash", nil, nil) == nil)
    #expect(verdict("c_hash", "x", "token") == nil)
    #expect(verdict("c_hash", "x", "other") == .wrongCodeHash)
  }

  @Test(
    "44. with EdDSA, which names no hash, SHA-256 is accepted too; with no other algorithm", arguments: algorithms)
  func hashOfEdDSA(algorithm: String) {
    let digest = SignatureAlgorithm.rs256.digest(Data("token".utf8))
    let token = Tokens.make(["at_hash": .string(base64URL(digest.prefix(16)))], algorithm: algorithm)
    let isTaken = algorithm.hasPrefix("Ed") || algorithm.hasSuffix("256")
    for (access, error) in [
      ("token", isTaken ? nil : IDTokenError.wrongAccessTokenHash), ("other", .wrongAccessTokenHash),
    ] {
      let checks = Tokens.checks(algorithm) { $0.accessToken = Secret(access) }
      #expect(Tokens.verdict(token, checks, keys: Keys.set(Keys.jwk(algorithm))) == error)
    }
  }

  @Test("44. the at_hash of OpenID Connect Core's own example")
  func hashVector() {
    // OpenID Connect Core appendix A.3.
    let checks = Tokens.checks { $0.accessToken = Secret("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y") }
    #expect(Tokens.verdict(Tokens.make(["at_hash": .string("77QmUPtjPfzWtF2AnpK9RQ")]), checks) == nil)
  }

  @Test("45. an altered token, or one of another key, is refused", arguments: algorithms)
  func signature(algorithm: String) {
    let keys = Keys.set(Keys.jwk(algorithm))
    let checks = Tokens.checks(algorithm)
    let parts = Tokens.make(algorithm: algorithm).exposed.split(separator: ".")
    let other = Tokens.make(["sub": .string("person-2")], algorithm: algorithm).exposed.split(separator: ".")
    #expect(Tokens.verdict(Secret("\(parts[0]).\(other[1]).\(parts[2])"), checks, keys: keys) == .token(.badSignature))
    for broken in ["", "AAAA", base64URL(Array(repeating: 0, count: 64)), base64URL(Array(repeating: 255, count: 256))]
    {
      #expect(Tokens.verdict(Secret("\(parts[0]).\(parts[1]).\(broken)"), checks, keys: keys) == .token(.badSignature))
    }
  }

  @Test("45. another key under the same kid, or under the right type and curve, does not verify")
  func foreignKey() {
    let foreign = Keys.rsaMembers(Keys.otherRSA).merging(["kid": "k1"]) { old, _ in old }
    let keys = Keys.set(JSON.object(foreign.mapValues(JSON.string)).text(sorted: true))
    #expect(
      Tokens.verdict(Tokens.make(algorithm: "RS256"), Tokens.checks("RS256"), keys: keys) == .token(.badSignature))
    let both = JWKSet(
      Data(
        #"{"keys":[\#(JSON.object(foreign.mapValues(JSON.string)).text(sorted: true)),\#(Keys.jwk("RS256"))]}"#.utf8))
    #expect(Tokens.verdict(Tokens.make(algorithm: "RS256"), Tokens.checks("RS256"), keys: both!) == nil)
  }

  @Test("45. a PKCS #1 signature is not taken for PSS, nor the other way round")
  func paddings() {
    let keys = Keys.set(Keys.jwk("RS256"))
    let pkcs1 = Tokens.make(algorithm: "RS256", header: ["alg": .string("PS256")])
    #expect(Tokens.verdict(pkcs1, Tokens.checks("PS256"), keys: keys) == .token(.badSignature))
    let pss = Tokens.make(algorithm: "PS256", header: ["alg": .string("RS256")])
    #expect(Tokens.verdict(pss, Tokens.checks("RS256"), keys: keys) == .token(.badSignature))
  }

  @Test("45. a public key is never taken for the secret of HS256")
  func confusion() {
    let compact = Tokens.make(algorithm: "HS256")
    let checks = Tokens.checks { $0.algorithms = ["RS256", "HS256"] }
    #expect(Tokens.verdict(compact, checks, keys: Keys.set(Keys.jwk("RS256"))) == .token(.algorithmNotAllowed("HS256")))
    let oct = Keys.set(#"{"kty":"oct","kid":"k1","k":"\#(base64URL(Keys.clientSecret.exposed.utf8))"}"#)
    #expect(oct.keys.isEmpty)
  }

  @Test(
    "45. a key fits by kid, kty, crv, alg, use and key_ops",
    arguments: [
      (Keys.jwk("ES256"), nil), (Keys.jwk("ES256", kid: "k2"), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("ES256", kid: nil), nil), (Keys.jwk("RS256", kid: nil), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("RS256"), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("ES384"), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("ES256", more: ["use": "enc"]), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("ES256", more: ["use": "sig", "alg": "ES256"]), nil),
      (Keys.jwk("ES256", more: ["alg": "ES384"]), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("ES256", more: ["alg": "unheard"]), .token(.unknownKey(kid: "k1"))),
      (Keys.jwk("ES256", more: ["key_ops": #"["verify"]"#]), nil),
      (Keys.jwk("ES256", more: ["key_ops": #"["encrypt"]"#]), .token(.unknownKey(kid: "k1"))),
    ] as [(String, IDTokenError?)])
  func keyChoice(jwk: String, error: IDTokenError?) {
    #expect(Tokens.verdict(Tokens.make(), keys: Keys.set(jwk)) == error)
  }

  @Test("45. a key without an id is tried if none has the token's; if it does not fit, the keys are fetched again")
  func namelessKeys() {
    let nameless = Keys.jwk("ES256", kid: nil)
    let forged = Tokens.make().exposed.dropLast(8) + "AAAAAAAA"
    #expect(Tokens.verdict(Secret(String(forged)), keys: Keys.set(nameless)) == .token(.unknownKey(kid: "k1")))
    #expect(
      Tokens.verdict(Secret(String(forged)), keys: Keys.set(nameless, Keys.jwk("ES256"))) == .token(.badSignature))
  }

  @Test("45. a token without kid is tried with all keys that fit; none: fetch the keys again")
  func noKid() {
    let compact = Tokens.make(header: ["kid": nil])
    #expect(Tokens.verdict(compact, keys: Keys.set(Keys.jwk("RS256"), Keys.jwk("ES256", kid: "x"))) == nil)
    #expect(Tokens.verdict(compact, keys: Keys.set(Keys.jwk("RS256"))) == .token(.unknownKey(kid: nil)))
    let other = Tokens.make(algorithm: "EdDSA", header: ["alg": .string("ES256"), "kid": nil])
    #expect(Tokens.verdict(other) == .token(.unknownKey(kid: nil)))
  }

  @Test("45. a key set has at most 100 keys, and unusable keys are skipped")
  func keySet() throws {
    let strange = [
      #"{"kty":"XX"}"#, "7", "{}", #"{"kty":"RSA","n":"AQAB"}"#, #"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
      #"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#, #"{"kty":"RSA","n":"A=","e":"AQAB"}"#,
      #"{"kty":"RSA","kid":7}"#,
      #"{"kty":"RSA","n":"\#(base64URL(Array(repeating: 255, count: 1025)))","e":"AQAB"}"#,
    ].joined(separator: ",")
    let response = answer(#"{"keys":[\#(strange),\#(Keys.jwk("ES256"))]}"#)
    let set = try JWKSet.parse(response)
    #expect(set.keys.map(\.kid) == ["k1"])
    func many(_ count: Int) -> HTTPResponse {
      answer(#"{"keys":["# + Array(repeating: Keys.jwk("ES256"), count: count).joined(separator: ",") + "]}")
    }
    #expect(try JWKSet.parse(many(100)).keys.count == 100)
    #expect(throws: ResponseError.self) { try JWKSet.parse(many(101)) }
    for body in ["{}", "[]", #"{"keys":{}}"#, ""] {
      #expect(throws: ResponseError.self) { try JWKSet.parse(answer(body)) }
    }
    let weak = Keys.set(#"{"kty":"RSA","kid":"k1","n":"\#(base64URL(Array(repeating: 255, count: 64)))","e":"AQAB"}"#)
    #expect(
      Tokens.verdict(Tokens.make(algorithm: "RS256"), Tokens.checks("RS256"), keys: weak) == .token(.badSignature))
  }

  @Test(
    "46. after a refresh: the same iss, sub and azp, and the audience of the login",
    arguments: [
      ([:], nil), (["sub": .string("person-2")], .changed(claim: "sub")),
      (["aud": .array([.string("client"), .string("more"), .string("service")])], nil),
      (["aud": .string("client")], .changed(claim: "aud")), (["azp": nil], .wrongAuthorizedParty(nil)),
      (["nonce": .string("n")], nil), (["nonce": .string("m")], .wrongNonce),
    ] as [([String: JSON?], IDTokenError?)])
  func refreshed(changes: [String: JSON?], error: IDTokenError?) throws {
    let base: [String: JSON?] = ["aud": Self.many, "azp": .string("client")]
    let login = try IDToken.parse(Tokens.make(base.merging(["nonce": .string("n")]) { $1 }))
    let checks = Tokens.checks { $0.previous = login }
    #expect(Tokens.verdict(Tokens.make(base.merging(changes) { $1 }), checks) == error)
  }

  @Test("46. after a refresh: an azp, a nonce or an issuer that the login did not have")
  func refreshedMore() throws {
    let login = try IDToken.parse(Tokens.make())
    let checks = Tokens.checks { $0.previous = login }
    #expect(Tokens.verdict(Tokens.make(["azp": .string("client")]), checks) == .changed(claim: "azp"))
    #expect(Tokens.verdict(Tokens.make(["nonce": .string("n")]), checks) == .unexpectedNonce)
    let elsewhere = try IDToken.parse(Tokens.make(["iss": .string("https://old.example")]))
    #expect(Tokens.verdict(Tokens.make(), Tokens.checks { $0.previous = elsewhere }) == .changed(claim: "iss"))
  }
}

extension IDTokenTests {
  @Test("46. after a refresh, one that was issued before the previous one is refused")
  func issuedBeforePrevious() throws {
    let login = try IDToken.parse(Tokens.make())
    let older = Tokens.make(["iat": .number("1799999000")])
    #expect(Tokens.verdict(older, Tokens.checks { $0.previous = login }) == .issuedBeforePrevious)
    #expect(Tokens.verdict(Tokens.make(), Tokens.checks { $0.previous = login }) == nil)
  }

  @Test("an encrypted one names the setting of the client at the provider")
  func encrypted() {
    let error = Tokens.verdict(Secret("eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.dGFn"))
    #expect(error == .encrypted && error?.description.contains("id_token_encrypted_response_alg") == true)
  }

  @Test("one of a token exchange is for the requested audience, and for no other client")
  func exchanged() {
    func verdict(_ claims: [String: JSON]) -> IDTokenError? {
      Tokens.verdict(
        Tokens.make(claims),
        Tokens.checks { checks in
          checks.clientID = "audience"
          checks.exchangedFor = "client"
        })
    }
    #expect(verdict(["aud": .string("audience"), "azp": .string("client"), "nonce": .string("n")]) == nil)
    #expect(verdict(["aud": .string("other")]) == .token(.wrongAudience))
    #expect(verdict(["aud": .string("audience"), "azp": .string("else")]) == .wrongAuthorizedParty("else"))
  }
}
