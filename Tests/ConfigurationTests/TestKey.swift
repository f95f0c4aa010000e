import Crypto
import Foundation

/// A private key of this run, in the forms that files have.
enum TestKey {
  static let key = P256.Signing.PrivateKey()
  static let pem = key.pemRepresentation + "\n"
  static let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

  static let jwk = json([
    "kty": "EC", "crv": "P-256", "kid": "of the JWK", "alg": "ES256",
    "x": base64URL(key.publicKey.rawRepresentation.prefix(32)),
    "y": base64URL(key.publicKey.rawRepresentation.suffix(32)), "d": base64URL(key.rawRepresentation),
  ])

  static let googleServiceAccount = json([
    "type": "service_account", "project_id": "project", "private_key_id": "key-1", "private_key": pem,
    "client_email": "robot@project.iam.gserviceaccount.com", "client_id": "1234",
    "token_uri": "https://oauth2.googleapis.com/token",
  ])

  private static func json(_ members: [String: String]) -> String {
    String(decoding: try! JSONEncoder().encode(members), as: UTF8.self)
  }

  private static func base64URL(_ bytes: Data) -> String {
    bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
}
