import Crypto
import CryptoExtras
public import Foundation

/// A provider's public keys (RFC 7517 §5).
public struct JWKSet: Sendable, Equatable {
  /// The keys that can be used: those of an unknown type, or lacking a member, are passed over (RFC 7517 §5).
  public let keys: [JWK]
  /// The answer as it came, to be kept and given to ``init(raw:)``.
  public let raw: Data

  public static let maximumKeys = 100

  public static func httpRequest(to endpoint: URL) -> HTTPRequest {
    HTTPRequest(
      purpose: .keys, method: "GET", url: endpoint,
      headers: [.init("Accept", "application/jwk-set+json, application/json")])
  }

  public static func parse(_ response: HTTPResponse) throws(ResponseError) -> JWKSet {
    _ = try response.successfulObject()
    guard let set = JWKSet(raw: response.body) else {
      throw response.nonConforming("keys is not an array of at most \(maximumKeys) keys")
    }
    return set
  }

  /// A set that was kept; nil where it is none.
  public init?(raw: Data) {
    guard case .array(let values) = JSON(raw)?.members?["keys"], values.count <= Self.maximumKeys else { return nil }
    keys = values.compactMap { $0.members.flatMap(JWK.init(members:)) }
    self.raw = raw
  }
}

extension JWKSet {
  /// How many of the keys can verify a signature by one of these algorithms (RFC 7517 §4.2 to §4.4).
  public func count(usableFor algorithms: [String]) -> Int {
    let wanted = algorithms.compactMap(SignatureAlgorithm.init(rawValue:))
    return keys.filter { key in wanted.contains { key.fits($0, kid: nil) } }.count
  }
}

/// A public key for signatures (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2). Symmetric keys are never taken from a provider.
public struct JWK: Sendable, Equatable {
  public let kid: String?
  public let algorithm: String?
  public let use: String?
  public let operations: [String]?
  let material: Material

  enum Material: Sendable, Equatable {
    case rsa(modulus: Data, exponent: Data)
    /// The point, uncompressed (SEC 1 §2.3.3).
    case p256(Data)
    case p384(Data)
    case p521(Data)
    case ed25519(Data)
  }

  /// The longest RSA modulus, in bytes: checking a signature must not take seconds.
  private static let longestModulus = 1024
  private static let longestExponent = 8

  init?(members: [String: JSON]) {
    guard let material = Self.material(members) else { return nil }
    self.material = material
    do throws(WrongMember) {
      kid = try members.text("kid")
      algorithm = try members.text("alg")
      use = try members.text("use")
      operations = try members.texts("key_ops")
    } catch {
      return nil
    }
  }

  private static func material(_ members: [String: JSON]) -> Material? {
    func bytes(_ name: String) -> Data? {
      guard case .string(let text) = members[name] else { return nil }
      return decodeBase64URL(text)
    }
    func point(_ length: Int) -> Data? {
      guard let x = bytes("x"), let y = bytes("y"), x.count == length, y.count == length else { return nil }
      return [0x04] + x + y
    }
    switch (members["kty"], members["crv"]) {
    case (.string("RSA"), _):
      guard let modulus = bytes("n"), let exponent = bytes("e"), modulus.count <= longestModulus,
        exponent.count <= longestExponent
      else { return nil }
      return .rsa(modulus: modulus, exponent: exponent)
    case (.string("EC"), .string("P-256")): return point(32).map(Material.p256)
    case (.string("EC"), .string("P-384")): return point(48).map(Material.p384)
    case (.string("EC"), .string("P-521")): return point(66).map(Material.p521)
    case (.string("OKP"), .string("Ed25519")): return bytes("x").map(Material.ed25519)
    default: return nil
    }
  }

  /// Whether a signature by this algorithm may be checked with this key (RFC 7517 §4.2 to §4.4).
  func fits(_ wanted: SignatureAlgorithm, kid wantedKid: String?) -> Bool {
    if let wantedKid, kid != wantedKid { return false }
    if let use, use != "sig" { return false }
    if let operations, !operations.contains("verify") { return false }
    if let algorithm, SignatureAlgorithm(rawValue: algorithm)?.canonical != wanted.canonical { return false }
    switch (material, wanted) {
    case (.rsa, .rs256), (.rsa, .rs384), (.rsa, .rs512), (.rsa, .ps256), (.rsa, .ps384), (.rsa, .ps512),
      (.p256, .es256), (.p384, .es384), (.p521, .es512), (.ed25519, .edDSA), (.ed25519, .ed25519):
      return true
    default: return false
    }
  }
}

