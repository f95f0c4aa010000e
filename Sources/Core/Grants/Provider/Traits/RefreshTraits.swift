/// How a provider refreshes access tokens (RFC 6749 §6).
public struct RefreshTraits: Sendable, Equatable {
  /// False: there are no refresh tokens, and the user signs in again when the session ends.
  public var isSupported: Bool
  public var rotation: Rotation
  /// The lifetime of a refresh token if responses do not contain it; nil: unknown.
  public var lifetime: Duration?
  /// The lifetime restarts at each use, even if the refresh token stays the same.
  public var isSliding: Bool
  public var narrowing: Narrowing

  /// How the provider returns tokens for fewer scopes or another resource (RFC 6749 §6, RFC 8707 §2.2).
  public enum Narrowing: Sendable, Equatable {
    /// Never: an account has one token.
    case never
    /// By a refresh if refresh tokens do not rotate, and by token exchange (RFC 8693) if the server supports it. Most
    /// servers that rotate bind the new refresh token to the narrowed scope, against RFC 6749 §6.
    case cautious
    /// By a refresh: the server is known to keep the grant's scopes.
    case verified
  }

  public static let unsupported = RefreshTraits(isSupported: false, rotation: .none, narrowing: .never)

  public init(
    isSupported: Bool = true, rotation: Rotation, lifetime: Duration? = nil, isSliding: Bool = false,
    narrowing: Narrowing = .cautious
  ) {
    self.isSupported = isSupported
    self.rotation = rotation
    self.lifetime = lifetime
    self.isSliding = isSliding
    self.narrowing = narrowing
  }
}

/// How a token for fewer scopes or another resource is requested now.
public enum NarrowingMethod: Sendable, Equatable {
  case refresh
  /// RFC 8693: the account's own access token is presented, and the refresh token is not used.
  case exchange
  /// Callers get the account's own token, if they may have it.
  case unavailable
}
