public import OAuth

/// The state of a grant, preserved over restarts.
public enum Standing: Sendable, Equatable, Codable {
  case good
  /// The last refresh failed for a possibly temporary reason: retried at `retryAt`.
  case failing(FailureRecord, count: Int, retryAt: Timestamp)
  /// The user must sign in again.
  case loginRequired(LoginReason, FailureRecord)
  /// The provider's settings must be changed.
  case misconfigured(FailureRecord)
}

/// Why a grant has ended.
public enum LoginReason: String, Sendable, Codable, CaseIterable {
  /// The provider refused it with one of its permanent codes.
  case refused
  /// The response to a rotation was lost, and the provider no longer accepts the old refresh token.
  case lostRotation = "lost_rotation"
  /// The access token has expired or was refused, and there is no refresh token.
  case noRefreshToken = "no_refresh_token"
  /// The refresh token's announced lifetime has ended.
  case refreshTokenExpired = "refresh_token_expired"
  /// The provider's response names another user than the account's.
  case identityChanged = "identity_changed"
  /// The user signed out at the provider, which reported it (OpenID Connect Back-Channel Logout).
  case signedOut = "signed_out"
  /// The stored grant is damaged or encrypted with another key.
  case unreadable

  /// The end was neither requested nor announced.
  public var isLoss: Bool {
    switch self {
    case .refused, .lostRotation, .identityChanged, .unreadable: true
    case .noRefreshToken, .refreshTokenExpired, .signedOut: false
    }
  }
}

/// The latest failure, for users.
public struct FailureRecord: Sendable, Equatable, Codable {
  public var message: String
  public var oauth: OAuthError?
  public var at: Timestamp

  public init(message: String, oauth: OAuthError? = nil, at: Timestamp) {
    self.message = message
    self.oauth = oauth
    self.at = at
  }
}
