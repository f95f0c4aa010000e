/// Completes logins from addresses that a browser brought back.
public protocol CallbackHandler: Sendable {
  /// `url` is absolute, as the browser asked for it (scheme, host, port, path, query).
  func handleCallback(url: String) async -> CallbackOutcome
}

/// What came of a callback, for the person at the browser. Texts are shown escaped.
public enum CallbackOutcome: Sendable, Equatable {
  /// Signed in.
  case completed(account: String, provider: String)
  /// Second use of a callback: nothing was done again.
  case alreadyCompleted
  /// The person or the provider refused.
  case denied(message: String)
  /// Forged, duplicate, late or foreign: the login stays pending.
  case refused(message: String, hint: String)
  /// The exchange failed.
  case failed(message: String, hint: String)
  /// The browser has to go on.
  case redirect(url: String)
}
