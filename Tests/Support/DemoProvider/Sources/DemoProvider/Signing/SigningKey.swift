import Crypto
import CryptoExtras
import Foundation

extension DemoServer {
  /// What the server may sign with (RFC 7518 §3.1, RFC 8037).
  public enum Algorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case es256 = "ES256"
    case es384 = "ES384"
    case edDSA = "EdDSA"
  }
}

/// A key of the server, its algorithm and its identifier.
struct SigningKey: Sendable {
  let kid: String
  let algorithm: DemoServer.Algorithm
  let publicJWK: DemoServer.JSON
  private let key: Key

  private enum Key: Sendable {
    case rsa(_RSA.Signing.PrivateKey)
    case p256(P256.Signing.PrivateKey)
    case p384(P384.Signing.PrivateKey)
    case ed25519(Curve25519.Signing.PrivateKey)
  }

  /// The key that every server of a process starts with: making one takes a tenth of a second of a core, and a test
  /// run starts hundreds of servers. `DemoServer.rotateKeys` gives a server one of its own.
  static func first() throws -> SigningKey { try shared.get() }
  private static let shared = Result { try SigningKey() }

  /// A new one; an RSA key has 2048 bits.
  init(_ algorithm: DemoServer.Algorithm = .rs256) throws {
    self.algorithm = algorithm
    kid = "key-\(Base64URL.random().prefix(12))"
    let members: DemoServer.JSON
    switch algorithm {
    case .rs256, .rs512, .ps256:
      let made = try _RSA.Signing.PrivateKey(keySize: .bits2048)
      let numbers = try made.publicKey.getKeyPrimitives()
      members = [
        "kty": "RSA", "n": .string(Base64URL.encode(numbers.modulus)),
        "e": .string(Base64URL.encode(numbers.publicExponent)),
      ]
      key = .rsa(made)
    case .es256:
      let made = P256.Signing.PrivateKey()
      members = Self.elliptic("P-256", made.publicKey.rawRepresentation)
      key = .p256(made)
    case .es384:
      let made = P384.Signing.PrivateKey()
      members = Self.elliptic("P-384", made.publicKey.rawRepresentation)
      key = .p384(made)
    case .edDSA:
      let made = Curve25519.Signing.PrivateKey()
      members = [
        "kty": "OKP", "crv": "Ed25519", "x": .string(Base64URL.encode(made.publicKey.rawRepresentation)),
      ]
      key = .ed25519(made)
    }
    publicJWK = members.overlaid(with: ["use": "sig", "alg": .string(algorithm.rawValue), "kid": .string(kid)])
  }

  private static func elliptic(_ curve: String, _ point: Data) -> DemoServer.JSON {
    [
      "kty": "EC", "crv": .string(curve), "x": .string(Base64URL.encode(point.prefix(point.count / 2))),
      "y": .string(Base64URL.encode(point.suffix(point.count / 2))),
    ]
  }

  /// A JWS in compact form (RFC 7515 §7.1), or what faults make of it.
  func sign(_ claims: DemoServer.JSON, type: String = "JWT", faults: [DemoServer.Fault] = []) throws -> String {
    let kinds = Set(faults.map(\.kind))
    let shown =
      kinds.contains(.algNone) ? "none" : kinds.contains(.algHS256) ? "HS256" : algorithm.rawValue
    var header: DemoServer.JSON = [
      "alg": .string(shown), "typ": .string(type),
      "kid": .string(kinds.contains(.unknownKid) ? "key-unknown" : kid),
    ]
    if kinds.contains(.critHeader) { header = header.overlaid(with: ["crit": ["exp"], "exp": 1]) }
    let input = "\(Base64URL.encode(header.text.utf8)).\(Base64URL.encode(claims.text.utf8))"
    guard shown != "none" else { return "\(input)." }
    var signature = try shown == "HS256" ? confused(input) : signature(of: Data(input.utf8))
    if kinds.contains(.badSignature) { signature[signature.startIndex] ^= 1 }
    return "\(input).\(Base64URL.encode(signature))"
  }

  /// A MAC with the public key as the secret, which a client must not take for a signature (RFC 8725 §2.1).
  private func confused(_ input: String) -> Data {
    let secret = SymmetricKey(data: Data(publicJWK.text.utf8))
    return Data(HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: secret))
  }

  private func signature(of input: Data) throws -> Data {
    switch key {
    case .rsa(let key):
      let padding: _RSA.Signing.Padding = algorithm == .ps256 ? .PSS : .insecurePKCS1v1_5
      return algorithm == .rs512
        ? try key.signature(for: SHA512.hash(data: input), padding: padding).rawRepresentation
        : try key.signature(for: SHA256.hash(data: input), padding: padding).rawRepresentation
    case .p256(let key): return try key.signature(for: input).rawRepresentation
    case .p384(let key): return try key.signature(for: input).rawRepresentation
    case .ed25519(let key): return try key.signature(for: input)
    }
  }

  /// `at_hash`: the left half of the hash that the algorithm has (OIDC Core §3.1.3.6).
  func halfHash(of text: String) -> String {
    let data = Data(text.utf8)
    let hash: Data =
      switch algorithm {
      case .rs256, .ps256, .es256: Data(SHA256.hash(data: data))
      case .es384: Data(SHA384.hash(data: data))
      case .rs512, .edDSA: Data(SHA512.hash(data: data))
      }
    return Base64URL.encode(hash.prefix(hash.count / 2))
  }

  /// The claims of a token that this key signed; its times are not looked at (RP-Initiated Logout §4).
  func verifiedClaims(of token: String) -> DemoServer.JSON? {
    guard let token = CompactJWT(token), token.algorithm == algorithm.rawValue, token.verifies(by: [publicJWK]) else {
      return nil
    }
    return token.claims
  }
}
