public import FoundationEssentials
public import OAuth

/// A login request to the provider.
public struct LoginRequest: Sendable {
  public var scopes: [String]
  public var resource: String?
  /// The audience that the request names by a parameter.
  public var audience: String?
  /// Nil if no browser returns.
  public var redirectURI: RedirectURI?
  public var state: Secret
  public var nonce: Secret?
  public var verifier: CodeVerifier?
  public var prompt: String?
  public var loginHint: String?
  public var parameters: [String: String]
  /// The key that the tokens will be bound to (RFC 9449).
  public var dpopKey: DPoPKey?
  /// The account's existing grant, if any.
  public var before: SavedGrant?
  /// The applications on this machine that the caller wants to try, in order; nil: as configured.
  public var apps: [String]?
  /// The identity provider, if the provider supports several.
  public var identityProvider: String?
  /// Known user data: `email`, `phone`, `first_name`, `last_name`.
  public var prefill: [String: String] = [:]
  /// The creation time and a fresh `jti`, for a signed request (RFC 9101).
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

/// The destinations of a sign-in.
public struct AuthorizationPlace: Sendable, Equatable {
  public var url: URL
  /// Requested options that will not be honoured, for users.
  public var warnings: [String]
  /// The applications on this machine that can sign in as well, in the order to try.
  public var natives: [NativePlace]
  /// Data to store with the login.
  public var memory: [String: Secret]
  /// The lifetime of the URLs if they refer to a pushed request (RFC 9126 §2.2); nil: unlimited.
  public var expiresIn: Duration?

  public init(
    url: URL, warnings: [String], natives: [NativePlace] = [], memory: [String: Secret] = [:],
    expiresIn: Duration? = nil
  ) {
    self.url = url
    self.warnings = warnings
    self.natives = natives
    self.memory = memory
    self.expiresIn = expiresIn
  }
}

/// The data for the confirmation on another device, from the provider's response (RFC 8628 §3.2).
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

/// The state of a login on another device (RFC 8628 §3.5).
public enum DeviceAnswer: Sendable {
  case issued(Issued)
  /// The user has not confirmed it yet: poll again after this delay.
  case pending(wait: Duration)
  /// Polled too often: use this interval from now on.
  case slowDown(interval: Duration)
  /// The provider is unavailable: poll again after this delay or later. The interval does not change.
  case backOff(wait: Duration, message: String)
  case denied(OAuthError)
  case expired
}

/// The result of a refresh.
public enum RefreshAnswer: Sendable {
  case issued(Issued)
  /// The response cannot be used, for this reason. Its refresh token replaces the one that was sent.
  case rotated(RotatedToken, ProviderFailure)

  /// The result without the refresh token.
  public var issued: Result<Issued, ProviderFailure> {
    switch self {
    case .issued(let issued): .success(issued)
    case .rotated(_, let failure): .failure(failure)
    }
  }
}

/// The result of a token response, after all checks.
public struct Issued: Sendable {
  public var tokens: TokenResponse
  /// Absent if the provider issues none, or if a refreshed one could not be verified (see ``warning``).
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
