import Crypto
public import FoundationEssentials

/// The key that an account's tokens are bound to (RFC 9449): P-256, which every server with DPoP supports. It prints
/// nothing.
public struct DPoPKey: Sendable, Hashable {
  private let key: P256.Signing.PrivateKey
  private let publicMembers: [String: JSON]
  /// The key's SHA-256 thumbprint, by which tokens name it (RFC 7638 §3, RFC 9449 §6); also the `dpop_jkt` of an
  /// authorization request (RFC 9449 §10).
  public let thumbprint: String

  /// A key from 32 random bytes.
  ///
  /// One of 2³² such numbers exceeds the curve's order and is hashed until it does not.
  public init(randomBytes: [UInt8]) {
    precondition(randomBytes.count == 32, "a P-256 key is made of 32 bytes")
    var bytes = Data(randomBytes)
    for _ in 0..<8 {
      if let key = try? P256.Signing.PrivateKey(rawRepresentation: bytes) {
        self.init(key)
        return
      }
      bytes = Data(SHA256.hash(data: bytes))
    }
    preconditionFailure("the chance of this is one in 2²⁵⁶")
  }

  /// A stored key; nil if the text is not valid.
  public init?(raw: Secret) {
    // Exposed to be the key.
    guard let bytes = decodeBase64URL(raw.exposed),
      let key = try? P256.Signing.PrivateKey(rawRepresentation: bytes)
    else { return nil }
    self.init(key)
  }

  private init(_ key: P256.Signing.PrivateKey) {
    self.key = key
    publicMembers = SigningKey.Material.p256(key).publicMembers ?? [:]
    thumbprint = base64URL(SHA256.hash(data: Data(JSON.object(publicMembers).serialized(sorted: true))))
  }

  /// The key itself, for encrypted storage: 32 bytes in base64url.
  public var raw: Secret { Secret(base64URL(key.rawRepresentation)) }

  /// A proof for one request (RFC 9449 §4.2).
  ///
  /// - Parameters:
  ///   - url: the URL of the request; the proof omits query and fragment.
  ///   - accessToken: the token in a request to a resource; nil at the authorization server.
  ///   - nonce: the nonce that the server requested (RFC 9449 §8).
  ///   - identifier: `jti`: fresh for each proof, at least 96 bits.
  public func proof(
    method: String, url: URL, accessToken: Secret?, nonce: String?, identifier: String, at now: Timestamp
  ) throws(SigningKeyError) -> Secret {
    var claims: [String: JSON] = [
      "jti": .string(identifier), "htm": .string(method), "htu": .string(Self.target(url)),
      "iat": .number(String(now.seconds)),
    ]
    // Exposed to be hashed.
    claims["ath"] = accessToken.map { .string(base64URL(SHA256.hash(data: Data($0.exposed.utf8)))) }
    claims["nonce"] = nonce.map(JSON.string)
    let signing = try SigningKey(.p256(key), algorithm: .es256, kid: nil)
    return try signing.sign(type: "dpop+jwt", header: ["jwk": .object(publicMembers)], claims: claims)
  }

  /// The target URI without query and fragment (RFC 9449 §4.2), as written. An empty path is `/`, as in the request
  /// line that the server reads (RFC 9110 §4.2.3).
  private static func target(_ url: URL) -> String {
    let text = url.absoluteString.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
    let target = String(Substring(text))
    return URI(target)?.path.isEmpty == true ? target + "/" : target
  }

  public static func == (lhs: DPoPKey, rhs: DPoPKey) -> Bool { lhs.thumbprint == rhs.thumbprint }

  public func hash(into hasher: inout Hasher) { hasher.combine(thumbprint) }
}

extension DPoPKey: Redacted {
  public var description: String { "DPoP key" }
}

extension HTTPResponse {
  /// The maximum length of a nonce, in bytes: each further request contains it.
  static let longestNonce = 1024

  /// The nonce for the next proof (RFC 9449 §8.1): exactly one header with valid nonce characters.
  public var dpopNonce: String? {
    let found = headers.filter { $0.name.lowercased() == "dpop-nonce" }
    guard found.count == 1, case let nonce = found[0].value.trimmedOfSpace, !nonce.isEmpty,
      nonce.utf8.count <= Self.longestNonce,
      nonce.utf8.allSatisfy({ $0 == 0x21 || (0x23...0x5b).contains($0) || (0x5d...0x7e).contains($0) })
    else { return nil }
    return nonce
  }

  /// Whether the server refuses a request because it lacks the server's nonce, and supplies one: at the authorization
  /// server (RFC 9449 §8) by the error of a 4xx, at a resource (§9) by the challenge of a 401.
  public var asksForDPoPNonce: Bool {
    guard (400..<500).contains(status), dpopNonce != nil else { return false }
    if case .string(OAuthErrorCode.useDPoPNonce.rawValue)? = JSON(message: body)?.dictionary?["error"] { return true }
    return status == 401
      && challenges.contains { $0.scheme == "dpop" && $0.parameters["error"] == OAuthErrorCode.useDPoPNonce.rawValue }
  }
}
