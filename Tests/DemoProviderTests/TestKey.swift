import Crypto
import CryptoExtras
import DemoProvider
import Foundation

/// A client's key pair, or its secret: it signs assertions, request objects and proofs.
struct TestKey: Sendable {
  var algorithm: String
  var jwk: DemoServer.JSON
  private var sign: @Sendable (Data) throws -> Data

  static func es256() -> Self {
    let key = P256.Signing.PrivateKey()
    let point = key.publicKey.rawRepresentation
    return Self(algorithm: "ES256", jwk: elliptic("P-256", point)) { try key.signature(for: $0).rawRepresentation }
  }

  static func es384() -> Self {
    let key = P384.Signing.PrivateKey()
    let point = key.publicKey.rawRepresentation
    return Self(algorithm: "ES384", jwk: elliptic("P-384", point)) { try key.signature(for: $0).rawRepresentation }
  }

  static func edDSA() -> Self {
    let key = Curve25519.Signing.PrivateKey()
    let x = JWT.text(key.publicKey.rawRepresentation)
    return Self(algorithm: "EdDSA", jwk: ["kty": "OKP", "crv": "Ed25519", "x": .string(x)]) {
      try key.signature(for: $0)
    }
  }

  static func rsa(_ algorithm: String) throws -> Self {
    let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
    let numbers = try key.publicKey.getKeyPrimitives()
    let jwk: DemoServer.JSON = [
      "kty": "RSA", "n": .string(JWT.text(numbers.modulus)), "e": .string(JWT.text(numbers.publicExponent)),
    ]
    let padding: _RSA.Signing.Padding = algorithm.hasPrefix("PS") ? .PSS : .insecurePKCS1v1_5
    return Self(algorithm: algorithm, jwk: jwk) { input in
      switch algorithm.suffix(3) {
      case "384": try key.signature(for: SHA384.hash(data: input), padding: padding).rawRepresentation
      case "512": try key.signature(for: SHA512.hash(data: input), padding: padding).rawRepresentation
      default: try key.signature(for: SHA256.hash(data: input), padding: padding).rawRepresentation
      }
    }
  }

  static func secret(_ secret: String) -> Self {
    let key = SymmetricKey(data: Data(secret.utf8))
    return Self(algorithm: "HS256", jwk: ["kty": "oct"]) {
      Data(HMAC<SHA256>.authenticationCode(for: $0, using: key))
    }
  }

  private static func elliptic(_ curve: String, _ point: Data) -> DemoServer.JSON {
    [
      "kty": "EC", "crv": .string(curve), "x": .string(JWT.text(point.prefix(point.count / 2))),
      "y": .string(JWT.text(point.suffix(point.count / 2))),
    ]
  }

  private init(algorithm: String, jwk: DemoServer.JSON, sign: @escaping @Sendable (Data) throws -> Data) {
    self.algorithm = algorithm
    self.jwk = jwk
    self.sign = sign
  }

  /// A compact JWS; `header` over its members, null removes.
  func jwt(_ claims: [String: DemoServer.JSON], header changes: [String: DemoServer.JSON] = [:]) -> String {
    var header: [String: DemoServer.JSON] = ["alg": .string(algorithm), "typ": "JWT"]
    for (name, value) in changes { header[name] = value == .null ? nil : value }
    let members = claims.filter { $0.value != .null }
    let input = [header, members].map { JWT.text(Data(DemoServer.JSON.object($0).text.utf8)) }.joined(separator: ".")
    return "\(input).\(JWT.text((try? sign(Data(input.utf8))) ?? Data()))"
  }

  /// A client assertion for `client` (RFC 7523 §3); `changes` over its claims, null removes.
  func assertion(
    of client: String, for audience: String, _ changes: [String: DemoServer.JSON] = [:]
  ) -> [String: String] {
    let time = Int(TestClock.now.timeIntervalSince1970)
    let claims: [String: DemoServer.JSON] = [
      "iss": .string(client), "sub": .string(client), "aud": .string(audience), "iat": .int(time),
      "exp": .int(time + 60), "jti": .string(UUID().uuidString),
    ]
    return [
      "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      "client_assertion": jwt(claims.merging(changes) { $1 }),
    ]
  }

