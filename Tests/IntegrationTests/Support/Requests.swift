import AsyncClient
import BrokerAPI
import Crypto
import CryptoExtras
import DemoProvider
import Foundation
import NIOHTTP1
import TestHTTP
import TestSupport

/// A client's key pair: the private half in a file for the broker, the public half for the provider.
final class ClientKeyPair: Sendable {
  enum Kind: Sendable {
    case p256, rsa, ed25519
  }

  let path: String
  let publicJWK: DemoServer.JSON
  private let folder: Folder

  init(_ kind: Kind = .p256) throws {
    folder = try Folder()
    var members = ["kid": "client-key"]
    var own: String?
    switch kind {
    case .p256:
      let key = P256.Signing.PrivateKey()
      let point = key.publicKey.rawRepresentation
      (members["kty"], members["crv"], members["alg"]) = ("EC", "P-256", "ES256")
      (members["x"], members["y"]) = (Self.text(point.prefix(32)), Self.text(point.suffix(32)))
      own = Self.text(key.rawRepresentation)
    case .ed25519:
      let key = Curve25519.Signing.PrivateKey()
      (members["kty"], members["crv"]) = ("OKP", "Ed25519")
      members["x"] = Self.text(key.publicKey.rawRepresentation)
      own = Self.text(key.rawRepresentation)
    case .rsa:
      let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
      let numbers = try key.publicKey.getKeyPrimitives()
      members["kty"] = "RSA"
      (members["n"], members["e"]) = (Self.text(numbers.modulus), Self.text(numbers.publicExponent))
      try folder.write(key.pemRepresentation, to: "key")
    }
    publicJWK = Self.jwk(members)
    members["d"] = own
    if own != nil { try folder.write(Self.jwk(members).text, to: "key") }
    path = folder.path("key")
  }

  private static func jwk(_ members: [String: String]) -> DemoServer.JSON { .object(members.mapValues { .string($0) }) }

  private static func text(_ bytes: Data) -> String { bytes.base64URLText }
}

extension Data {
  /// Unpadded base64url (RFC 4648 §5).
  var base64URLText: String {
    base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }

  init?(base64URLText text: some StringProtocol) {
    let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    self.init(base64Encoded: String(text).replacing("-", with: "+").replacing("_", with: "/") + padding)
  }
}

/// A part of a compact JWT, unverified: 0 the header, 1 the claims.
func jwtPart(_ part: Int, of compact: String) -> DemoServer.JSON? {
  let parts = compact.split(separator: ".", omittingEmptySubsequences: false)
  guard parts.count == 3, let bytes = Data(base64URLText: parts[part]) else { return nil }
  return DemoServer.JSON(text: String(decoding: bytes, as: UTF8.self))
}

/// What the provider's protected resource says to a program.
struct ResourceAnswer: Sendable {
  var status: Int
  /// The nonce for the next proof (RFC 9449 §9).
  var nonce: String?
  var body: DemoServer.JSON?

  var scopes: Set<String> { Set((body?["scope"]?.string ?? "").split(separator: " ").map(String.init)) }

  /// Asks with a bearer token, or with one that a proof goes along with.
  static func get(
    _ server: DemoServer, token: String, proof: String? = nil, query: String = ""
  ) async throws -> ResourceAnswer {
    var request = TestRequest(.GET, "\(server.issuer)/resource\(query)")
    request.headers.add(name: "Authorization", value: "\(proof == nil ? "Bearer" : "DPoP") \(token)")
    if let proof { request.headers.add(name: "DPoP", value: proof) }
    let answer = try await request.send()
    return ResourceAnswer(
      status: answer.status, nonce: answer.headers.first(name: "DPoP-Nonce"),
      body: answer.body.flatMap { DemoServer.JSON(text: $0) })
  }
}

extension Rig {
  /// A token for fewer scopes or another resource.
  func narrowed(
    _ account: String = "alice", scopes: [String]? = nil, resource: String? = nil, timeout: Double? = nil
  ) async throws -> Token {
    try Token(
      try await client.call(
        TokenGet.self, .init(account: account, scopes: scopes, resource: resource, timeout: timeout),
        timeout: .seconds(60)))
  }

  /// Reports a token as refused by a resource server; the generation that is current then.
  @discardableResult
  func reject(_ generation: Int64, of account: String = "alice") async throws -> TokenReportRejected.Result {
    try await client.call(
      TokenReportRejected.self, .init(account: account, generation: generation), timeout: .seconds(60))
  }

  /// What the provider's protected resource says to an account that is declared.
  func answer(_ account: String = "robot") async throws -> ResourceAnswer {
    try await ResourceAnswer.get(demo, token: try await token(account).access_token)
  }

  func hasToken(_ account: String) async throws {
    try await eventually("\(account) has a token") { (try? await self.token(account)) != nil }
  }

  /// How many requests have come to an endpoint of the provider.
  func count(_ place: DemoServer.Fault.Place) -> Int { demo.stats().requests[place.rawValue] ?? 0 }

  /// The requests that came to an endpoint of the provider.
  func requests(_ place: DemoServer.Fault.Place) -> [DemoServer.SeenRequest] {
    demo.requests.filter { $0.place == place }
  }

  /// The logins that wait for a user.
  var pendingLogins: Int {
    get async throws { try await call("login.list")["logins"]?.array?.count ?? 0 }
  }

  /// A proof of the account's key for one request to the provider's protected resource.
  func proof(
    for token: Token? = nil, method: String = "GET", query: String = "", nonce: String? = nil
  ) async throws -> DPoPProof.Result {
    try await client.call(
      DPoPProof.self,
      .init(
        account: "alice", method: method, url: "\(demo.issuer)/resource\(query)", nonce: nonce,
        access_token: token.map { .init($0.access_token) }),
      timeout: .seconds(30))
  }
}

extension Wish {
  /// Tokens are bound to a key.
  static let bound = Wish { $0.provider = "dpop = true" }
}
