import Crypto
import CryptoExtras
import Foundation

/// An RS256 key and its identifier.
struct SigningKey: Sendable {
  let kid: String
  private let key: _RSA.Signing.PrivateKey
  let publicJWK: DemoServer.JSON

  /// The key that every server of a process starts with: making one takes a tenth of a second of a core, and a test
  /// run starts hundreds of servers. `DemoServer.rotateKeys` gives a server one of its own.
  static func first() throws -> SigningKey { try shared.get() }
  private static let shared = Result { try SigningKey() }

  /// A new 2048-bit key.
  init() throws {
    key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
    kid = "key-\(Base64URL.random().prefix(12))"
    let numbers = try key.publicKey.getKeyPrimitives()
    publicJWK = [
      "kty": "RSA", "use": "sig", "alg": "RS256", "kid": .string(kid),
      "n": .string(Base64URL.encode(numbers.modulus)), "e": .string(Base64URL.encode(numbers.publicExponent)),
    ]
  }

  /// A JWS in compact form (RFC 7515 §7.1), or what a fault makes of it.
  func sign(_ claims: DemoServer.JSON, faults: [DemoServer.Fault]) throws -> String {
    let kinds = Set(faults.map(\.kind))
    let unsigned = kinds.contains(.algNone)
    let header: DemoServer.JSON = [
      "alg": unsigned ? "none" : "RS256", "typ": "JWT",
      "kid": .string(kinds.contains(.unknownKid) ? "key-unknown" : kid),
    ]
    let input = "\(Base64URL.encode(header.text.utf8)).\(Base64URL.encode(claims.text.utf8))"
    guard !unsigned else { return "\(input)." }
    var signature = try key.signature(for: Data(input.utf8), padding: .insecurePKCS1v1_5).rawRepresentation
    if kinds.contains(.badSignature) { signature[signature.startIndex] ^= 1 }
    return "\(input).\(Base64URL.encode(signature))"
  }

  /// The claims of a token that this key signed; its times are not looked at (RP-Initiated Logout §4).
  func verifiedClaims(of token: String) -> DemoServer.JSON? {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let payload = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2]),
      key.publicKey.isValidSignature(
        .init(rawRepresentation: signature), for: Data("\(parts[0]).\(parts[1])".utf8), padding: .insecurePKCS1v1_5)
    else { return nil }
    return DemoServer.JSON(text: String(decoding: payload, as: UTF8.self))
  }
}
