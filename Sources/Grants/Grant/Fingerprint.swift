private import Crypto
private import FoundationEssentials
public import OAuth

/// The beginning of the text's SHA-256, 16 hexadecimal digits: for people, to see whether two texts are the same.
public func digest(of text: [UInt8]) -> String {
  SHA256.hash(data: Data(text)).prefix(8).map { byte in
    String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
  }.joined()
}

/// SHA-256 of a request's body in hexadecimal: two bodies with the same are the same.
public func bodyDigest(of bytes: [UInt8]) -> String {
  SHA256.hash(data: Data(bytes)).map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }.joined()
}

extension GrantSource {
  /// SHA-256 in base64url of all that the source says, of a key its public part: tells whether two are the same. It is
  /// kept on disk, so what it is made from never changes for a source that is there already.
  public var fingerprint: String {
    let fields: [String?] =
      switch self {
      case .clientCredentials: ["client_credentials"]
      case .jwtBearer(let source):
        [
          "jwt_bearer", source.key.algorithm.rawValue, source.key.kid,
          source.key.publicJWK.map { JSONValue.object($0).serialized }, source.issuer, source.subject, source.audience,
          String(source.lifetime.milliseconds), String(source.scopeInAssertion),
        ]
      case .exchange(let source):
        [
          "token_exchange", source.from.rawValue, source.actor?.rawValue, source.audience, source.requestedTokenType,
        ]
      }
    return Secret(JSONValue.array(fields.map { $0.map(JSONValue.string) ?? .null }).serialized).fingerprint
  }
}

extension Secret {
  /// SHA-256 of the secret in base64url: tells whether two are the same, and nothing else.
  public var fingerprint: String {
    // Exposed to be hashed.
    base64URL(SHA256.hash(data: Data(exposed.utf8)))
  }

  /// HMAC-SHA-256 of the secret in base64url: finds it in a table whose order tells nothing to whoever lacks the key.
  public func keyedHash(under key: Secret) -> String {
    // Exposed to be hashed.
    let key = key.withExposedBytes { SymmetricKey(data: $0) }
    return base64URL(withExposedBytes { HMAC<SHA256>.authenticationCode(for: Data($0), using: key) })
  }
}