  /// A DPoP proof (RFC 9449 §4.2); `changes` over its claims, null removes.
  func proof(
    _ method: String, _ url: String, token: String? = nil, nonce: String? = nil,
    _ changes: [String: DemoServer.JSON] = [:], header: [String: DemoServer.JSON] = [:]
  ) -> [String: String] {
    let hash = token.map { JWT.text(Data(SHA256.hash(data: Data($0.utf8)))) }
    let claims: [String: DemoServer.JSON] = [
      "htm": .string(method), "htu": .string(url), "iat": .int(Int(TestClock.now.timeIntervalSince1970)),
      "jti": .string(UUID().uuidString), "ath": hash.map { .string($0) } ?? .null,
      "nonce": nonce.map { .string($0) } ?? .null,
    ]
    let proofHeader: [String: DemoServer.JSON] = ["typ": "dpop+jwt", "jwk": jwk]
    return ["DPoP": jwt(claims.merging(changes) { $1 }, header: proofHeader.merging(header) { $1 })]
  }

  /// Whether a published key verifies a token of the server.
  static func verifies(_ token: String, by keys: [DemoServer.JSON]) -> Bool {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard let header = JWT.part(0, of: token), parts.count == 3, let signature = JWT.bytes(parts[2]) else {
      return false
    }
    let input = Data("\(parts[0]).\(parts[1])".utf8)
    return keys.filter { $0["kid"] == header["kid"] }.contains { key in
      func bytes(_ member: String) -> Data { JWT.bytes(key[member]?.string ?? "") ?? Data() }
      switch (header["alg"], key["kty"]) {
      case ("ES256", "EC"):
        guard let known = try? P256.Signing.PublicKey(rawRepresentation: bytes("x") + bytes("y")),
          let signed = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
        else { return false }
        return known.isValidSignature(signed, for: input)
      case ("ES384", "EC"):
        guard let known = try? P384.Signing.PublicKey(rawRepresentation: bytes("x") + bytes("y")),
          let signed = try? P384.Signing.ECDSASignature(rawRepresentation: signature)
        else { return false }
        return known.isValidSignature(signed, for: input)
      case ("EdDSA", "OKP"):
        return (try? Curve25519.Signing.PublicKey(rawRepresentation: bytes("x")))?
          .isValidSignature(signature, for: input) ?? false
      case ("RS256", "RSA"), ("RS512", "RSA"), ("PS256", "RSA"):
        guard let known = try? _RSA.Signing.PublicKey(n: bytes("n"), e: bytes("e")) else { return false }
        let signed = _RSA.Signing.RSASignature(rawRepresentation: signature)
        let padding: _RSA.Signing.Padding = header["alg"] == "PS256" ? .PSS : .insecurePKCS1v1_5
        return header["alg"] == "RS512"
          ? known.isValidSignature(signed, for: SHA512.hash(data: input), padding: padding)
          : known.isValidSignature(signed, for: SHA256.hash(data: input), padding: padding)
      default: return false
      }
    }
  }
}

extension JWT {
  /// Unpadded base64url.
  static func text(_ data: some DataProtocol) -> String {
    Data(data).base64EncodedString()
      .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }

  /// The left half of a text's SHA-256 (OIDC Core §3.1.3.6).
  static func half(of text: String) -> Data {
    Data(SHA256.hash(data: Data(text.utf8)).prefix(16))
  }
}

extension DemoServer.JSON {
  /// These members and others over them.
  func merging(_ others: [String: Self]) -> Self {
    guard case .object(let members) = self else { return self }
    return .object(members.merging(others) { $1 })
  }
}
