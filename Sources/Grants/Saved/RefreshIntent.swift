public import OAuth

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
