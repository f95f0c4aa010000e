import Crypto
import CryptoExtras
import Foundation

/// A JWS in compact form (RFC 7515 §7.1), read and not yet verified.
struct CompactJWT: Sendable {
  var header: DemoServer.JSON
  var claims: DemoServer.JSON
  private var input: Data
  private var signature: Data

  /// Nil for anything but three segments, the first two of which are JSON objects.
  init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
      let signature = Base64URL.decode(parts[2])
    else { return nil }
    self.header = header
    self.claims = claims
    self.signature = signature
    input = Data("\(parts[0]).\(parts[1])".utf8)
  }

  private static func object(_ part: Substring) -> DemoServer.JSON? {
    guard let data = Base64URL.decode(part), let json = DemoServer.JSON(text: String(decoding: data, as: UTF8.self)),
      case .object = json
    else { return nil }
    return json
  }

  var algorithm: String { header["alg"]?.string ?? "" }

  /// Whether one of the JWKs verifies it; a `kid` that names one leaves only that.
  func verifies(by keys: [DemoServer.JSON]) -> Bool {
    let named = keys.filter { $0["kid"] != nil && $0["kid"] == header["kid"] }
    return (named.isEmpty ? keys : named).contains { key in
      guard let key = VerifyingKey(key) else { return false }
      return key.verifies(signature, of: input, algorithm: algorithm)
    }
  }

  /// Whether the secret's MAC is its signature (RFC 7518 §3.2).
  func verifies(by secret: String) -> Bool {
    let key = SymmetricKey(data: Data(secret.utf8))
    return switch algorithm {
    case "HS256": HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: input, using: key)
    case "HS384": HMAC<SHA384>.isValidAuthenticationCode(signature, authenticating: input, using: key)
    case "HS512": HMAC<SHA512>.isValidAuthenticationCode(signature, authenticating: input, using: key)
    default: false
    }
  }

  /// Whether `aud` names one of these (RFC 7519 §4.1.3).
  func audience(isOneOf names: [String]) -> Bool {
    switch claims["aud"] {
    case .string(let name): names.contains(name)
    case .array(let all): all.contains { $0.string.map(names.contains) ?? false }
    default: false
    }
  }
}

/// The public half of a key pair, from its JWK (RFC 7517, RFC 7518 §6, RFC 8037).
enum VerifyingKey {
  case rsa(_RSA.Signing.PublicKey)
  case p256(P256.Signing.PublicKey)
  case p384(P384.Signing.PublicKey)
  case p521(P521.Signing.PublicKey)
  case ed25519(Curve25519.Signing.PublicKey)

  init?(_ jwk: DemoServer.JSON) {
    func bytes(_ member: String) -> Data? { jwk[member]?.string.flatMap { Base64URL.decode($0) } }
    let key: Self?
    switch (jwk["kty"], jwk["crv"]) {
    case ("RSA", _):
      guard let n = bytes("n"), let e = bytes("e") else { return nil }
      key = (try? _RSA.Signing.PublicKey(n: n, e: e)).map(Self.rsa)
    case ("EC", let curve?):
      guard let x = bytes("x"), let y = bytes("y") else { return nil }
      key = Self.elliptic(curve, point: [4] + x + y)
    case ("OKP", "Ed25519"):
      guard let x = bytes("x") else { return nil }
      key = (try? Curve25519.Signing.PublicKey(rawRepresentation: x)).map(Self.ed25519)
    default: return nil
    }
    guard let key else { return nil }
    self = key
  }

  private static func elliptic(_ curve: DemoServer.JSON, point: Data) -> Self? {
    switch curve {
    case "P-256": (try? P256.Signing.PublicKey(x963Representation: point)).map(Self.p256)
    case "P-384": (try? P384.Signing.PublicKey(x963Representation: point)).map(Self.p384)
    case "P-521": (try? P521.Signing.PublicKey(x963Representation: point)).map(Self.p521)
    default: nil
    }
  }

  func verifies(_ signature: Data, of input: Data, algorithm: String) -> Bool {
    switch (self, algorithm) {
    case (.rsa(let key), _): Self.verifies(signature, of: input, algorithm, key)
    case (.p256(let key), "ES256"):
      (try? P256.Signing.ECDSASignature(rawRepresentation: signature)).map {
        key.isValidSignature($0, for: input)
      } ?? false
    case (.p384(let key), "ES384"):
      (try? P384.Signing.ECDSASignature(rawRepresentation: signature)).map {
        key.isValidSignature($0, for: input)
      } ?? false
    case (.p521(let key), "ES512"):
      (try? P521.Signing.ECDSASignature(rawRepresentation: signature)).map {
        key.isValidSignature($0, for: input)
      } ?? false
    case (.ed25519(let key), "EdDSA"), (.ed25519(let key), "Ed25519"): key.isValidSignature(signature, for: input)
    case (.p256, _), (.p384, _), (.p521, _), (.ed25519, _): false
    }
  }

  private static func verifies(
    _ signature: Data, of input: Data, _ algorithm: String, _ key: _RSA.Signing.PublicKey
  ) -> Bool {
    let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
    let padding: _RSA.Signing.Padding = algorithm.hasPrefix("PS") ? .PSS : .insecurePKCS1v1_5
    return switch algorithm {
    case "RS256", "PS256": key.isValidSignature(signature, for: SHA256.hash(data: input), padding: padding)
    case "RS384", "PS384": key.isValidSignature(signature, for: SHA384.hash(data: input), padding: padding)
    case "RS512", "PS512": key.isValidSignature(signature, for: SHA512.hash(data: input), padding: padding)
    default: false
    }
  }
}

/// A JWK's SHA-256 thumbprint (RFC 7638 §3); nil where it is no public key.
func thumbprint(of jwk: DemoServer.JSON) -> String? {
  let members: [String] =
    switch jwk["kty"] {
    case "RSA": ["e", "kty", "n"]
    case "EC": ["crv", "kty", "x", "y"]
    case "OKP": ["crv", "kty", "x"]
    default: []
    }
  let required = members.compactMap { name in jwk[name].map { (name, $0) } }
  guard !members.isEmpty, required.count == members.count else { return nil }
  let text = DemoServer.JSON.object(Dictionary(uniqueKeysWithValues: required)).text
  return Base64URL.encode(SHA256.hash(data: Data(text.utf8)))
}
