/// Why an ID token was rejected (OpenID Connect Core §3.1.3.7). Texts from the token are limited in length and escaped.
public enum IDTokenError: Error, Sendable, Equatable {
  /// The reason is the same for any signed JWT.
  case token(JWTError)
  /// Five segments: a JWE (RFC 7516 §7.1).
  case encrypted
  case untrustedAudience(String)
  case wrongAuthorizedParty(String?)
  case missingNonce
  case wrongNonce
  case unexpectedNonce
  case wrongAccessTokenHash
  case wrongCodeHash
  case missingAuthTime
  case authenticatedTooLongAgo(by: Duration)
  /// After a refresh the named claim identifies another user or client than before (OpenID Connect Core §12.2).
  case changed(claim: String)
  /// A refreshed token was issued before the previous one (OpenID Connect Core §12.2).
  case issuedBeforePrevious
}

extension IDTokenError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .token(let error): error.description(of: "the ID token")
    case .encrypted:
      "the ID token is encrypted (JWE); remove id_token_encrypted_response_alg from the client at the provider"
    case .untrustedAudience(let name): "the ID token is also for “\(name)”, which is not a trusted audience"
    case .wrongAuthorizedParty(let found):
      found.map { "the ID token was issued to “\($0)” (azp), not to this client; check client_id" }
        ?? "the ID token has several audiences and does not say (azp) that it was issued to this client"
    case .missingNonce: "the ID token has no nonce, though one was sent; sign in again"
    case .wrongNonce: "the ID token belongs to another login (nonce); sign in again"
    case .unexpectedNonce: "the ID token has a nonce, though none was sent; sign in again"
    case .wrongAccessTokenHash: "the access token is not the one that the ID token came with (at_hash); sign in again"
    case .wrongCodeHash: "the code is not the one that the ID token came with (c_hash); sign in again"
    case .missingAuthTime: "the ID token has no time of the sign-in (auth_time), which was requested"
    case .authenticatedTooLongAgo(let by):
      "the sign-in was \(JWTError.seconds(by)) s longer ago than permitted; sign in again with prompt=login"
    case .changed(let claim):
      "after a refresh the ID token's \(claim) is another than before; the account must be signed in again"
    case .issuedBeforePrevious: "the ID token of a refresh was issued before the previous one (iat)"
    }
  }
}
