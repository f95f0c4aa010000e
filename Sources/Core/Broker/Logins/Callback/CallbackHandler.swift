public import FoundationEssentials

/// Completes logins from addresses that a browser brought back.
public protocol CallbackHandler: Sendable {
  /// `url` is absolute, as the browser asked for it (scheme, host, port, path, query), with the fragment where it came.
  func handleCallback(url: String, from browser: BrowserUser) async -> CallbackOutcome
  /// A browser opened the short URL of a login.
  ///
  /// - Parameter token: the URL's last segment, which may be forged.
  func openLogin(token: String, from browser: BrowserUser) async -> LoginOpening
  /// Whether a login waits for an answer in the fragment of this URL (RFC 6749 §4.2.2), which no server receives: a
  /// page must send it. False if the URL has its own parameters, which are already an answer.
  func awaitsFragment(url: String) async -> Bool
  /// A provider reports a user's logout (OpenID Connect Back-Channel Logout §2.5).
  ///
  /// - Parameters:
  ///   - provider: the path's last segment: a configured provider's name, or a forged value.
  ///   - form: the request's body, `application/x-www-form-urlencoded`.
  func handleLogout(provider: String, form: Data) async -> LogoutOutcome
}

/// The result of a logout token, for the provider (OpenID Connect Back-Channel Logout §2.8).
public enum LogoutOutcome: Sendable, Equatable {
  /// 200: accepted, even if no user was signed in.
  case taken
  /// 400, with an error in JSON.
  case refused(String)
  /// 503: it cannot be looked at now.
  case unavailable
}

/// The answer for a browser that opened the short URL of a login.
public enum LoginOpening: Sendable, Equatable {
  /// The address of the authorization request.
  case request(url: String)
  /// The address was opened before, or its login has ended. `again` is the command that starts a new one.
  case spent(again: String)
  case otherUser
  case unknownUser
  /// The broker is stopping; the login waits.
  case unavailable
}
