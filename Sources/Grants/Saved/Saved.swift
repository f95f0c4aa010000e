public import Foundation
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
  /// ``GrantSource/fingerprint`` of a declared account's source; nil: signed in to, or written before this was kept.
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

/// One access token of a grant, for a scope set and a resource. The login's own scopes and resource have the empty key.
public struct SavedToken: Sendable, Equatable {
  public var account: AccountName
  public var key: Key
  public var accessToken: Secret
  /// As it is presented: `Bearer` (RFC 6750), `DPoP` (RFC 9449), or ``session``.
  public var type: String
  /// The type of a session that stands in place of a token.
  public static let session = "session"
  public var scopes: [String]
  public var generation: Int64
  /// When the request that brought it was sent: what its lifetime counts from.
  public var issuedAt: Timestamp
  /// Absent: the provider did not say.
  public var expiresAt: Timestamp?
  /// When the provider asks for it to be refreshed (`refresh_in`), if it does.
  public var refreshAt: Timestamp?
  /// Who reported that a resource server refused it: these are not given it again, and nobody else is concerned.
  public var reports: [TokenReport] = []

  /// Tokens narrowed by scope or resource are kept apart under one grant.
  public struct Key: Sendable, Hashable {
    /// Sorted, joined by a space; empty: all that was granted.
    public var scope: String
    /// Empty: the login's.
    public var resource: String

    public init(scope: String = "", resource: String = "") {
      self.scope = scope
      self.resource = resource
    }

    /// Of these scopes, in whatever order, and this resource; nil: the login's.
    public init(scopes: [String]?, resource: String?) {
      self.init(scope: Set(scopes ?? []).sorted().joined(separator: " "), resource: resource ?? "")
    }

    /// The scopes that it is narrowed to; empty: to none.
    public var scopes: [String] { scope.split(separator: " ").map(String.init) }
    public var isNarrowed: Bool { self != Key() }
  }

  public init(
    account: AccountName, key: Key = Key(), accessToken: Secret, type: String, scopes: [String], generation: Int64,
    issuedAt: Timestamp, expiresAt: Timestamp?, refreshAt: Timestamp? = nil
  ) {
    self.account = account
    self.key = key
    self.accessToken = accessToken
    self.type = type
    self.scopes = scopes
    self.generation = generation
    self.issuedAt = issuedAt
    self.expiresAt = expiresAt
    self.refreshAt = refreshAt
  }
}

/// A caller's report that a resource server refused a token.
public struct TokenReport: Sendable, Equatable, Codable {
  public var reporter: Reporter
  public var at: Timestamp

  /// So many are kept of a token; a new one takes the place of the oldest.
  public static let most = 32

  public init(reporter: Reporter, at: Timestamp) {
    self.reporter = reporter
    self.at = at
  }
}

/// Whom a report binds: every process of this user in this unit, as the kernel says. A program that gets a token and
/// another that reports it, such as the two that git starts, are one.
public struct Reporter: Sendable, Hashable, Codable {
  public var uid: UInt32
  /// The system's unit; nil: none is known.
  public var unit: String?
  /// The unit of the user's own manager.
  public var userUnit: String?

  public init(uid: UInt32, unit: String? = nil, userUnit: String? = nil) {
    self.uid = uid
    self.unit = unit
    self.userUnit = userUnit
  }
}

/// How a grant stands, as it survives a restart.
public enum Standing: Sendable, Equatable, Codable {
  case good
  /// The last refresh failed in a way that may pass: tried again at `retryAt`.
  case failing(Failure, count: Int, retryAt: Timestamp)
  /// Only a person signing in can help.
  case loginRequired(LoginReason, Failure)
  /// Only a change of the provider's settings can help.
  case misconfigured(Failure)
}

