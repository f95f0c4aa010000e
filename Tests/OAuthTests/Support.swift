import Crypto
import CryptoExtras
import Foundation

@testable import OAuth

/// A JSON answer.
func answer(
  _ body: String, status: Int = 200, type: String = "application/json", headers: [HTTPRequest.Header] = []
) -> HTTPResponse {
  HTTPResponse(status: status, headers: [.init("Content-Type", type)] + headers, body: Data(body.utf8))
}

/// The error that a closure throws, or nil.
func thrown<Failure: Error>(_ body: () throws(Failure) -> Void) -> Failure? {
  do throws(Failure) {
    try body()
    return nil
  } catch {
    return error
  }
}

extension HTTPRequest {
  var form: [String: String] {
    let parameters = FormEncoding.decode(String(decoding: body ?? Data(), as: UTF8.self)) ?? []
    return Dictionary(parameters.map { ($0.name, $0.value) }) { first, second in "\(first) AND \(second)" }
  }

  func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

extension URL {
  /// The query's parameters, in order.
  var parameters: [Parameter] { FormEncoding.decode(URI(absoluteString)?.query ?? "") ?? [] }

  func parameter(_ name: String) -> String? { parameters.first { $0.name == name }?.value }
}

/// Real keys, made once for all tests.
enum Keys {
  static let rsa = try! _RSA.Signing.PrivateKey(keySize: .bits2048)
  static let otherRSA = try! _RSA.Signing.PrivateKey(keySize: .bits2048)
  static let p256 = P256.Signing.PrivateKey()
  static let p384 = P384.Signing.PrivateKey()
  static let p521 = P521.Signing.PrivateKey()
  static let ed25519 = Curve25519.Signing.PrivateKey()
  static let clientSecret = Secret("a client secret of 32 characters")

  static func jwk(_ algorithm: String, kid: String? = "k1", more: [String: String] = [:]) -> String {
    var members = more
    members["kid"] = kid
    switch algorithm {
    case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512": members.merge(rsaMembers(rsa)) { old, _ in old }
    case "ES256": members.merge(point("P-256", p256.publicKey.rawRepresentation)) { old, _ in old }
    case "ES384": members.merge(point("P-384", p384.publicKey.rawRepresentation)) { old, _ in old }
    case "ES512": members.merge(point("P-521", p521.publicKey.rawRepresentation)) { old, _ in old }
    default:
      members.merge(["kty": "OKP", "crv": "Ed25519", "x": base64URL(ed25519.publicKey.rawRepresentation)]) { old, _ in
        old
      }
    }
    return JSON.object(members.mapValues { $0.hasPrefix("[") ? JSON(message: Data($0.utf8))! : .string($0) }).text(
      sorted: true)
  }

  static func rsaMembers(_ key: _RSA.Signing.PrivateKey) -> [String: String] {
    let primitives = try! key.publicKey.getKeyPrimitives()
    return ["kty": "RSA", "n": base64URL(primitives.modulus), "e": base64URL(primitives.publicExponent)]
  }

  private static func point(_ curve: String, _ raw: Data) -> [String: String] {
    ["kty": "EC", "crv": curve, "x": base64URL(raw.prefix(raw.count / 2)), "y": base64URL(raw.suffix(raw.count / 2))]
  }

  static func set(_ keys: String...) -> JWKSet {
    try! JWKSet.parse(answer(#"{"keys":["# + keys.joined(separator: ",") + "]}"))
  }

  static func sign(_ text: String, _ algorithm: String) -> Data {
    let data = Data(text.utf8)
    switch algorithm {
    case "RS256":
      return try! rsa.signature(for: SHA256.hash(data: data), padding: .insecurePKCS1v1_5).rawRepresentation
    case "RS384":
      return try! rsa.signature(for: SHA384.hash(data: data), padding: .insecurePKCS1v1_5).rawRepresentation
    case "RS512":
      return try! rsa.signature(for: SHA512.hash(data: data), padding: .insecurePKCS1v1_5).rawRepresentation
    case "PS256": return try! rsa.signature(for: SHA256.hash(data: data), padding: .PSS).rawRepresentation
    case "PS384": return try! rsa.signature(for: SHA384.hash(data: data), padding: .PSS).rawRepresentation
    case "PS512": return try! rsa.signature(for: SHA512.hash(data: data), padding: .PSS).rawRepresentation
    case "ES256": return try! p256.signature(for: SHA256.hash(data: data)).rawRepresentation
    case "ES384": return try! p384.signature(for: SHA384.hash(data: data)).rawRepresentation
    case "ES512": return try! p521.signature(for: SHA512.hash(data: data)).rawRepresentation
    case "HS256":
      let key = SymmetricKey(data: Data(clientSecret.exposed.utf8))
      return Data(HMAC<SHA256>.authenticationCode(for: data, using: key))
    case "none": return Data()
    default: return try! ed25519.signature(for: data)
    }
  }
}

/// ID tokens to order.
enum Tokens {
  static let now = Timestamp(seconds: 1_800_000_000)
  static let issuer = "https://id.example"

  static let claims: [String: JSON] = [
    "iss": .string(issuer), "sub": .string("person-1"), "aud": .string("client"),
    "exp": .number("1800000300"), "iat": .number("1799999990"),
  ]

  static func make(
    _ changes: [String: JSON?] = [:], algorithm: String = "ES256", header: [String: JSON?] = [:]
  ) -> Secret {
    var head: [String: JSON] = ["alg": .string(algorithm), "kid": .string("k1")]
    for (name, value) in header { head[name] = value }
    var body = claims
    for (name, value) in changes { body[name] = value }
    return make(
      header: JSON.object(head).text(sorted: true), claims: JSON.object(body).text(sorted: true), algorithm: algorithm)
  }

  static func make(header: String, claims: String, algorithm: String) -> Secret {
    let text = base64URL(header.utf8) + "." + base64URL(claims.utf8)
    return Secret(text + "." + base64URL(Keys.sign(text, algorithm)))
  }

  static func checks(
    _ algorithm: String = "ES256", _ change: (inout IDToken.Checks) -> Void = { _ in }
  ) -> IDToken.Checks {
    var checks = IDToken.Checks(issuer: issuer, clientID: "client", nonce: nil, algorithms: [algorithm], now: now)
    change(&checks)
    return checks
  }

  /// What parsing and verifying says; nil where the token is good.
  static func verdict(
    _ compact: Secret, _ checks: IDToken.Checks = Tokens.checks(), keys: JWKSet = Keys.set(Keys.jwk("ES256"))
  ) -> IDTokenError? {
    thrown { () throws(IDTokenError) in try IDToken.parse(compact).verify(checks, keys: keys) }
  }
}

/// The same numbers each time (SplitMix64).
struct Seeded: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