/// The signatures that are understood (RFC 7518 §3.1, RFC 8037 §3.1, RFC 9864 §2.2).
public enum SignatureAlgorithm: String, Sendable, CaseIterable {
  case rs256 = "RS256"
  case rs384 = "RS384"
  case rs512 = "RS512"
  case ps256 = "PS256"
  case ps384 = "PS384"
  case ps512 = "PS512"
  case es256 = "ES256"
  case es384 = "ES384"
  case es512 = "ES512"
  case edDSA = "EdDSA"
  case ed25519 = "Ed25519"
  case hs256 = "HS256"

  /// `Ed25519` is the new name of the one `EdDSA` that is understood.
  var canonical: SignatureAlgorithm { self == .ed25519 ? .edDSA : self }

  /// The digest that belongs to the algorithm: for signatures, and for `at_hash` (OpenID Connect Core §3.1.3.6).
  func digest(_ data: Data) -> Data {
    switch self {
    case .rs256, .ps256, .es256, .hs256: Data(SHA256.hash(data: data))
    case .rs384, .ps384, .es384: Data(SHA384.hash(data: data))
    case .rs512, .ps512, .es512, .edDSA, .ed25519: Data(SHA512.hash(data: data))
    }
  }

  /// Whether the key made this signature. False too where the key itself is unusable.
  func verify(_ signature: Data, of message: Data, with key: JWK) -> Bool {
    switch key.material {
    case .rsa(let modulus, let exponent):
      guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent) else { return false }
      return verifyRSA(signature, of: message, with: key)
    case .p256(let point):
      guard let key = try? P256.Signing.PublicKey(x963Representation: point),
        let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
      else { return false }
      return key.isValidSignature(signature, for: SHA256.hash(data: message))
    case .p384(let point):
      guard let key = try? P384.Signing.PublicKey(x963Representation: point),
        let signature = try? P384.Signing.ECDSASignature(rawRepresentation: signature)
      else { return false }
      return key.isValidSignature(signature, for: SHA384.hash(data: message))
    case .p521(let point):
      guard let key = try? P521.Signing.PublicKey(x963Representation: point),
        let signature = try? P521.Signing.ECDSASignature(rawRepresentation: signature)
      else { return false }
      return key.isValidSignature(signature, for: SHA512.hash(data: message))
    case .ed25519(let bytes):
      guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else { return false }
      return key.isValidSignature(signature, for: message)
    }
  }

  private func verifyRSA(_ bytes: Data, of message: Data, with key: _RSA.Signing.PublicKey) -> Bool {
    let signature = _RSA.Signing.RSASignature(rawRepresentation: bytes)
    return switch self {
    case .rs256: key.isValidSignature(signature, for: SHA256.hash(data: message), padding: .insecurePKCS1v1_5)
    case .rs384: key.isValidSignature(signature, for: SHA384.hash(data: message), padding: .insecurePKCS1v1_5)
    case .rs512: key.isValidSignature(signature, for: SHA512.hash(data: message), padding: .insecurePKCS1v1_5)
    case .ps256: key.isValidSignature(signature, for: SHA256.hash(data: message), padding: .PSS)
    case .ps384: key.isValidSignature(signature, for: SHA384.hash(data: message), padding: .PSS)
    case .ps512: key.isValidSignature(signature, for: SHA512.hash(data: message), padding: .PSS)
    case .es256, .es384, .es512, .edDSA, .ed25519, .hs256: false
    }
  }

  /// Whether a client secret made this signature (HS256).
  static func verifyHS256(_ signature: Data, of message: Data, secret: Secret) -> Bool {
    // Exposed to be the key (OpenID Connect Core §10.1).
    let key = SymmetricKey(data: Data(secret.exposed.utf8))
    return HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: message, using: key)
  }
}
