public import Foundation
public import OAuth

/// How one authorization server is spoken to, without I/O: a request out, a response in. The broker sends, waits and
/// remembers; what is said is decided here.
public protocol Provider: Sendable {
  var name: ProviderName { get }
  var about: ProviderAbout { get }

  /// The request that fetches the server's metadata (RFC 8414, OpenID Connect Discovery); nil: they are configured.
  func discovery() -> HTTPRequest?
  /// The metadata in force, from the answer to ``discovery()``, or from the settings alone where there is none.
  func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata
  /// The request that fetches the server's signing keys; nil where there are none.
  func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest?

  /// Where a person signs in (RFC 6749 §4.1.1); the request itself may go ahead by the back channel (RFC 9126).
  func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace>
  /// The authorization code that the browser brought back, once every check holds (RFC 6749 §4.1.2, RFC 9207, JARM).
  func code(
    from callback: String, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<Secret, CallbackError>>

  /// Trades a person's name and password for tokens (RFC 6749 §4.3).
  func exchange(
    username: String, password: Secret, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Issued>

  /// Asks for a code that a person confirms on another device (RFC 8628 §3.1).
  func deviceAuthorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<DevicePlace>
  /// Asks whether the person has confirmed it (RFC 8628 §3.4).
  func poll(_ device: DeviceLogin, login: SavedLogin, metadata: ServerMetadata) -> Step<DeviceAnswer>

  /// Trades the code for tokens (RFC 6749 §4.1.3).
  func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<Issued>
  /// Refreshes one of the grant's access tokens (RFC 6749 §6).
  func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<Issued>
  /// Asks for an access token that needs nobody (RFC 6749 §4.4, RFC 7523 §2.1, RFC 8693 §2.1).
  ///
  /// - Parameters:
  ///   - subject: the other account's access token, where the source trades one.
  ///   - actor: the acting account's access token.
  func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued>
  /// Trades a token for another (RFC 8693 §2.1).
  func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse>
  /// What the provider says of a token (RFC 7662 §2).
  func introspection(of token: Secret, hint: String, metadata: ServerMetadata) -> Step<IntrospectionResponse>
  /// What the provider says of the person (OpenID Connect Core §5.3).
  func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo>

  /// Where a browser ends the person's session at the provider (OpenID Connect RP-Initiated Logout §2); nil: nowhere.
  ///
  /// - Parameter returnTo: where the browser comes back with the state; nil: nowhere.
  func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL?
  /// Whom the provider signed out, once every check holds (OpenID Connect Back-Channel Logout §2.6).
  func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken>

  /// The request that revokes a token (RFC 7009); nil: the server cannot.
  func revocation(of token: Secret, hint: String, metadata: ServerMetadata) -> HTTPRequest?
  func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome

  /// How far this machine's clock may be off before ID tokens are refused.
  var clockTolerance: Duration { get }
  /// Judges the settings by themselves.
  func examineSettings() -> Finding
  /// Judges an answer to ``discovery()`` (nil where that is), and what settings and metadata say of each other.
  func examine(_ response: HTTPResponse?) -> Examination
  /// Judges whether the server's keys can verify the ID tokens that the settings allow.
  func examine(_ keys: JWKSet, metadata: ServerMetadata) -> Finding
}

/// What a provider is, for people, and what the engine must know of it.
public struct ProviderAbout: Sendable, Equatable {
  public var kind: String
  public var profile: String?
  public var displayName: String
  public var issuer: String?
  public var clientID: String
  public var scopes: [String]
  public var resource: String?
  public var rotation: Rotation
  public var refreshTokenLifetime: Duration?
  public var loginLifetime: Duration
  public var redirect: RedirectChoice
  public var usesIDTokens: Bool
  public var usesPKCE: Bool
  public var prompt: String?
  /// A refresh may ask for fewer scopes or another resource (RFC 6749 §6, RFC 8707 §2.2).
  public var narrowsTokens = true
  /// Tokens are bound to a key of the account (RFC 9449).
  public var usesDPoP = false
  /// Takes a person's password (RFC 6749 §4.3).
  public var takesPasswords = false
  /// Connections are proven by a certificate of the client's (RFC 8705).
  public var usesCertificate = false
  /// Takes the provider's word that a session has ended (OpenID Connect Back-Channel Logout).
  public var takesLogouts = false
  /// Where the browser comes back after it signed out at the provider, as registered; a loopback one without a port stands
  /// for the port that the callback endpoint has.
  public var postLogoutRedirect: RedirectURI?
  /// `max_age` of each login's request, in seconds (OpenID Connect Core §3.1.2.1).
  public var maxAge: Int64?

  public enum RedirectChoice: Sendable, Equatable {
    /// The broker's own endpoint, on the port it has.
    case loopback(host: String, path: String)
    case fixed(RedirectURI)
  }

  public init(
    kind: String, profile: String?, displayName: String, issuer: String?, clientID: String, scopes: [String],
    resource: String?, rotation: Rotation, refreshTokenLifetime: Duration?, loginLifetime: Duration,
    redirect: RedirectChoice, usesIDTokens: Bool, usesPKCE: Bool, prompt: String?
  ) {
    self.kind = kind
    self.profile = profile
    self.displayName = displayName
    self.issuer = issuer
    self.clientID = clientID
    self.scopes = scopes
    self.resource = resource
    self.rotation = rotation
    self.refreshTokenLifetime = refreshTokenLifetime
    self.loginLifetime = loginLifetime
    self.redirect = redirect
    self.usesIDTokens = usesIDTokens
    self.usesPKCE = usesPKCE
    self.prompt = prompt
  }
}

/// What a login asks the provider for.
public struct LoginRequest: Sendable {
  public var scopes: [String]
  public var resource: String?
  /// Nil where no browser comes back.
  public var redirectURI: RedirectURI?
  public var state: Secret
  public var nonce: Secret?
  public var verifier: CodeVerifier?
  public var prompt: String?
  public var loginHint: String?
  public var parameters: [String: String]
  /// What the tokens will be bound to (RFC 9449).
  public var dpopKey: DPoPKey?
  /// When it was made, and a fresh `jti`: for a request that is signed (RFC 9101).
  public var madeAt: Timestamp
  public var identifier: String

  public init(
    scopes: [String], resource: String?, redirectURI: RedirectURI?, state: Secret, nonce: Secret?,
    verifier: CodeVerifier?, prompt: String?, loginHint: String?, parameters: [String: String],
    dpopKey: DPoPKey? = nil, madeAt: Timestamp, identifier: String
  ) {
    self.dpopKey = dpopKey
    self.madeAt = madeAt
    self.identifier = identifier
    self.scopes = scopes
    self.resource = resource
    self.redirectURI = redirectURI
    self.state = state
    self.nonce = nonce
    self.verifier = verifier
    self.prompt = prompt
    self.loginHint = loginHint
    self.parameters = parameters
  }
}

/// Where a person signs in.
public struct AuthorizationPlace: Sendable, Equatable {
  public var url: URL
  /// What will not be as asked, for a person to read.
  public var warnings: [String]

  public init(url: URL, warnings: [String]) {
    self.url = url
    self.warnings = warnings
  }
}

/// What a person confirms on another device, as the provider answered (RFC 8628 §3.2).
public struct DevicePlace: Sendable, Equatable {
  public var device: DeviceLogin
  public var expiresIn: Duration
  public var warnings: [String]

  public init(device: DeviceLogin, expiresIn: Duration, warnings: [String]) {
    self.device = device
    self.expiresIn = expiresIn
    self.warnings = warnings
  }
}

/// How a login on another device stands (RFC 8628 §3.5).
public enum DeviceAnswer: Sendable {
  case issued(Issued)
  /// Nobody has confirmed it yet: ask again after this.
  case pending(wait: Duration)
  /// Asked too often: this is the interval from now on.
  case slowDown(interval: Duration)
  /// The provider is out of order: ask again after this, or later. The interval stays as it was.
  case backOff(wait: Duration)
  case denied(OAuthError)
  case expired
}

/// What a token response brought, every check done.
public struct Issued: Sendable {
  public var tokens: TokenResponse
  /// Absent where the provider gives none, or where a refreshed one could not be verified (see ``warning``).
  public var idToken: Secret?
  public var identity: Identity?
  public var warning: String?

  public init(tokens: TokenResponse, idToken: Secret?, identity: Identity?, warning: String?) {
    self.tokens = tokens
    self.idToken = idToken
    self.identity = identity
    self.warning = warning
  }
}

/// The next step of a conversation with a provider: the broker does it and goes on. Bounded by the broker.
public enum Step<Output: Sendable>: Sendable {
  case done(Output)
  case failed(ProviderFailure)
  /// Send this, and go on with the response and the moment it came.
  case send(HTTPRequest, then: @Sendable (HTTPResponse, Timestamp) -> Step<Output>)
  /// Go on with the provider's signing keys; `unknown` names one that the known set lacks.
  case keys(unknown: String?, then: @Sendable (Result<JWKSet, ProviderFailure>, Timestamp) -> Step<Output>)
}

extension Step {
  /// It ended like this.
  public static func ended(_ end: Result<Output, ProviderFailure>) -> Self {
    switch end {
    case .success(let output): .done(output)
    case .failure(let failure): .failed(failure)
    }
  }

  /// How it ended; nil where something is still to be asked.
  public var end: Result<Output, ProviderFailure>? {
    switch self {
    case .done(let output): .success(output)
    case .failed(let failure): .failure(failure)
    case .send, .keys: nil
    }
  }

  /// The same conversation with another end.
  public func map<Other: Sendable>(_ change: @escaping @Sendable (Output) -> Other) -> Step<Other> {
    switch self {
    case .done(let output): .done(change(output))
    case .failed(let failure): .failed(failure)
    case .send(let request, let then): .send(request) { then($0, $1).map(change) }
    case .keys(let unknown, let then): .keys(unknown: unknown) { then($0, $1).map(change) }
    }
  }

  /// The same conversation with its failure told otherwise.
  public func mapFailure(_ change: @escaping @Sendable (ProviderFailure) -> ProviderFailure) -> Step {
    switch self {
    case .done: self
    case .failed(let failure): .failed(change(failure))
    case .send(let request, let then): .send(request) { then($0, $1).mapFailure(change) }
    case .keys(let unknown, let then): .keys(unknown: unknown) { then($0, $1).mapFailure(change) }
    }
  }
}

/// Why a conversation with a provider failed; the case says what it means for the grant.
public enum ProviderFailure: Error, Sendable, Equatable {
  /// The provider ended the grant with one of its permanent codes, or another person answered.
  case ended(LoginReason, message: String, OAuthError?)
  /// The provider refuses this client or its settings: stops the provider, not each account.
  case misconfigured(message: String, OAuthError?)
  /// Answered, and certainly not acted on: 429, `temporarily_unavailable`. Tried again.
  case tryLater(message: String, OAuthError?, retryAfter: Duration?)
  /// Answered with something that says nothing of whether it was acted on: 5xx, HTML, half a body. Tried again.
  case unclear(message: String, retryAfter: Duration?)
  /// Sent, and no answer came. Tried again.
  case lost(message: String)
  /// Never sent. Tried again.
  case notSent(message: String)
  /// Never sent, for want of something that is not this provider's: another account's token. Tried again.
  case blocked(message: String)
  /// Answered against the protocol in a way that fails this login alone.
  case invalid(message: String, OAuthError?)

  public var message: String {
    switch self {
    case .ended(_, let message, _), .misconfigured(let message, _), .tryLater(let message, _, _),
      .unclear(let message, _), .lost(let message), .notSent(let message), .blocked(let message),
      .invalid(let message, _):
      message
    }
  }

  /// It says that the provider, or the road to it, is out of order, and nothing of the grant.
  public var isOfProvider: Bool {
    switch self {
    case .tryLater, .unclear, .lost, .notSent: true
    case .ended, .misconfigured, .blocked, .invalid: false
    }
  }

  public var retryAfter: Duration? {
    switch self {
    case .tryLater(_, _, let retryAfter), .unclear(_, let retryAfter): retryAfter
    case .ended, .misconfigured, .lost, .notSent, .blocked, .invalid: nil
    }
  }

  public var oauth: OAuthError? {
    switch self {
    case .ended(_, _, let oauth), .misconfigured(_, let oauth), .tryLater(_, let oauth, _), .invalid(_, let oauth):
      oauth
    case .unclear, .lost, .notSent, .blocked: nil
    }
  }
}
