public import OAuth

/// The effect of a revocation at a provider (RFC 7009 §2.1).
public struct RevocationTraits: Sendable, Equatable {
  public enum Scope: Sendable, Equatable {
    /// One token, and related tokens as the server decides.
    case token
    /// The user's whole authorization of this client, by revoking an access token.
    case client
  }

  public var scope: Scope
  /// A revoked refresh token ends only its own grant, so a login revokes the one that it replaces. RFC 7009 §2.1 leaves
  /// this to the server, so it must be known for the provider.
  public var endsReplaced: Bool

  public init(scope: Scope = .token, endsReplaced: Bool = false) {
    self.scope = scope
    // A revocation of the whole authorization would end the new login too.
    self.endsReplaced = endsReplaced && scope == .token
  }

  /// The owner of the revoked authorization, stored with the revocation; it includes authorizations after it was
  /// queued.
  public func owner(of grant: SavedGrant) -> [String: String] {
    switch scope {
    case .token: return [:]
    case .client:
      var owner = ["account": grant.account.rawValue]
      owner["subject"] = grant.identity?.subject
      return owner
    }
  }

  /// Whether a pending revocation would end a grant whose user has signed in since.
  public func ends(_ grant: SavedGrant, by revocation: PendingRevocation) -> Bool {
    guard scope == .client, revocation.provider == grant.provider else { return false }
    guard let subject = grant.identity?.subject, let other = revocation.context["subject"] else {
      return revocation.context["account"] == grant.account.rawValue
    }
    return subject == other
  }

  /// The grant's tokens to revoke, in order: the refresh token first, so that it yields no further access token (RFC
  /// 7009 §2.1). If an access token ends everything, it is first, followed by the refresh token in case the access
  /// token has expired.
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
