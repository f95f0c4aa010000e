import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import OAuth

@Suite("Signing key")
struct SigningKeyTests {
  /// What a token of the key says, once its signature is verified with the published half.
  func verified(_ key: SigningKey, secret: Secret? = nil) throws -> [String: JSON] {
    let compact = try key.sign(type: "JWT", header: ["x": .number("1")], claims: ["a": .string("b")])
    let token = try SignedJWT.parse(compact)
    let keys = JWKSet(
      Data(JSON.object(["keys": .array([.object(key.publicJWK ?? [:])])]).serialized(sorted: true)))
    let algorithm = try token.verifySignature(
      algorithms: [key.algorithm.rawValue], clientSecret: secret, keys: try #require(keys))
    #expect(algorithm == key.algorithm && token.kid == key.kid && token.type == "JWT")
    return token.claims
  }

  /// A text that a table of tests names by its beginning alone, since it may be a key.
  struct Text: Sendable, CustomTestStringConvertible, ExpressibleByStringLiteral {
    var text: String
    init(_ text: String) { self.text = text }
    init(_ text: Secret) { self.text = text.exposed }
    init(stringLiteral text: String) { self.text = text }
    var testDescription: String { String(text.prefix(40)) }
  }

  @Test(
    "a key is read as OpenSSL writes it, and signs by the algorithm of its kind",
    arguments: [
      (Text(KeyFiles.ec256), "ES256"), (Text(KeyFiles.ec384), "ES384"), (Text(KeyFiles.ec521), "ES512"),
      (Text(KeyFiles.ed25519), "EdDSA"), (Text(KeyFiles.ed25519Long), "EdDSA"),
      (Text(Keys.rsa.pemRepresentation), "RS256"), (Text(Keys.rsa.pkcs8PEMRepresentation), "RS256"),
      (Text(Keys.p256.pemRepresentation), "ES256"),
      (Text("Bag Attributes\n  friendlyName: x\n" + KeyFiles.ed25519 + "\ntrailing\n"), "EdDSA"),
      (Text(KeyFiles.ed25519.replacingOccurrences(of: "\n", with: "\r\n")), "EdDSA"),
      (Text("\u{feff}" + KeyFiles.ed25519), "EdDSA"), (Text(KeyFiles.jwk(KeyFiles.rsa)), "PS384"),
      (Text(KeyFiles.jwk(KeyFiles.okp)), "EdDSA"),
    ])
  func kinds(file: Text, algorithm: String) throws {
    let key = try KeyFiles.read(file.text)
    #expect(key.algorithm.rawValue == algorithm && key.kid == "k1")
    #expect(try verified(key) == ["a": .string("b")])
    #expect(key.publicJWK?["d"] == nil && key.publicJWK?["kid"] == .string("k1"))
    let same = try KeyFiles.read(file.text)
    let renamed = try SigningKey.parse(Secret(file.text), algorithm: nil, kid: "k2")
    #expect(key == same && key != renamed)
  }

  @Test(
    "each algorithm's signature passes its own verification",
    arguments: ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"])
  func algorithms(name: String) throws {
    let files = ["ES256": KeyFiles.ec256, "ES384": KeyFiles.ec384, "ES512": KeyFiles.ec521]
    let rsa = name.hasPrefix("R") || name.hasPrefix("P") ? Keys.rsa.pemRepresentation : KeyFiles.ed25519
    let key = try SigningKey.parse(
      Secret(files[name] ?? rsa), algorithm: SignatureAlgorithm(rawValue: name), kid: nil)
    #expect(key.algorithm.rawValue == name)
    #expect(try verified(key) == ["a": .string("b")])
  }

  @Test("a client secret signs by HMAC with all its bytes", arguments: ["HS256", "HS384", "HS512"])
  func shared(name: String) throws {
    let secret = Secret("sécret, with spaces & more")
    let key = try SigningKey.shared(secret, algorithm: try #require(SignatureAlgorithm(rawValue: name)))
    #expect(key.publicJWK == nil)
    #expect(try verified(key, secret: secret) == ["a": .string("b")])
    #expect(throws: JWTError.badSignature) { try verified(key, secret: Secret("another")) }
    #expect(throws: JWTError.algorithmNotAllowed(name)) { try verified(key, secret: nil) }
    #expect(throws: SigningKeyError.emptySecret) { try SigningKey.shared(Secret(""), algorithm: .hs256) }
    let another = try SigningKey.shared(Secret("another"), algorithm: key.algorithm)
    #expect(key != another)
    #expect(throws: SigningKeyError.wrongAlgorithm("RS256", key: "a client secret")) {
      try SigningKey.shared(secret, algorithm: .rs256)
    }
  }

  @Test("the JWK's own kid and alg are used, unless others are asked for")
  func jwkNames() throws {
    let text = KeyFiles.jwk(KeyFiles.rsa)
    let own = try SigningKey.parse(text, algorithm: nil, kid: nil)
    #expect(own.kid == "rsa-1" && own.algorithm == .ps384)
    let other = try SigningKey.parse(text, algorithm: .rs512, kid: "mine")
    #expect(other.kid == "mine" && other.algorithm == .rs512)
  }

  @Test("the thumbprint of RFC 8037 appendix A.3")
  func thumbprint() throws {
    let key = try SigningKey.parse(KeyFiles.jwk(KeyFiles.okp), algorithm: nil, kid: nil)
    let members = JSON.object(try #require(key.material.publicMembers)).text(sorted: true)
    #expect(base64URL(SHA256.hash(data: Data(members.utf8))) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
  }

  @Test(
    "an algorithm is one of the key's kind",
    arguments: [
      (Text(KeyFiles.ec256), SignatureAlgorithm.es384), (Text(KeyFiles.ec256), .rs256),
      (Text(KeyFiles.ed25519), .es256), (Text(KeyFiles.ed25519), .hs256),
    ])
  func wrongAlgorithm(file: Text, algorithm: SignatureAlgorithm) {
    let error = thrown { () throws(SigningKeyError) in
      _ = try SigningKey.parse(Secret(file.text), algorithm: algorithm, kid: nil)
    }
    guard case .wrongAlgorithm(algorithm.rawValue, _)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test("a weak RSA key is refused, in PEM and as a JWK, and so is a passphrase and a public key")
  func refused() throws {
    let weak = try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: 1024))
    #expect(throws: SigningKeyError.weak(bits: 1024)) { try KeyFiles.read(weak.pemRepresentation) }
    let small = KeyFiles.jwk(KeyFiles.rsa, ["n": .string(base64URL(Array(repeating: 0xff, count: 128)))])
    #expect(throws: SigningKeyError.weak(bits: 1024)) { try KeyFiles.read(small.exposed) }
    #expect(throws: SigningKeyError.encrypted) { try KeyFiles.read(KeyFiles.encrypted) }
    #expect(throws: SigningKeyError.encrypted) { try KeyFiles.read(KeyFiles.encryptedTraditional) }
    #expect(throws: SigningKeyError.publicKeyOnly) { try KeyFiles.read(KeyFiles.publicKey) }
    #expect(throws: SigningKeyError.publicKeyOnly) { try KeyFiles.read(Keys.jwk("ES256")) }
    #expect(throws: SigningKeyError.tooLarge) { try KeyFiles.read(String(repeating: " ", count: 65 << 10)) }
    let strange = KeyFiles.jwk(KeyFiles.rsa, ["alg": .string("RSA-OAEP")])
    #expect(throws: SigningKeyError.unknownAlgorithm("RSA-OAEP")) { try KeyFiles.read(strange.exposed) }
  }

  static let half = base64URL(Array(repeating: 0x81, count: 128))

  @Test(
    "a text that is not a key is refused, and the message never contains the key",
    arguments: [
      "", "\n \n", "garbage", "-----BEGIN PRIVATE KEY-----", "-----BEGIN -----",
      "-----BEGIN PRIVATE KEY-----\nAAAA", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----",
      "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----",
      "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----",
      "-----BEGIN RSA PRIVATE KEY-----\nMAA=\n-----END RSA PRIVATE KEY-----",
      "-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----",
      Text(KeyFiles.secp256k1), Text(KeyFiles.secp256k1SEC1), Text(KeyFiles.ed448),
      Text(KeyFiles.ed25519.replacingOccurrences(of: "NTuc", with: "")),
      "{", "{}", #"{"keys":[]}"#, #"{"kty":"oct","k":"AAAA"}"#, #"{"kty":"EC","crv":"P-256","d":"AAAA"}"#,
      #"{"kty":7,"d":"AAAA"}"#, Text(KeyFiles.jwk(KeyFiles.okp, ["x": .string("AAAA")])),
      Text(KeyFiles.jwk(KeyFiles.okp, ["d": .string("a=b")])), Text(KeyFiles.jwk(KeyFiles.okp, ["x": nil])),
      Text(KeyFiles.jwk(KeyFiles.okp, ["crv": .string("X25519")])), Text(KeyFiles.jwk(KeyFiles.rsa, ["p": nil])),
      Text(KeyFiles.jwk(KeyFiles.rsa, ["oth": .array([])])), Text(KeyFiles.jwk(KeyFiles.rsa, ["p": .string("AA")])),
      Text(KeyFiles.jwk(KeyFiles.rsa, ["p": .string(half), "q": .string(half)])),
      Text(KeyFiles.jwk(KeyFiles.rsa, ["d": .string("AQ")])), Text(KeyFiles.jwk(KeyFiles.rsa, ["e": .string("AA")])),
      Text(KeyFiles.jwk(KeyFiles.rsa, ["n": .string(base64URL(Array(repeating: 0xff, count: 4096)))])),
    ] as [Text])
  func unreadable(file: Text) throws {
    let text = file.text
    let error = thrown { () throws(SigningKeyError) in _ = try KeyFiles.read(text) }
    guard case .unreadable? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    let inside = text.split(whereSeparator: \.isNewline).map(String.init).filter { $0.utf8.count > 40 }
    #expect(!inside.contains { "\(error as Any)".contains($0) })
  }

  @Test("noise is never a key, and never traps")
  func noise() {
    var generator = Seeded(state: 3)
    let files = [KeyFiles.ec256, KeyFiles.ec384, KeyFiles.ed25519, KeyFiles.jwk(KeyFiles.okp).exposed]
    for round in 0..<400 {
      var bytes = Array(files[round % files.count].utf8)
      for _ in 0..<Int.random(in: 1...6, using: &generator) {
        bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...127, using: &generator)
      }
      guard let key = try? KeyFiles.read(String(decoding: bytes, as: UTF8.self)) else { continue }
      // A change in the key's own number makes another key, which must still be one.
      #expect(throws: Never.self) { try verified(key) }
    }
  }

  @Test("further header members never replace the key's own")
  func header() throws {
    let key = try KeyFiles.read(KeyFiles.ed25519)
    let extra: [String: JSON] = ["alg": .string("none"), "kid": .string("x"), "typ": .string("y"), "z": .bool(true)]
    let compact = try key.sign(type: "t", header: extra, claims: [:]).exposed
    let header = decodeBase64URL(compact.split(separator: ".")[0]).flatMap { JSON(message: $0)?.dictionary }
    #expect(
      header == ["alg": .string("EdDSA"), "kid": .string("k1"), "typ": .string("t"), "z": .bool(true)])
  }
}
