public import OAuth

/// Why a conversation with a provider failed; the case says what it means for the grant.
public enum ProviderFailure: Error, Sendable, Equatable {
  /// The provider ended the grant with one of its permanent codes, or another person answered.
  case ended(LoginReason, message: String, OAuthError?)
  /// The provider refuses this client or its settings: stops the provider, not each account.
  case misconfigured(message: String, OAuthError?)
  /// Answered, and certainly not acted on: 429, `temporarily_unavailable`. Tried again.
  case tryLater(message: String, OAuthError?, retryAfter: Duration?)
  /// Refused this one request, for a reason that is nobody's outage and ends no grant: `invalid_request`, a code that is
  /// not known here, a 4xx without a code. Tried again.
  case requestRefused(message: String, OAuthError?, retryAfter: Duration?)
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
  /// What the person gave is not taken: they can mend it.
  case rejected(Rejection)
  /// The access token that was sent is no longer taken.
  case tokenRefused(message: String, OAuthError?)
  /// The provider does not let this person in, or not by this login, which alone ends.
  case denied(message: String)
  /// The provider, or this kind of provider, does not have what was asked for.
  case unsupported(message: String)

  public var message: String {
    switch self {
    case .ended(_, let message, _), .misconfigured(let message, _), .tryLater(let message, _, _),
      .requestRefused(let message, _, _), .unclear(let message, _), .lost(let message), .notSent(let message),
      .blocked(let message),
      .invalid(let message, _), .tokenRefused(let message, _), .denied(let message), .unsupported(let message):
      message
    case .rejected(let rejection): rejection.message
    }
  }

  /// It says that the provider, or the road to it, is out of order, and nothing of the grant.
  public var isOfProvider: Bool {
    switch self {
    case .tryLater, .unclear, .lost, .notSent: true
    case .ended, .misconfigured, .requestRefused, .blocked, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      false
    }
  }

  public var retryAfter: Duration? {
    switch self {
    case .tryLater(_, _, let retryAfter), .requestRefused(_, _, let retryAfter), .unclear(_, let retryAfter): retryAfter
    case .ended, .misconfigured, .lost, .notSent, .blocked, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      nil
    }
  }

  public var oauth: OAuthError? {
    switch self {
    case .ended(_, _, let oauth), .misconfigured(_, let oauth), .tryLater(_, let oauth, _),
      .requestRefused(_, let oauth, _), .invalid(_, let oauth), .tokenRefused(_, let oauth):
      oauth
    case .unclear, .lost, .notSent, .blocked, .rejected, .denied, .unsupported: nil
    }
  }
}

/// What a resource server's answer says of the token that it was sent.
public enum ResourceVerdict: Sendable, Equatable {
  case passed
  /// It is no longer taken: another is worth a try.
  case tokenRefused(message: String, OAuthError?)
  /// The grant lacks what the call needs: only a person signing in can help.
  case loginRequired(message: String)
  /// The person's account at the provider is blocked: nothing here can help.
  case blocked(message: String)
}
