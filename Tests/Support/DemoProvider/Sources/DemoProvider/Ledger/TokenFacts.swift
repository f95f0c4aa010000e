import Crypto
import Foundation

extension Ledger {
  /// What is known of a token, for tests that ask whether a grant was lost: which grant it is of, whether it would be
  /// taken now, whether it is the newest, and, of a refresh token, whether it was used up by the grant's last rotation.
  func facts(of text: String, at now: Date) -> DemoServer.JSON {
    if let token = accessTokens[text], let grant = grants[token.grant] {
      return [
        "kind": "access", "grant": .int(grant.id), "user": .string(grant.approved.name),
        "live": .bool(access(text, at: now) != nil), "current": .bool(grant.currentAccessToken == text),
        "ended": grant.ended.map { .string($0) } ?? .null,
      ]
    }
    if let token = refreshTokens[text], let grant = grants[token.grant] {
      return [
        "kind": "refresh", "grant": .int(grant.id), "user": .string(grant.approved.name),
        "live": .bool(refreshable(text, at: now) != nil), "current": .bool(grant.currentRefreshToken == text),
        "rotated_last": .bool(token.rotated != nil && grant.previousRefreshToken == text),
        "ended": grant.ended.map { .string($0) } ?? .null,
      ]
    }
    return ["kind": "unknown"]
  }

  /// The refresh token with this SHA-256 in base64url: what a client notes of it where it must not keep it in the clear.
  func refreshToken(fingerprint: String) -> String? {
    refreshTokens.keys.first { Base64URL.encode(SHA256.hash(data: Data($0.utf8))) == fingerprint }
  }
}
