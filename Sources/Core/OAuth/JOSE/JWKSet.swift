public import FoundationEssentials

/// A provider's public keys (RFC 7517 §5).
public struct JWKSet: Sendable, Equatable {
  /// The usable keys: keys of an unknown type or without a required member are ignored (RFC 7517 §5).
  public let keys: [JWK]

  public static let maximumKeys = 100

  public static func parse(_ response: HTTPResponse) throws(ResponseError) -> JWKSet {
    _ = try response.successfulObject()
    guard let set = JWKSet(response.body) else {
      throw response.nonConforming("keys is not an array of at most \(maximumKeys) keys")
    }
    return set
  }

  /// Nil: the text is not a set of keys.
  public init?(_ text: Data) {
    guard case .array(let values) = JSON(message: text)?.dictionary?["keys"], values.count <= Self.maximumKeys else {
      return nil
    }
    keys = values.compactMap { $0.dictionary.flatMap(JWK.init(members:)) }
  }
}

extension JWKSet {
  /// The number of keys that can verify a signature by one of these algorithms (RFC 7517 §4.2 to §4.4).
  public func count(usableFor algorithms: [String]) -> Int {
    let wanted = algorithms.compactMap(SignatureAlgorithm.init(rawValue:))
    return keys.filter { key in wanted.contains { key.fits($0, kid: nil) } }.count
  }
}

/// A public key for signatures (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2). Symmetric keys from a provider are never
/// accepted.
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

  /// The maximum RSA modulus, in bytes: a verification must not take seconds.
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

  /// Whether this key may verify a signature by this algorithm (RFC 7517 §4.2 to §4.4).
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