/// Why a grant has ended.
public enum LoginReason: String, Sendable, Codable, CaseIterable {
  /// The provider said so, by one of its permanent codes.
  case refused
  /// The answer to a rotation was lost and the provider no longer takes the old refresh token.
  case lostRotation = "lost_rotation"
  /// The access token has expired or was refused, and there is no refresh token.
  case noRefreshToken = "no_refresh_token"
  /// The refresh token's announced lifetime is over.
  case refreshTokenExpired = "refresh_token_expired"
  /// The provider's answer names another person than the one who signed in.
  case identityChanged = "identity_changed"
  /// The person signed out at the provider, which said so (OpenID Connect Back-Channel Logout).
  case signedOut = "signed_out"
  /// What is on disk of it is damaged, or sealed under another key.
  case unreadable

  /// Nobody wanted it and no end was announced.
  public var isLoss: Bool {
    switch self {
    case .refused, .lostRotation, .identityChanged, .unreadable: true
    case .noRefreshToken, .refreshTokenExpired, .signedOut: false
    }
  }
}

/// The latest failure, for people.
public struct Failure: Sendable, Equatable, Codable {
  public var message: String
  public var oauth: OAuthError?
  public var at: Timestamp

  public init(message: String, oauth: OAuthError? = nil, at: Timestamp) {
    self.message = message
    self.oauth = oauth
    self.at = at
  }
}

/// A refresh request that may have been sent: durable before it is, removed with its answer.
public struct RefreshIntent: Sendable, Equatable {
  public var account: AccountName
  /// SHA-256 of the refresh token that was sent, in base64url.
  public var refreshTokenHash: String
  /// When the first unanswered request with this refresh token was sent.
  public var sentAt: Timestamp
  /// How many requests with this refresh token ended without an answer, this one included.
  public var attempts: Int

  public init(account: AccountName, refreshTokenHash: String, sentAt: Timestamp, attempts: Int) {
    self.account = account
    self.refreshTokenHash = refreshTokenHash
    self.sentAt = sentAt
    self.attempts = attempts
  }
}

/// A login that waits for a person.
public struct SavedLogin: Sendable, Equatable {
  public var id: LoginID
  public var provider: ProviderName
  public var account: AccountName
  /// The `state` of the authorization request (RFC 6749 §4.1.1), good once.
  public var state: Secret
  public var nonce: Secret?
  /// The PKCE verifier (RFC 7636 §4.1).
  public var verifier: Secret?
  /// The string sent in the authorization request; the token request repeats it (RFC 6749 §4.1.3).
  public var redirectURI: String
  public var scopes: [String]
  public var resource: String?
  /// `max_age` of the request in seconds, if any.
  public var maxAge: Int64?
  /// The user who started it.
  public var uid: UInt32
  public var startedAt: Timestamp
  public var expiresAt: Timestamp
  /// The private key that the tokens will be bound to (RFC 9449); nil: to none.
  public var dpopKey: Secret?
  /// A login on another device (RFC 8628), which is asked for again and again.
  public var device: DeviceLogin?
  /// What the provider's conversation needs later on.
  public var memory: [String: Secret] = [:]
  /// What the person has to do before it goes on; nil: to sign in.
  public var action: LoginAction?
  /// False: the authorization code itself is what it is for.
  public var exchangesCode = true
  /// The first destination that was offered, and the one that was opened, as whoever opened it says.
  public var offered: OpenedDestination?
  public var opened: OpenedDestination?
  /// The user whose browser may open the link and bring the callback; nil: the one who started the login.
  public var browserUID: UInt32?
  public var link: LoginLink?

  public init(
    id: LoginID, provider: ProviderName, account: AccountName, state: Secret, nonce: Secret?, verifier: Secret?,
    redirectURI: String, scopes: [String], resource: String?, maxAge: Int64?, uid: UInt32, startedAt: Timestamp,
    expiresAt: Timestamp, dpopKey: Secret? = nil, device: DeviceLogin? = nil
  ) {
    self.id = id
    self.provider = provider
    self.account = account
    self.state = state
    self.nonce = nonce
    self.verifier = verifier
    self.redirectURI = redirectURI
    self.scopes = scopes
    self.resource = resource
    self.maxAge = maxAge
    self.uid = uid
    self.startedAt = startedAt
    self.expiresAt = expiresAt
    self.dpopKey = dpopKey
    self.device = device
  }
}

