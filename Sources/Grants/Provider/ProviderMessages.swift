public import FoundationEssentials
public import OAuth

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
  /// The grant that the account has already, if any.
  public var before: SavedGrant?
  /// The applications on this machine that the caller wants to try, in its order; nil: as configured.
  public var apps: [String]?
  /// Who signs the person in, where the provider leaves that to others.
  public var identityProvider: String?
  /// What is known of the person ahead: `email`, `phone`, `first_name`, `last_name`.
  public var prefill: [String: String] = [:]
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
  /// The applications on this machine that can do it as well, in the order to try.
  public var natives: [NativePlace]
  /// What is remembered with the login.
  public var memory: [String: Secret]
  /// How long the addresses can be opened, where they name a pushed request (RFC 9126 §2.2); nil: they have no end.
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

/// What a refresh came to.
public enum RefreshAnswer: Sendable {
  case issued(Issued)
  /// The answer cannot be used, for this reason. The refresh token in it takes the place of the one that was sent.
  case rotated(RotatedToken, ProviderFailure)

  /// What it brought but for a refresh token.
  public var issued: Result<Issued, ProviderFailure> {
    switch self {
    case .issued(let issued): .success(issued)
    case .rotated(_, let failure): .failure(failure)
    }
  }
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
