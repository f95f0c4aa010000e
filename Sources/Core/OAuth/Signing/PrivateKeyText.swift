import Crypto
import CryptoExtras
import FoundationEssentials

/// Private keys in file formats.
enum PrivateKeyText {
  typealias Material = SigningKey.Material

  // Object identifiers in DER.
  private static let p256: [UInt8] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]
  private static let p384: [UInt8] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22]
  private static let p521: [UInt8] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23]
  private static let ecPublicKey: [UInt8] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]
  private static let ed25519: [UInt8] = [0x06, 0x03, 0x2b, 0x65, 0x70]
  private static let rsaEncryption: [UInt8] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]

  /// The object identifier is near the start in PKCS#8: only a version and the algorithm's sequence precede it.
  private static let headBytes = 48

  // MARK: PEM (RFC 7468)

  static func readPEM(_ text: Secret) throws(SigningKeyError) -> Material {
    // Exposed to be read.
    let lines = text.exposed.split(whereSeparator: \.isNewline).map(\.trimmed)
    let blocks = lines.compactMap { label($0, "BEGIN") }
    guard !blocks.isEmpty else { throw .unreadable("it has no line -----BEGIN PRIVATE KEY-----") }
    if blocks.contains("ENCRYPTED PRIVATE KEY") { throw .encrypted }
    guard let kind = blocks.first(where: { $0.hasSuffix("PRIVATE KEY") }) else {
      throw blocks.contains { $0.hasSuffix("PUBLIC KEY") || $0 == "CERTIFICATE" }
        ? .publicKeyOnly : .unreadable("it has no private key in it")
    }
    let inside = lines.drop { label($0, "BEGIN") != kind }.dropFirst().prefix { label($0, "END") == nil }
    if inside.contains(where: { $0.contains("ENCRYPTED") }) { throw .encrypted }
    guard inside.count < lines.count - 1, let der = Data(base64Encoded: inside.joined()), !der.isEmpty else {
      throw .unreadable("what is between its BEGIN and END lines is not base64, or an END line is missing")
    }
    switch kind {
    case "PRIVATE KEY": return try readPKCS8(der)
    case "RSA PRIVATE KEY": return try readRSA(der)
    case "EC PRIVATE KEY": return try readEC(der)
    default: throw .unreadable("a “\(kind.printable(limit: 64))” is not understood")
    }
  }

  private static func label(_ line: String, _ word: String) -> String? {
    let start = "-----\(word) "
    guard line.hasPrefix(start), line.hasSuffix("-----"), line.utf8.count > start.utf8.count + 5 else { return nil }
    return String(line.dropFirst(start.count).dropLast(5))
  }

  private static func readPKCS8(_ der: Data) throws(SigningKeyError) -> Material {
    let head = der.prefix(headBytes)
    if head.firstRange(of: rsaEncryption) != nil { return try readRSA(der) }
    if head.firstRange(of: ecPublicKey) != nil { return try readEC(der) }
    if let name = head.firstRange(of: ed25519) { return try readEd25519(der[name.upperBound...]) }
    throw .unreadable("it is neither an RSA, nor a P-256, P-384, P-521, nor an Ed25519 key")
  }

  private static func readRSA(_ der: Data) throws(SigningKeyError) -> Material {
    guard let key = try? _RSA.Signing.PrivateKey(unsafeDERRepresentation: der) else {
      throw .unreadable("it is not an RSA key of at least 1024 bits")
    }
    return try checked(key)
  }

  private static func checked(_ key: _RSA.Signing.PrivateKey) throws(SigningKeyError) -> Material {
    guard key.keySizeInBits >= SigningKey.moduli.lowerBound else { throw .weak(bits: key.keySizeInBits) }
    guard key.keySizeInBits <= SigningKey.moduli.upperBound else {
      throw .unreadable("it is an RSA key of more than \(SigningKey.moduli.upperBound) bits")
    }
    return .rsa(key)
  }

  /// The library accepts the bytes for any curve, so the curve's identifier is checked first.
  private static func readEC(_ der: Data) throws(SigningKeyError) -> Material {
    if der.firstRange(of: p256) != nil, let key = try? P256.Signing.PrivateKey(derRepresentation: der) {
      return .p256(key)
    }
    if der.firstRange(of: p384) != nil, let key = try? P384.Signing.PrivateKey(derRepresentation: der) {
      return .p384(key)
    }
    if der.firstRange(of: p521) != nil, let key = try? P521.Signing.PrivateKey(derRepresentation: der) {
      return .p521(key)
    }
    throw .unreadable("it is not a key of the curves P-256, P-384 and P-521")
  }

  /// The part after the algorithm: an octet string in an octet string (RFC 8410 §7), and optional attributes.
  private static func readEd25519(_ rest: Data) throws(SigningKeyError) -> Material {
    let bytes = Array(rest)
    guard bytes.count >= 36, bytes.starts(with: [0x04, 0x22, 0x04, 0x20]),
      let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: Data(bytes[4..<36]))
    else { throw .unreadable("it is not an Ed25519 key") }
    return .ed25519(key)
  }

  // MARK: JWK (RFC 7517, RFC 7518 §6, RFC 8037 §2)

  static func readJWK(
    _ text: Secret
  ) throws(SigningKeyError) -> (material: Material, algorithm: SignatureAlgorithm?, kid: String?) {
    // Exposed to be read.
    guard let members = JSON(message: Data(text.exposed.utf8))?.dictionary else {
      throw .unreadable("it is not a JSON object")
    }
    guard case .string(let type)? = members["kty"] else {
      throw .unreadable(members["keys"] == nil ? "it has no kty" : "it is a set of keys: give only one of them")
    }
    guard members["d"] != nil || type == "oct" else { throw .publicKeyOnly }
    let material: Material
    switch type {
    case "RSA": material = try readRSA(members)
    case "EC": material = try readEC(members)
    case "OKP": material = try readOKP(members)
    default: throw .unreadable("kty “\(type.printable(limit: 32))” is not understood")
    }
    var algorithm: SignatureAlgorithm?
    if let text = try? members.text("alg") {
      algorithm = SignatureAlgorithm(rawValue: text)
      if algorithm == nil { throw .unknownAlgorithm(text.printable(limit: 32)) }
    }
    return (material, algorithm, try? members.text("kid"))
  }

  private static func bytes(_ name: String, _ members: [String: JSON]) throws(SigningKeyError) -> Data {
    guard case .string(let text)? = members[name], let bytes = decodeBase64URL(text), !bytes.isEmpty else {
      throw .unreadable("its member \(name) is not base64url")
    }
    return bytes
  }

  private static func readRSA(_ members: [String: JSON]) throws(SigningKeyError) -> Material {
    func number(_ name: String) throws(SigningKeyError) -> Data {
      let number = Data(try bytes(name, members).drop { $0 == 0 })
      // All numbers of an RSA key except d are odd; an even one would only waste the library's time.
      guard let last = number.last, name == "d" || last & 1 == 1 else {
        throw .unreadable("its member \(name) is wrong")
      }
      return number
    }
    let modulus = try number("n")
    let bits = modulus.count * 8 - (modulus.first?.leadingZeroBitCount ?? 0)
    guard bits >= SigningKey.moduli.lowerBound else { throw .weak(bits: bits) }
    guard bits <= SigningKey.moduli.upperBound else {
      throw .unreadable("it is an RSA key of more than \(SigningKey.moduli.upperBound) bits")
    }
    guard members["p"] != nil, members["q"] != nil, members["oth"] == nil else {
      throw .unreadable("it must have the two prime factors p and q")
    }
    let (e, d, p, q) = (try number("e"), try number("d"), try number("p"), try number("q"))
    guard e.count <= 8, d.count <= modulus.count, (modulus.count / 4...modulus.count).contains(p.count),
      (modulus.count / 4...modulus.count).contains(q.count),
      let key = try? _RSA.Signing.PrivateKey(n: modulus, e: e, d: d, p: p, q: q)
    else { throw .unreadable("its numbers are not an RSA key") }
    return try checked(key)
  }

  private static func readEC(_ members: [String: JSON]) throws(SigningKeyError) -> Material {
    let secret = try bytes("d", members)
    let material: Material?
    switch members["crv"] {
    case .string("P-256"): material = (try? P256.Signing.PrivateKey(rawRepresentation: secret)).map { .p256($0) }
    case .string("P-384"): material = (try? P384.Signing.PrivateKey(rawRepresentation: secret)).map { .p384($0) }
    case .string("P-521"): material = (try? P521.Signing.PrivateKey(rawRepresentation: secret)).map { .p521($0) }
    default: throw .unreadable("its crv is none of P-256, P-384 and P-521")
    }
    guard let material else { throw .unreadable("its member d is not a key of its curve") }
    return try matching(members, material)
  }

  private static func readOKP(_ members: [String: JSON]) throws(SigningKeyError) -> Material {
    guard members["crv"] == .string("Ed25519") else { throw .unreadable("its crv is not Ed25519") }
    guard let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: try bytes("d", members)) else {
      throw .unreadable("its member d is not an Ed25519 key")
    }
    return try matching(members, .ed25519(key))
  }

  /// A key with a mismatched public half makes signatures that no server can verify.
  private static func matching(_ members: [String: JSON], _ material: Material) throws(SigningKeyError) -> Material {
    for (name, value) in material.publicMembers ?? [:] where members[name] != value {
      throw .unreadable("its public and private members do not belong together")
    }
    return material
  }
}
