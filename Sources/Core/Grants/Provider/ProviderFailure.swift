public import OAuth

/// Why an exchange with a provider failed; the case decides the effect on the grant.
public enum ProviderFailure: Error, Sendable, Equatable {
  /// The provider ended the grant with one of its permanent codes, or the response is for another user.
  case ended(LoginReason, message: String, OAuthError?)
  /// The provider refuses this client or its settings: this stops the provider, not each account.
  case misconfigured(message: String, OAuthError?)
  /// Answered and certainly not executed: too many requests (429, RFC 6585 §4). This is not an outage. Retried.
  case rateLimited(message: String, OAuthError?, retryAfter: Duration?)
  /// Answered and certainly not executed: `temporarily_unavailable`. Retried.
  case tryLater(message: String, OAuthError?, retryAfter: Duration?)
  /// Refused this one request, for a reason that is not an outage and ends no grant: `invalid_request`, an unknown
  /// code, a 4xx without a code. Retried.
  case requestRefused(message: String, OAuthError?, retryAfter: Duration?)
  /// Answered, but whether the request was executed is unknown: 5xx, HTML, an incomplete body. Retried.
  case unclear(message: String, retryAfter: Duration?)
  /// Sent, but no response arrived. Retried.
  case lost(message: String)
  /// Never sent. Retried.
  case notSent(message: String)
  /// Never sent because a prerequisite outside this provider is missing: another account's token. Retried.
  case blocked(message: String)
  /// The response violates the protocol in a way that fails only this login.
  case invalid(message: String, OAuthError?)
  /// The user's input was rejected and can be corrected.
  case rejected(Rejection)
  /// The access token that was sent is no longer accepted.
  case tokenRefused(message: String, OAuthError?)
  /// The provider denies this user or this login method; only the login ends.
  case denied(message: String)
  /// The provider, or this kind of provider, does not support the request.
  case unsupported(message: String)

  public var message: String {
    switch self {
    case .ended(_, let message, _), .misconfigured(let message, _), .rateLimited(let message, _, _),
      .tryLater(let message, _, _), .requestRefused(let message, _, _), .unclear(let message, _), .lost(let message),
      .notSent(let message),
      .blocked(let message),
      .invalid(let message, _), .tokenRefused(let message, _), .denied(let message), .unsupported(let message):
      message
    case .rejected(let rejection): rejection.message
    }
  }

  /// The failure concerns the provider or the connection to it, not the grant.
  public var isOfProvider: Bool {
    switch self {
    case .rateLimited, .tryLater, .unclear, .lost, .notSent: true
    case .ended, .misconfigured, .requestRefused, .blocked, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      false
    }
  }

  public var retryAfter: Duration? {
    switch self {
    case .rateLimited(_, _, let retryAfter), .tryLater(_, _, let retryAfter), .requestRefused(_, _, let retryAfter),
      .unclear(_, let retryAfter):
      retryAfter
    case .ended, .misconfigured, .lost, .notSent, .blocked, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      nil
    }
  }

  public var oauth: OAuthError? {
    switch self {
    case .ended(_, _, let oauth), .misconfigured(_, let oauth), .rateLimited(_, let oauth, _),
      .tryLater(_, let oauth, _),
      .requestRefused(_, let oauth, _), .invalid(_, let oauth), .tokenRefused(_, let oauth):
      oauth
    case .unclear, .lost, .notSent, .blocked, .rejected, .denied, .unsupported: nil
    }
  }
}

/// The meaning of a resource server's response for the token that was sent.
public enum ResourceVerdict: Sendable, Equatable {
  case passed
  /// The token is no longer accepted: try a new one.
  case tokenRefused(message: String, OAuthError?)
  /// The grant lacks a permission that the call needs: the user must sign in again.
  case loginRequired(message: String)
  /// The user's account at the provider is blocked: the broker cannot help.
  case blocked(message: String)
}
