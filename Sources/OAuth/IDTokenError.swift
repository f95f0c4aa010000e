/// Why an ID token is not taken (OpenID Connect Core §3.1.3.7). Texts from the token are bounded and escaped.
public enum IDTokenError: Error, Sendable, Equatable {
  case tooLarge
  case malformed(String)
  /// A header parameter that must be understood, and is not (RFC 7515 §4.1.11).
  case criticalHeader
  /// `alg: none`.
  case unsigned
  case algorithmNotAllowed(String)
  /// No published key fits. Fetch the keys again once, and verify again.
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
  /// After a refresh, another person or client than before, in the named claim (OpenID Connect Core §12.2).
  case changed(claim: String)
}

extension IDTokenError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .tooLarge: "the ID token is larger than \(IDToken.maximumBytes) bytes"
    case .malformed(let what): "the ID token is malformed: \(what); report it to the provider"
    case .criticalHeader: "the ID token asks for an extension (crit) that is not understood"
    case .unsigned: "the ID token is not signed; choose a signature algorithm in the client's registration"
    case .algorithmNotAllowed(let name):
      "the ID token is signed with \(name), which is not allowed for this provider; allow it in the configuration, or "
        + "change the client's registration"
    case .unknownKey(let kid):
      "the ID token is signed with a key\(kid.map { " “\($0)”" } ?? "") that the provider does not publish"
    case .badSignature: "the ID token's signature is wrong: it was altered, or another key made it"
    case .wrongIssuer(let expected, let found): "the ID token is from “\(found)”, not from “\(expected)”"
    case .wrongAudience: "the ID token is for another client; check client_id"
    case .untrustedAudience(let name): "the ID token is also for “\(name)”, which is not a trusted audience"
    case .wrongAuthorizedParty(let found):
      found.map { "the ID token was issued to “\($0)” (azp), not to this client; check client_id" }
        ?? "the ID token has several audiences and does not say (azp) that it was issued to this client"
    case .expired(let by):
      "the ID token had expired \(Self.seconds(by)) s before it came: your clock is off by \(Self.seconds(by)) s "
        + "(ahead) or more, or the provider's is behind; set the clock (timedatectl)"
    case .notYetValid(let by), .issuedInFuture(let by):
      "the ID token is from \(Self.seconds(by)) s in the future: your clock is off by \(Self.seconds(by)) s (behind), "
        + "or the provider's is ahead; set the clock (timedatectl)"
    case .missingNonce: "the ID token has no nonce, though one was sent; sign in again"
    case .wrongNonce: "the ID token belongs to another login (nonce); sign in again"
    case .unexpectedNonce: "the ID token has a nonce, though none was sent; sign in again"
    case .wrongAccessTokenHash: "the access token is not the one that the ID token came with (at_hash); sign in again"
    case .wrongCodeHash: "the code is not the one that the ID token came with (c_hash); sign in again"
    case .missingAuthTime: "the ID token does not say when the person signed in (auth_time), which was asked for"
    case .authenticatedTooLongAgo(let by):
      "the person signed in \(Self.seconds(by)) s longer ago than is allowed; sign in again with prompt=login"
    case .changed(let claim):
      "after a refresh the ID token's \(claim) is another than before; the account must be signed in again"
    }
  }

  private static func seconds(_ duration: Duration) -> Int64 { (duration.milliseconds.clampedForDisplay + 999) / 1000 }
}

extension Int64 {
  fileprivate var clampedForDisplay: Int64 { Swift.min(self, .max - 999) }
}