extension SavedLogin {
  public var browserUser: UInt32 { browserUID ?? uid }

  /// It has ended: what was for its requests is of no use any more. Its state is kept, so that who comes with it again
  /// can be told.
  public mutating func forgetSecrets() {
    (nonce, verifier, dpopKey, device, memory) = (nil, nil, nil, nil, [:])
    link?.request = nil
  }
}

/// A login on another device, as the provider answered (RFC 8628 §3.2).
public struct DeviceLogin: Sendable, Equatable {
  /// What the token endpoint is asked with.
  public var deviceCode: Secret
  /// What the person enters, and where; a secret of whoever started the login.
  public var userCode: String
  public var verificationURI: String
  public var verificationURIComplete: String?
  /// Between two requests; `slow_down` makes it longer for good (RFC 8628 §3.5).
  public var interval: Duration

  public init(
    deviceCode: Secret, userCode: String, verificationURI: String, verificationURIComplete: String?,
    interval: Duration
  ) {
    self.deviceCode = deviceCode
    self.userCode = userCode
    self.verificationURI = verificationURI
    self.verificationURIComplete = verificationURIComplete
    self.interval = interval
  }
}

/// A client that was registered at run time (RFC 7591), and the provider that it makes.
public struct SavedRegistration: Sendable, Equatable {
  public var provider: ProviderName
  public var issuer: Issuer
  /// Where its metadata are.
  public var discovery: DiscoveryStyle
  public var clientID: String
  public var clientSecret: Secret?
  /// `token_endpoint_auth_method` as registered.
  public var authMethod: String
  public var scopes: [String]
  /// As registered, where it is not the broker's own endpoint.
  public var redirectURI: String?
  /// What the registration is managed by (RFC 7592 §3); nil: it cannot be.
  public var managementToken: Secret?
  public var managementURL: URL?
  public var secretExpiresAt: Timestamp?
  public var createdAt: Timestamp

  public init(
    provider: ProviderName, issuer: Issuer, discovery: DiscoveryStyle, clientID: String, clientSecret: Secret?,
    authMethod: String, scopes: [String], redirectURI: String?, managementToken: Secret?, managementURL: URL?,
    secretExpiresAt: Timestamp?, createdAt: Timestamp
  ) {
    self.provider = provider
    self.issuer = issuer
    self.discovery = discovery
    self.clientID = clientID
    self.clientSecret = clientSecret
    self.authMethod = authMethod
    self.scopes = scopes
    self.redirectURI = redirectURI
    self.managementToken = managementToken
    self.managementURL = managementURL
    self.secretExpiresAt = secretExpiresAt
    self.createdAt = createdAt
  }
}

/// A token of a forgotten account that the provider has still to be told of (RFC 7009).
public struct PendingRevocation: Sendable, Equatable {
  public var id: String
  public var provider: ProviderName
  public var token: Secret
  /// `refresh_token` or `access_token` (RFC 7009 §2.1).
  public var hint: String
  /// What else the provider's request needs.
  public var context: [String: String]
  public var attempts: Int
  public var retryAt: Timestamp
  /// When it is given up.
  public var expiresAt: Timestamp

  public init(
    id: String, provider: ProviderName, token: Secret, hint: String, context: [String: String] = [:], attempts: Int,
    retryAt: Timestamp, expiresAt: Timestamp
  ) {
    self.context = context
    self.id = id
    self.provider = provider
    self.token = token
    self.hint = hint
    self.attempts = attempts
    self.retryAt = retryAt
    self.expiresAt = expiresAt
  }
}
