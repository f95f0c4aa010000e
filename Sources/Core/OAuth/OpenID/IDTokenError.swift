/// Why an ID token was rejected (OpenID Connect Core §3.1.3.7). Texts from the token are limited in length and escaped.
public enum IDTokenError: Error, Sendable, Equatable {
  case tooLarge
  case malformed(String)
  /// Five segments: a JWE (RFC 7516 §7.1).
  case encrypted
  /// A critical header parameter that is not supported (RFC 7515 §4.1.11).
  case criticalHeader
  /// `alg: none`.
  case unsigned
  case algorithmNotAllowed(String)
  /// No published key fits. Fetch the keys again once and retry.
  case unknownKey(kid: String?)
  case badSignature
  case wrongIssuer(expected: String, found: String)
  case wrongAudience
  case untrustedAudience(String)
  case wrongAuthorizedParty(String?)
  case expired(by: Duration)
  case notYetValid(by: Duration)
  case issuedInFuture(by: Duration)
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

extension IDTokenError {
  /// Translates the errors of any JWT.
  init(_ error: JWTError) {
    self =
      switch error {
      case .tooLarge: .tooLarge
      case .malformed(let what): .malformed(what)
      case .criticalHeader: .criticalHeader
      case .unsigned: .unsigned
      case .algorithmNotAllowed(let name): .algorithmNotAllowed(name)
      case .unknownKey(let kid): .unknownKey(kid: kid)
      case .badSignature: .badSignature
      case .wrongIssuer(let expected, let found): .wrongIssuer(expected: expected, found: found)
      case .wrongAudience: .wrongAudience
      case .expired(let by): .expired(by: by)
      case .notYetValid(let by): .notYetValid(by: by)
      case .issuedInFuture(let by): .issuedInFuture(by: by)
      }
  }
}

extension IDTokenError: CustomStringConvertible {
  private static let noun = "the ID token"

  public var description: String {
    switch self {
    case .tooLarge: JWTError.tooLarge.description(of: Self.noun)
    case .malformed(let what): JWTError.malformed(what).description(of: Self.noun)
    case .encrypted:
      "the ID token is encrypted (JWE); remove id_token_encrypted_response_alg from the client at the provider"
    case .criticalHeader: JWTError.criticalHeader.description(of: Self.noun)
    case .unsigned: JWTError.unsigned.description(of: Self.noun)
    case .algorithmNotAllowed(let name): JWTError.algorithmNotAllowed(name).description(of: Self.noun)
    case .unknownKey(let kid): JWTError.unknownKey(kid: kid).description(of: Self.noun)
    case .badSignature: JWTError.badSignature.description(of: Self.noun)
    case .wrongIssuer(let expected, let found):
      JWTError.wrongIssuer(expected: expected, found: found).description(of: Self.noun)
    case .wrongAudience: JWTError.wrongAudience.description(of: Self.noun)
    case .expired(let by): JWTError.expired(by: by).description(of: Self.noun)
    case .notYetValid(let by): JWTError.notYetValid(by: by).description(of: Self.noun)
    case .issuedInFuture(let by): JWTError.issuedInFuture(by: by).description(of: Self.noun)
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
