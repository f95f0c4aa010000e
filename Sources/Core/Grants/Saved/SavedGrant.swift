public import FoundationEssentials
public import OAuth

// The stored state. Each value is complete: a commit replaces it, so that a row never mixes two states.

/// A stored grant: the authorization of an account, and the result of its last refresh.
public struct SavedGrant: Sendable, Equatable {
  public var account: AccountName
  public var provider: ProviderName
  public var identity: Identity?
  /// As requested at login; a refresh without `scope` keeps the granted scopes (RFC 6749 §6).
  public var requestedScopes: [String]
  public var grantedScopes: [String]
  public var resource: String?
  /// The audience that the login named (`audience_parameter`).
  public var audience: String?
  public var refreshToken: Secret?
  /// The previous refresh token, while the provider accepts it: a rotation whose response was lost can be repeated.
  public var previousRefreshToken: Secret?
  public var refreshTokenExpiresAt: Timestamp?
  /// When the current refresh token was first issued; nil for grants that older versions stored.
  public var refreshTokenIssuedAt: Timestamp?
  /// The time of the last notice that the refresh token will end; nil: no notice yet for this token.
  public var expiryAnnouncedAt: Timestamp?
  /// The ID token of the login, for comparison with refreshed ones (OpenID Connect Core §12.2).
  public var idToken: Secret?
  /// Counts the access tokens of the account; it never decreases, even across logins.
  public var generation: Int64
  public var standing: Standing
  /// The provider refused the refresh token once; it is tried once more before the grant ends. See ``Grant/secondTry``.
  public var isRefusedOnce: Bool
  public var createdAt: Timestamp
  public var loggedInAt: Timestamp
  /// Unknown members of the token response that the settings preserve: a JSON object.
  public var extra: Data?
  public var kind: GrantKind
  /// The private key that the tokens are bound to (RFC 9449), in the format of ``DPoPKey``; nil: unbound.
  public var dpopKey: Secret?
  /// ``GrantSource/fingerprint`` of a declared account's source, or ``Secret/fingerprint`` of the imported refresh
  /// token; nil: created by a login, or stored by an older version.
  public var sourceFingerprint: String?

  public init(
    account: AccountName, provider: ProviderName, identity: Identity?, requestedScopes: [String],
    grantedScopes: [String], resource: String? = nil, audience: String? = nil, refreshToken: Secret?,
    previousRefreshToken: Secret? = nil,
    refreshTokenExpiresAt: Timestamp? = nil, refreshTokenIssuedAt: Timestamp? = nil,
    expiryAnnouncedAt: Timestamp? = nil, idToken: Secret? = nil, generation: Int64, standing: Standing = .good,
    isRefusedOnce: Bool = false, createdAt: Timestamp, loggedInAt: Timestamp, extra: Data? = nil,
    kind: GrantKind = .authorizationCode,
    dpopKey: Secret? = nil, sourceFingerprint: String? = nil
  ) {
    self.account = account
    self.provider = provider
    self.identity = identity
    self.requestedScopes = requestedScopes
    self.grantedScopes = grantedScopes
    self.resource = resource
    self.audience = audience
    self.refreshToken = refreshToken
    self.previousRefreshToken = previousRefreshToken
    self.refreshTokenExpiresAt = refreshTokenExpiresAt
    self.refreshTokenIssuedAt = refreshTokenIssuedAt
    self.expiryAnnouncedAt = expiryAnnouncedAt
    self.idToken = idToken
    self.generation = generation
    self.standing = standing
    self.isRefusedOnce = isRefusedOnce
    self.createdAt = createdAt
    self.loggedInAt = loggedInAt
    self.extra = extra
    self.kind = kind
    self.dpopKey = dpopKey
    self.sourceFingerprint = sourceFingerprint
  }

  /// When the refresh token was issued, as far as it was stored.
  public var refreshTokenSince: Timestamp { refreshTokenIssuedAt ?? loggedInAt }

  /// A new access token can be obtained without a user.
  public var isRenewable: Bool { refreshToken != nil || kind.isUnattended }
}

/// The user who signed in, from the provider (OpenID Connect Core §5.1).
public struct Identity: Sendable, Equatable, Codable {
  public var subject: String
  public var issuer: String?
  public var email: String?
  public var name: String?
  public var username: String?

  public init(
    subject: String, issuer: String? = nil, email: String? = nil, name: String? = nil, username: String? = nil
  ) {
    self.subject = subject
    self.issuer = issuer
    self.email = email
    self.name = name
    self.username = username
  }
}
