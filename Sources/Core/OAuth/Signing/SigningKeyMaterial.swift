import Crypto
import CryptoExtras
import FoundationEssentials

extension SigningKey.Material {
  /// The shared secret; nil for a private key, which its public half identifies.
  var secret: Secret? {
    if case .shared(let secret) = self { secret } else { nil }
  }

  var name: String {
    switch self {
    case .rsa: "an RSA key"
    case .p256: "a P-256 key"
    case .p384: "a P-384 key"
    case .p521: "a P-521 key"
    case .ed25519: "an Ed25519 key"
    case .shared: "a client secret"
    }
  }

  var standardAlgorithm: SignatureAlgorithm {
    switch self {
    case .rsa: .rs256
    case .p256: .es256
    case .p384: .es384
    case .p521: .es512
    case .ed25519: .edDSA
    case .shared: .hs256
    }
  }

  func signs(_ algorithm: SignatureAlgorithm) -> Bool {
    switch (self, algorithm) {
    case (.rsa, .rs256), (.rsa, .rs384), (.rsa, .rs512), (.rsa, .ps256), (.rsa, .ps384), (.rsa, .ps512),
      (.p256, .es256), (.p384, .es384), (.p521, .es512), (.ed25519, .edDSA), (.ed25519, .ed25519):
      true
    case (.shared, _): algorithm.isSymmetric
    default: false
    }
  }

  /// Only the members of the public key that RFC 7638 §3.2 requires.
  var publicMembers: [String: JSON]? {
    switch self {
    case .rsa(let key):
      guard let numbers = try? key.publicKey.getKeyPrimitives() else { return nil }
      return [
        "kty": .string("RSA"), "n": .string(base64URL(numbers.modulus.drop { $0 == 0 })),
        "e": .string(base64URL(numbers.publicExponent.drop { $0 == 0 })),
      ]
    case .p256(let key): return Self.point("P-256", key.publicKey.rawRepresentation)
    case .p384(let key): return Self.point("P-384", key.publicKey.rawRepresentation)
    case .p521(let key): return Self.point("P-521", key.publicKey.rawRepresentation)
    case .ed25519(let key):
      return [
        "kty": .string("OKP"), "crv": .string("Ed25519"), "x": .string(base64URL(key.publicKey.rawRepresentation)),
      ]
    case .shared: return nil
    }
  }

  private static func point(_ curve: String, _ raw: Data) -> [String: JSON] {
    let half = raw.count / 2
    return [
      "kty": .string("EC"), "crv": .string(curve), "x": .string(base64URL(raw.prefix(half))),
      "y": .string(base64URL(raw.suffix(half))),
    ]
  }

  /// A signature in the format of RFC 7518 §3: for elliptic curves, r followed by s.
  func signature(of message: Data, _ algorithm: SignatureAlgorithm) throws(SigningKeyError) -> Data {
    do {
      return try sign(message, algorithm)
    } catch {
      // The library's error is not passed on: it may quote its input.
      throw .refused
    }
  }

  private func sign(_ message: Data, _ algorithm: SignatureAlgorithm) throws -> Data {
    switch self {
    case .rsa(let key): return try Self.sign(message, algorithm, with: key)
    case .p256(let key): return try key.signature(for: SHA256.hash(data: message)).rawRepresentation
    case .p384(let key): return try key.signature(for: SHA384.hash(data: message)).rawRepresentation
    case .p521(let key): return try key.signature(for: SHA512.hash(data: message)).rawRepresentation
    case .ed25519(let key): return try key.signature(for: message)
    case .shared(let secret): return try Self.sign(message, algorithm, secret: secret)
    }
  }

  private static func sign(
    _ message: Data, _ algorithm: SignatureAlgorithm, with key: _RSA.Signing.PrivateKey
  ) throws -> Data {
    switch algorithm {
    case .rs256: try key.signature(for: SHA256.hash(data: message), padding: .insecurePKCS1v1_5).rawRepresentation
    case .rs384: try key.signature(for: SHA384.hash(data: message), padding: .insecurePKCS1v1_5).rawRepresentation
    case .rs512: try key.signature(for: SHA512.hash(data: message), padding: .insecurePKCS1v1_5).rawRepresentation
    case .ps256: try key.signature(for: SHA256.hash(data: message), padding: .PSS).rawRepresentation
    case .ps384: try key.signature(for: SHA384.hash(data: message), padding: .PSS).rawRepresentation
    case .ps512: try key.signature(for: SHA512.hash(data: message), padding: .PSS).rawRepresentation
    case .es256, .es384, .es512, .edDSA, .ed25519, .hs256, .hs384, .hs512: throw SigningKeyError.refused
    }
  }

  private static func sign(_ message: Data, _ algorithm: SignatureAlgorithm, secret: Secret) throws -> Data {
    // Exposed to be the key (OpenID Connect Core §10.1).
    let key = SymmetricKey(data: Data(secret.exposed.utf8))
    switch algorithm {
    case .hs256: return Data(HMAC<SHA256>.authenticationCode(for: message, using: key))
    case .hs384: return Data(HMAC<SHA384>.authenticationCode(for: message, using: key))
    case .hs512: return Data(HMAC<SHA512>.authenticationCode(for: message, using: key))
    case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512, .es256, .es384, .es512, .edDSA, .ed25519:
      throw SigningKeyError.refused
    }
  }
}
