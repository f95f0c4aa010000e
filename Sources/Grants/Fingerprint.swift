private import Crypto
private import Foundation
public import OAuth

extension Secret {
  /// SHA-256 of the secret in base64url: tells whether two are the same, and nothing else.
  public var fingerprint: String {
    // Exposed to be hashed.
    base64URL(SHA256.hash(data: Data(exposed.utf8)))
  }
}
