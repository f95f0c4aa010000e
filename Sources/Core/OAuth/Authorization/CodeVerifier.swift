import Crypto

/// The code verifier of PKCE and its challenge (RFC 7636 §4.1, §4.2). S256 is the only method.
public struct CodeVerifier: Sendable, Hashable {
  /// The verifier: 43 to 128 unreserved characters.
  public let secret: Secret

  /// A verifier from 32 to 96 random bytes; 32 bytes give 43 characters.
  public init(randomBytes: [UInt8]) {
    precondition((32...96).contains(randomBytes.count), "a code verifier is made of 32 to 96 bytes")
    secret = Secret(base64URL(randomBytes))
  }

  /// An existing verifier; nil if the text is not valid.
  public init?(rawValue: Secret) {
    // Exposed to check its grammar.
    let bytes = rawValue.exposed.utf8
    guard (43...128).contains(bytes.count), bytes.allSatisfy(Self.isUnreserved) else { return nil }
    secret = rawValue
  }

  /// The code challenge, by S256.
  public var challenge: String {
    // Exposed to be hashed.
    base64URL(SHA256.hash(data: Array(secret.exposed.utf8)))
  }

  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
    default: "-._~".utf8.contains(byte)
    }
  }
}
