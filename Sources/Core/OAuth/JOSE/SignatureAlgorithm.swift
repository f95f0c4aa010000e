import Crypto
import CryptoExtras
import FoundationEssentials

/// The supported signature algorithms (RFC 7518 §3.1, RFC 8037 §3.1, RFC 9864 §2.2).
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
  case hs384 = "HS384"
  case hs512 = "HS512"

  /// `Ed25519` is the new name of the only supported `EdDSA` algorithm.
  var canonical: SignatureAlgorithm { self == .ed25519 ? .edDSA : self }

  /// Whether the client secret is the key (RFC 7518 §3.2): then a verifier can also sign.
  public var isSymmetric: Bool {
    switch self {
    case .hs256, .hs384, .hs512: true
    case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512, .es256, .es384, .es512, .edDSA, .ed25519: false
    }
  }

  /// The digest of the algorithm: for signatures, and for `at_hash` (OpenID Connect Core §3.1.3.6).
  func digest(_ data: Data) -> Data {
    switch self {
    case .rs256, .ps256, .es256, .hs256: Data(SHA256.hash(data: data))
    case .rs384, .ps384, .es384, .hs384: Data(SHA384.hash(data: data))
    case .rs512, .ps512, .es512, .hs512, .edDSA, .ed25519: Data(SHA512.hash(data: data))
    }
  }

  /// Whether the key made this signature. Also false if the key is unusable.
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
    case .es256, .es384, .es512, .edDSA, .ed25519, .hs256, .hs384, .hs512: false
    }
  }

  /// Whether a client secret made this signature; false if the algorithm is not symmetric.
  func verify(_ signature: Data, of message: Data, secret: Secret) -> Bool {
    // Exposed to be the key (OpenID Connect Core §10.1).
    let key = SymmetricKey(data: Data(secret.exposed.utf8))
    return switch self {
    case .hs256: HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: message, using: key)
    case .hs384: HMAC<SHA384>.isValidAuthenticationCode(signature, authenticating: message, using: key)
    case .hs512: HMAC<SHA512>.isValidAuthenticationCode(signature, authenticating: message, using: key)
    case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512, .es256, .es384, .es512, .edDSA, .ed25519: false
    }
  }
}
