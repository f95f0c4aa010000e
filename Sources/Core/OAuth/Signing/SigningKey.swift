import Crypto
import CryptoExtras
import FoundationEssentials

/// A private key that signs JWTs (RFC 7515): for client assertions, assertion grants, request objects and DPoP proofs.
/// It prints only its algorithm.
public struct SigningKey: Sendable, Hashable {
  enum Material: Sendable {
    case rsa(_RSA.Signing.PrivateKey)
    case p256(P256.Signing.PrivateKey)
    case p384(P384.Signing.PrivateKey)
    case p521(P521.Signing.PrivateKey)
    case ed25519(Curve25519.Signing.PrivateKey)
    case shared(Secret)
  }

  /// The maximum size of a key's text, in bytes.
  static let maximumBytes = 64 << 10
  /// RSA moduli, in bits: the minimum of RFC 7518 §3.3, and a maximum that signs in a fraction of a second.
  static let moduli = 2048...8192

  public let algorithm: SignatureAlgorithm
  /// The key's name at the provider.
  public let kid: String?
  /// The public key (RFC 7517 §4), with `kid`, `alg` and `use`; nil for a shared secret.
  public let publicJWK: [String: JSON]?
  let material: Material

  init(_ material: Material, algorithm: SignatureAlgorithm?, kid: String?) throws(SigningKeyError) {
    let algorithm = algorithm ?? material.standardAlgorithm
    guard material.signs(algorithm) else { throw .wrongAlgorithm(algorithm.rawValue, key: material.name) }
    self.material = material
    self.algorithm = algorithm
    self.kid = kid
    var jwk = material.publicMembers
    jwk?["kid"] = kid.map(JSON.string)
    jwk?["alg"] = .string(algorithm.rawValue)
    jwk?["use"] = .string("sig")
    publicJWK = jwk
  }

  /// Reads a private key in PEM (PKCS#8, PKCS#1, SEC1) or as a JWK (RFC 7517 §4).
  ///
  /// - Parameters:
  ///   - algorithm: nil: the JWK's `alg`, else the key's default: RS256, ES256, ES384, ES512 or EdDSA.
  ///   - kid: nil: the JWK's.
  public static func parse(
    _ text: Secret, algorithm: SignatureAlgorithm?, kid: String?
  ) throws(SigningKeyError) -> SigningKey {
    // Exposed to be read. An editor may have added a byte order mark.
    let text = Secret(text.exposed.hasPrefix("\u{feff}") ? String(text.exposed.dropFirst()) : text.exposed)
    let bytes = text.exposed.utf8
    guard bytes.count <= maximumBytes else { throw .tooLarge }
    guard let first = bytes.first(where: { !" \t\r\n".utf8.contains($0) }) else { throw .unreadable("it is empty") }
    guard first == UInt8(ascii: "{") else {
      return try SigningKey(try PrivateKeyText.readPEM(text), algorithm: algorithm, kid: kid)
    }
    let jwk = try PrivateKeyText.readJWK(text)
    return try SigningKey(jwk.material, algorithm: algorithm ?? jwk.algorithm, kid: kid ?? jwk.kid)
  }

  /// A client secret as a key (`client_secret_jwt`, OpenID Connect Core §9): its bytes as UTF-8.
  public static func shared(_ secret: Secret, algorithm: SignatureAlgorithm) throws(SigningKeyError) -> SigningKey {
    guard !secret.isEmpty else { throw .emptySecret }
    return try SigningKey(.shared(secret), algorithm: algorithm, kid: nil)
  }

  /// A JWT in compact form (RFC 7515 §3.1), signed.
  ///
  /// - Parameters:
  ///   - type: the header's `typ`.
  ///   - extra: additional header members; they never replace `alg`, `kid` and `typ`.
  public func sign(
    type: String?, header extra: [String: JSON] = [:], claims: [String: JSON]
  ) throws(SigningKeyError) -> Secret {
    var header = extra
    header["alg"] = .string(algorithm.rawValue)
    if let kid { header["kid"] = .string(kid) }
    if let type { header["typ"] = .string(type) }
    let text =
      base64URL(JSON.object(header).serialized(sorted: true)) + "."
      + base64URL(JSON.object(claims).serialized(sorted: true))
    return Secret(text + "." + base64URL(try material.signature(of: Data(text.utf8), algorithm)))
  }

  public static func == (lhs: SigningKey, rhs: SigningKey) -> Bool {
    lhs.algorithm == rhs.algorithm && lhs.kid == rhs.kid && lhs.publicJWK == rhs.publicJWK
      && lhs.material.secret == rhs.material.secret
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(algorithm)
    hasher.combine(kid)
    hasher.combine(publicJWK)
  }
}

extension SigningKey: Redacted {
  public var description: String { "signing key (\(algorithm.rawValue))" }
}
