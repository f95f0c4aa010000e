import Crypto
import Foundation

@testable import OAuth

/// Constant keys, so that an input always has the same meaning. They sign only messages of this test.
enum SigningKeys {
  static let seed = Data((1...32).map { UInt8($0) })
  static let secret = Secret("a client secret of 32 characters")

  static let ed25519 = key { try Curve25519.Signing.PrivateKey(rawRepresentation: seed) }
  static let p256 = key { try P256.Signing.PrivateKey(rawRepresentation: seed) }

  private static func key<Key>(_ make: () throws -> Key) -> Key {
    guard let key = try? make() else { preconditionFailure("the seed is a key") }
    return key
  }

  static let set: JWKSet = {
    let point = p256.publicKey.rawRepresentation
    let text = """
      {"keys":[{"kty":"OKP","crv":"Ed25519","kid":"e","x":"\(base64URL(ed25519.publicKey.rawRepresentation))"},
      {"kty":"EC","crv":"P-256","kid":"p","x":"\(base64URL(point.prefix(32)))","y":"\(base64URL(point.suffix(32)))"}]}
      """
    guard let set = JWKSet(Data(text.utf8)) else { preconditionFailure("these are keys") }
    return set
  }()

  static func sign(_ text: String, _ algorithm: SignatureAlgorithm) -> Data {
    let data = Data(text.utf8)
    switch algorithm {
    case .hs256:
      let key = SymmetricKey(data: Data(secret.exposed.utf8))
      return Data(HMAC<SHA256>.authenticationCode(for: data, using: key))
    case .es256:
      guard let signature = try? p256.signature(for: SHA256.hash(data: data)) else { return Data() }
      return signature.rawRepresentation
    default: return (try? ed25519.signature(for: data)) ?? Data()
    }
  }
}

extension Target {
  /// The first byte chooses the rest: a token, or a header and claims to be signed, or changes to a valid token.
  static let jwt = Target(name: "jwt", longest: 2048) { bytes in
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch choice {
    case UInt8(ascii: "t"): try checkStranger(decoded(rest))
    case UInt8(ascii: "c"): try checkSigned(rest)
    default: try checkChanged(rest, algorithms[Int(choice) % algorithms.count])
    }
  }

  /// A set of keys, and every algorithm with each of them.
  static let keys = Target(name: "keys", longest: 4096) { bytes in
    guard let set = JWKSet(Data(bytes)) else { return }
    try expect(set.keys.count <= JWKSet.maximumKeys, "\(set.keys.count) keys")
    for algorithm in SignatureAlgorithm.allCases {
      for key in set.keys.prefix(4) where key.fits(algorithm, kid: nil) {
        for size in [0, 64, 256] {
          let made = algorithm.verify(Data(repeating: 1, count: size), of: Data("message".utf8), with: key)
          try expect(!made, "anything is a signature")
        }
      }
    }
  }

  private static let algorithms: [SignatureAlgorithm] = [.hs256, .ed25519, .es256]

  private static func checks(_ algorithms: [SignatureAlgorithm]) -> IDToken.Checks {
    IDToken.Checks(
      issuer: issuer, clientID: "client", nonce: nil, algorithms: algorithms.map(\.rawValue), now: now,
      clientSecret: SigningKeys.secret)
  }

  private static func verified(_ compact: String, _ checks: IDToken.Checks) throws -> IDToken? {
    do throws(IDTokenError) {
      let token = try IDToken.parse(Secret(compact))
      try token.verify(checks, keys: SigningKeys.set)
      return token
    } catch {
      try expectSayable(error.description)
      return nil
    }
  }

  /// Only ``SigningKeys`` makes a token that is accepted.
  private static func checkStranger(_ compact: String) throws {
    try expect(try verified(compact, checks(SignatureAlgorithm.allCases)) == nil, "a token of another key is accepted")
  }

  /// The header in the first line, then the claims, signed by the test: an accepted token has the requested values.
  private static func checkSigned(_ bytes: [UInt8]) throws {
    let header = bytes.prefix { $0 != 0x0A }
    let claims = bytes.dropFirst(header.count + 1)
    let text = base64URL(header) + "." + base64URL(claims)
    for algorithm in algorithms {
      let compact = text + "." + base64URL(SigningKeys.sign(text, algorithm))
      guard let token = try verified(compact, checks([algorithm])) else { continue }
      try expect(token.issuer == issuer && token.audience.contains("client"), "a token of or for another is taken")
      try expect(!token.subject.isEmpty, "a token without a subject is accepted")
      try expect(
        token.expiresAt > now - .seconds(30) && token.issuedAt <= now + .seconds(30), "a token of another time")
      try expect(token.nonce == nil, "a token of another login is taken")
      let named = try JSONSerialization.jsonObject(with: Data(claims)) as? [String: Any]
      try expect(named?["sub"] as? String == token.subject, "another subject than the one that was signed")
    }
  }

  /// Each pair of bytes is a position and its change.
  private static func checkChanged(_ changes: [UInt8], _ algorithm: SignatureAlgorithm) throws {
    let good = good[algorithm.rawValue] ?? ""
    var bytes = Array(good.utf8)
    for (index, change) in changes.prefix(16).enumerated() where index.isMultiple(of: 2) && index + 1 < changes.count {
      let place = (Int(change) * 7 + index) % bytes.count
      bytes[place] ^= changes[index + 1]
    }
    let changed = decoded(bytes)
    let token = try verified(changed, checks([algorithm]))
    try expect((token != nil) == (Array(changed.utf8) == Array(good.utf8)), "a changed token: \(changed)")
  }

  private static let good: [String: String] = Dictionary(
    uniqueKeysWithValues: algorithms.map { algorithm in
      let claims =
        #"{"iss":"\#(issuer)","sub":"alice","aud":"client","exp":1800000300,"iat":1799999990,"name":"Ann"}"#
      let text = base64URL(Data(#"{"alg":"\#(algorithm.rawValue)"}"#.utf8)) + "." + base64URL(Data(claims.utf8))
      return (algorithm.rawValue, text + "." + base64URL(SigningKeys.sign(text, algorithm)))
    })
}
