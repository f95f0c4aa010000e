public import OAuth

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
