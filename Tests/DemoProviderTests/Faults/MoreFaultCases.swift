import Crypto
import DemoProvider
import Foundation

extension FaultCase {
  /// Callbacks, claims, keys and the members of answers other than tokens.
  static let more: [FaultCase] = callbacks + claims + others + dropbox

  private static let callbacks: [FaultCase] = [
    .init(.missingState, .authorize) { $0.answer?.callback["code"] != nil && $0.answer?.callback["state"] == nil },
    .init(.wrongState, .authorize, .with { $0.value = "other" }) { $0.answer?.callback["state"] == "other" },
    .init(.missingState, .endSession) { $0.answer?.header("location") == "http://127.0.0.1:1/bye" },
    .init(.wrongState, .endSession) { $0.answer?.callback["state"] == "wrong-state" },
    .init(.tokenInCallback, .authorize) {
      $0.answer?.callback["code"] != nil && $0.answer?.callback["access_token"]?.hasPrefix("at-") == true
    },
  ]

  private static let claims: [FaultCase] = [
    .init(.wrongSubject, .tokenCode) { $0.claims?["sub"] == "sub-somebody" && $0.verified },
    .init(.wrongSubject, .userinfo) { $0.json?["sub"] == "sub-somebody" },
    .init(.expired, .tokenCode) {
      ($0.claims?["exp"]?.number ?? .infinity) < TestClock.now.timeIntervalSince1970 - 3000
    },
    .init(.claimAbsent, .tokenCode) { $0.claims != nil && $0.claims?["at_hash"] == nil },
    .init(.claimAbsent, .tokenRefresh, .with { $0.value = "auth_time" }) {
      $0.claims != nil && $0.claims?["auth_time"] == nil && $0.verified
    },
    .init(.audienceList, .tokenCode) { $0.claims?["aud"] == ["demo"] && $0.verified },
    .init(.audienceShared, .tokenCode) { $0.claims?["aud"] == ["demo", "another-client"] && $0.verified },
    .init(.authTimeZero, .tokenCode) { $0.claims?["auth_time"] == 0 },
    .init(.authTimeFloat, .tokenCode) {
      if case .double? = $0.claims?["auth_time"] { true } else { false }
    },
    .init(.wrongHash, .tokenCode) {
      $0.verified && $0.claims?["at_hash"] != .string(hash(of: Tokens($0.answer).access))
    },
    .init(.algHS256, .tokenCode) { $0.header?["alg"] == "HS256" && !$0.verified },
    .init(.critHeader, .tokenCode) { $0.header?["crit"] == ["exp"] && $0.verified },
  ]

  /// The `at_hash` of a token (OIDC Core §3.1.3.6).
  private static func hash(of token: String) -> String {
    JWT.text(Data(SHA256.hash(data: Data(token.utf8)).prefix(16)))
  }

  private static let others: [FaultCase] = [
    .init(.keysWithoutAlgorithm, .jwks) { firstKey($0)?["alg"] == nil && firstKey($0)?["use"] != nil },
    .init(.keysWithoutUse, .jwks) { firstKey($0)?["use"] == nil && firstKey($0)?["kid"] != nil },
    .init(.keysWithoutIdentifier, .jwks) { firstKey($0)?["kid"] == nil && firstKey($0)?["alg"] != nil },
    .init(.noIDToken, .tokenCode) { $0.committed && $0.json?["id_token"] == nil },
    .init(.noIssuedTokenType, .tokenExchange) {
      $0.json?["access_token"] != nil && $0.json?["issued_token_type"] == nil
    },
    .init(.intervalAbsent, .device) { $0.json?["device_code"] != nil && $0.json?["interval"] == nil },
    .init(.activeString, .introspect) { $0.json?["active"] == "false" },
    .init(.expiresInNegative, .par) { $0.json?["request_uri"] != nil && $0.json?["expires_in"] == -1 },
    .init(.useDPoPNonce, .tokenRefresh) {
      $0.json?["error"] == "use_dpop_nonce" && $0.answer?.header("dpop-nonce") != nil && !$0.committed
    },
    .init(.useDPoPNonce, .userinfo) {
      $0.answer?.status == 401 && $0.answer?.header("www-authenticate")?.contains("use_dpop_nonce") == true
    },
    .init(.status, .revoke, .with { $0.retryAfter = "1" }) {
      $0.answer?.status == 503 && $0.answer?.header("retry-after") == "1"
    },
  ]

  private static func firstKey(_ sight: Sight) -> DemoServer.JSON? {
    guard case .array(let keys)? = sight.json?["keys"] else { return nil }
    return keys.first
  }
}

extension FaultCase {
  private static let dropbox: [FaultCase] = [
    .init(.dropboxError, .resource) {
      $0.answer?.status == 401 && $0.json?["error"]?[".tag"] == "expired_access_token"
    },
    .init(.dropboxError, .revoke, .with { $0.value = "user_suspended" }) {
      $0.answer?.status == 401 && $0.json?["error_summary"] == "user_suspended/.."
    },
    .init(
      .dropboxError, .resource,
      .with {
        $0.value = "too_many_requests"
        $0.seconds = 9
        $0.retryAfter = "9"
      }
    ) {
      $0.answer?.status == 429 && $0.json?["error"]?["retry_after"] == 9 && $0.answer?.header("retry-after") == "9"
    },
  ]
}
