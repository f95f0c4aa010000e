import Crypto
import CryptoExtras
import DemoProvider
import Foundation

/// A client's key pair: it signs assertions, request objects and proofs.
struct TestKey: Sendable {
  private let key = P256.Signing.PrivateKey()

  var jwk: DemoServer.JSON {
    let point = key.publicKey.rawRepresentation
    return [
      "kty": "EC", "crv": "P-256", "x": .string(JWT.text(point.prefix(point.count / 2))),
      "y": .string(JWT.text(point.suffix(point.count / 2))),
    ]
  }

  /// A compact JWS; `header` over its members, null removes.
  func jwt(_ claims: [String: DemoServer.JSON], header changes: [String: DemoServer.JSON] = [:]) -> String {
    var header: [String: DemoServer.JSON] = ["alg": "ES256", "typ": "JWT"]
    for (name, value) in changes { header[name] = value == .null ? nil : value }
    let members = claims.filter { $0.value != .null }
    let input = [header, members].map { JWT.text(Data(DemoServer.JSON.object($0).text.utf8)) }.joined(separator: ".")
    let signature = try? key.signature(for: Data(input.utf8)).rawRepresentation
    return "\(input).\(JWT.text(signature ?? Data()))"
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

  /// Whether a published key verifies a token of the server (RS256).
  static func verifies(_ token: String, by keys: [DemoServer.JSON]) -> Bool {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard let header = JWT.part(0, of: token), header["alg"] == "RS256", parts.count == 3,
      let signature = JWT.bytes(parts[2])
    else { return false }
    let input = Data("\(parts[0]).\(parts[1])".utf8)
    return keys.filter { $0["kid"] == header["kid"] && $0["kty"] == "RSA" }.contains { key in
      func bytes(_ member: String) -> Data { JWT.bytes(key[member]?.string ?? "") ?? Data() }
      guard let known = try? _RSA.Signing.PublicKey(n: bytes("n"), e: bytes("e")) else { return false }
      return known.isValidSignature(
        _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: input),
        padding: .insecurePKCS1v1_5)
    }
  }
}

extension JWT {
  /// Unpadded base64url.
  static func text(_ data: some DataProtocol) -> String {
    Data(data).base64EncodedString()
      .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
}

extension DemoServer.JSON {
  /// These members and others over them.
  func merging(_ others: [String: Self]) -> Self {
    guard case .object(let members) = self else { return self }
    return .object(members.merging(others) { $1 })
  }
}
