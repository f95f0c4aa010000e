public import FoundationEssentials
public import OAuth

// What is on disk. Each value is whole: a commit replaces it, so that a row never mixes two states.

/// A grant as it is on disk: what an account is authorised for, and how its last refresh went.
public struct SavedGrant: Sendable, Equatable {
  public var account: AccountName
  public var provider: ProviderName
  public var identity: Identity?
  /// As asked at login; a refresh that says nothing of scope keeps what was granted (RFC 6749 §6).
  public var requestedScopes: [String]
  public var grantedScopes: [String]
  public var resource: String?
  public var refreshToken: Secret?
  /// The one before, for as long as the provider still takes it: a lost answer to a rotation can be asked for again.
  public var previousRefreshToken: Secret?
  public var refreshTokenExpiresAt: Timestamp?
  /// When the current refresh token was first handed out; unknown for those of before this was kept.
  public var refreshTokenIssuedAt: Timestamp?
  /// When people were last told that the refresh token will end; nil: not yet, of this one.
  public var expiryAnnouncedAt: Timestamp?
  /// The ID token of the login, which a refreshed one is compared with (OpenID Connect Core §12.2).
  public var idToken: Secret?
  /// Counts the access tokens of the account; never goes back, also over a new login.
  public var generation: Int64
  public var standing: Standing
  public var createdAt: Timestamp
  public var loggedInAt: Timestamp
  /// Unknown members of the token response that the provider's settings keep: a JSON object.
  public var extra: Data?
  public var kind: GrantKind
  /// The private key that the tokens are bound to (RFC 9449), as ``DPoPKey`` writes it; nil: to none.
  public var dpopKey: Secret?
  /// ``GrantSource/fingerprint`` of a declared account's source, ``Secret/fingerprint`` of the refresh token that an
  /// imported one was made of; nil: signed in to, or written before this was kept.
  public var sourceFingerprint: String?

  public init(
    account: AccountName, provider: ProviderName, identity: Identity?, requestedScopes: [String],
    grantedScopes: [String], resource: String? = nil, refreshToken: Secret?, previousRefreshToken: Secret? = nil,
    refreshTokenExpiresAt: Timestamp? = nil, refreshTokenIssuedAt: Timestamp? = nil,
    expiryAnnouncedAt: Timestamp? = nil, idToken: Secret? = nil, generation: Int64, standing: Standing = .good,
    createdAt: Timestamp, loggedInAt: Timestamp, extra: Data? = nil, kind: GrantKind = .authorizationCode,
    dpopKey: Secret? = nil, sourceFingerprint: String? = nil
  ) {
    self.account = account
    self.provider = provider
    self.identity = identity
    self.requestedScopes = requestedScopes
    self.grantedScopes = grantedScopes
    self.resource = resource
    self.refreshToken = refreshToken
    self.previousRefreshToken = previousRefreshToken
    self.refreshTokenExpiresAt = refreshTokenExpiresAt
    self.refreshTokenIssuedAt = refreshTokenIssuedAt
    self.expiryAnnouncedAt = expiryAnnouncedAt
    self.idToken = idToken
    self.generation = generation
    self.standing = standing
    self.createdAt = createdAt
    self.loggedInAt = loggedInAt
    self.extra = extra
    self.kind = kind
    self.dpopKey = dpopKey
    self.sourceFingerprint = sourceFingerprint
  }

  /// When the refresh token was handed out, as far as that was kept.
  public var refreshTokenSince: Timestamp { refreshTokenIssuedAt ?? loggedInAt }

  /// A new access token can be had without a person.
  public var isRenewable: Bool { refreshToken != nil || kind.isUnattended }
}

/// Who signed in, as the provider said (OpenID Connect Core §5.1).
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
