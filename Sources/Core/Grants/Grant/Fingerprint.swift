private import Crypto
private import FoundationEssentials
public import OAuth

/// The first 16 hexadecimal digits of the text's SHA-256, so that users can compare two texts.
public func digest(of text: [UInt8]) -> String {
  hexadecimal(SHA256.hash(data: Data(text)).prefix(8))
}

/// SHA-256 of a request's body in hexadecimal. Equal digests mean equal bodies.
public func bodyDigest(of bytes: [UInt8]) -> String {
  hexadecimal(SHA256.hash(data: Data(bytes)))
}

extension GrantSource {
  /// SHA-256 in base64url of all fields of the source (the public part of a key), to compare two sources. It is stored,
  /// so its input must never change for an existing source.
  public var fingerprint: String {
    let fields: [String?] =
      switch self {
      case .clientCredentials: ["client_credentials"]
      case .jwtBearer(let source):
        [
          "jwt_bearer", source.key.algorithm.rawValue, source.key.kid,
          source.key.publicJWK.map { JSON.object($0).text(sorted: true) }, source.issuer, source.subject,
          source.audience,
          String(source.lifetime.milliseconds), String(source.scopeInAssertion),
        ]
      case .exchange(let source):
        [
          "token_exchange", source.from.rawValue, source.actor?.rawValue, source.audience, source.requestedTokenType,
        ]
      }
    return Secret(JSON.array(fields.map { $0.map(JSON.string) ?? .null }).text(sorted: true)).fingerprint
  }
}

extension Secret {
  /// SHA-256 of the secret in base64url, only to compare two secrets.
  public var fingerprint: String {
    // Exposed to be hashed.
    base64URL(SHA256.hash(data: Data(exposed.utf8)))
  }

  /// HMAC-SHA-256 of the secret in base64url: the key of a table whose order reveals nothing without the HMAC key.
  public func keyedHash(under key: Secret) -> String {
    // Exposed to be hashed.
    let key = key.withExposedBytes { SymmetricKey(data: $0) }
    return base64URL(withExposedBytes { HMAC<SHA256>.authenticationCode(for: Data($0), using: key) })
  }
}
