public import OAuth

/// A token of a removed account that must still be revoked at the provider (RFC 7009).
public struct PendingRevocation: Sendable, Equatable {
  public var id: String
  public var provider: ProviderName
  public var token: Secret
  /// `refresh_token` or `access_token` (RFC 7009 §2.1).
  public var hint: String
  /// Additional data for the provider's request.
  public var context: [String: String]
  public var attempts: Int
  public var retryAt: Timestamp
  /// The time to give up.
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
