public import OAuth

/// What a revocation at a provider ends (RFC 7009 §2.1).
public struct RevocationTraits: Sendable, Equatable {
  public enum Scope: Sendable, Equatable {
    /// One token, and what the server ends with it.
    case token
    /// All that the person gave this client, by an access token alone.
    case client
  }

  public var scope: Scope
  /// A revoked refresh token ends its own grant alone, so a login revokes the one that it replaces. RFC 7009 §2.1 leaves
  /// that to the server, so it has to be known of the provider.
  public var endsReplaced: Bool

  public init(scope: Scope = .token, endsReplaced: Bool = false) {
    self.scope = scope
    // What ends all that the person gave would end the new login too.
    self.endsReplaced = endsReplaced && scope == .token
  }

  /// Whose authorization a revocation ends, kept with it: also what the person gives after it was queued.
  public func owner(of grant: SavedGrant) -> [String: String] {
    switch scope {
    case .token: return [:]
    case .client:
      var owner = ["account": grant.account.rawValue]
      owner["subject"] = grant.identity?.subject
      return owner
    }
  }

  /// Whether a revocation that waits would end a grant that a person has signed in for since.
  public func ends(_ grant: SavedGrant, by revocation: PendingRevocation) -> Bool {
    guard scope == .client, revocation.provider == grant.provider else { return false }
    guard let subject = grant.identity?.subject, let other = revocation.context["subject"] else {
      return revocation.context["account"] == grant.account.rawValue
    }
    return subject == other
  }

  /// The grant's tokens to revoke, in order: the refresh token first, so that it yields no further access token
  /// (RFC 7009 §2.1); where an access token ends everything, that one first, and the refresh token in case it has expired.
  public func tokens(
    of grant: Grant, _ credential: TokenTraits.Credential, at now: Timestamp
  ) -> [(token: Secret, hint: String)] {
    var refreshToken = grant.saved.refreshToken
    if case .committing(_, let renewal) = grant.phase { refreshToken = renewal.grant.refreshToken }
    let living = grant.token.flatMap { token in token.expiresAt.map { $0 > now } ?? true ? token : nil }
    let refresh = refreshToken.map { [(token: $0, hint: "refresh_token")] } ?? []
    let access = living.map { [(token: $0.accessToken, hint: credential.hint)] } ?? []
    return switch scope {
    case .token: refresh + access
    case .client: access + refresh
    }
  }
}
