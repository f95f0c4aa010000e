public import OAuth

/// A refresh request that may have been sent: stored before it is sent, removed after its response.
public struct RefreshIntent: Sendable, Equatable {
  public var account: AccountName
  /// SHA-256 of the refresh token that was sent, in base64url.
  public var refreshTokenHash: String
  /// When the first unanswered request with this refresh token was sent.
  public var sentAt: Timestamp
  /// The number of requests with this refresh token that ended without a response, including this one.
  public var attempts: Int

  public init(account: AccountName, refreshTokenHash: String, sentAt: Timestamp, attempts: Int) {
    self.account = account
    self.refreshTokenHash = refreshTokenHash
    self.sentAt = sentAt
    self.attempts = attempts
  }
}
