import BrokerAPI
import Grants
import OAuth
import Principals

// Errors of many pieces, each with the user's next step.

func unknownAccount(_ name: String) -> RPCError {
  RPCError(.unknownAccount, "no account \(name.prefix(128).debugDescription)")
}

extension Principal {
  /// The owner of a login or a hold that the caller begins.
  func owner() throws(RPCError) -> UInt32 {
    guard let uid else {
      throw RPCError(.notPermitted, "\(user) cannot begin this", hint: "Start it as a user of this machine.")
    }
    return uid
  }
}

func shuttingDown() -> RPCError { RPCError(.shuttingDown, "the broker is stopping") }

/// The provider is in the configuration no more.
func gone(_ name: ProviderName) -> ProviderFailure {
  .misconfigured(message: "provider \(name) is no longer configured", nil)
}

/// A reload moved the account to another provider, or its provider to another server, during a request's wait. Its
/// destination no longer exists.
func providerMoved(_ account: AccountName) -> RPCError {
  RPCError(.unknownAccount, "account \(account) changed its provider during the request", hint: "Ask again.")
}

/// A reload changed the provider while a request waited, before anything was sent.
func providerChanged(_ name: ProviderName) -> RPCError {
  RPCError(
    .temporarilyUnavailable, "the configuration of provider \(name) changed during the request", hint: "Ask again.",
    retryAfter: 1)
}

/// The effect of a failed conversation on its login or request.
func providerError(_ failure: ProviderFailure, provider: ProviderName, correction: String) -> RPCError {
  let oauth = failure.oauth.map { OAuthDetail($0) }
  let message = "provider \(provider): \(failure.message)"
  switch failure {
  case .ended, .requestRefused, .invalid: return RPCError(.providerError, message, oauth: oauth)
  case .rejected(let rejection):
    return RPCError(
      .registrationRejected, message, hint: rejection.hint ?? "Correct what it names, and send it again.",
      detail: rejection.code, fields: rejection.fields.isEmpty ? nil : rejection.fields)
  case .tokenRefused:
    return RPCError(
      .providerError, message, hint: "`grantctl doctor \(provider)` tells more of the provider.", oauth: oauth)
  case .misconfigured:
    return RPCError(.providerMisconfigured, message, hint: correction, oauth: oauth)
  case .rateLimited(_, _, let retryAfter), .tryLater(_, _, let retryAfter), .unclear(_, let retryAfter):
    // The provider may be back sooner than it said.
    let wait = min(retryAfter ?? .seconds(30), RefreshPolicy().longestRetryAfter)
    return RPCError(.temporarilyUnavailable, message, retryAfter: Double(wait.wholeSeconds), oauth: oauth)
  case .lost, .notSent, .blocked: return RPCError(.temporarilyUnavailable, message, retryAfter: 30)
  case .denied:
    return RPCError(.loginDenied, message, hint: "Start again with `grantctl login`, perhaps as another user.")
  case .unsupported: return RPCError(.unsupportedByProvider, message)
  }
}

extension OAuthDetail {
  init(_ error: OAuthError) {
    self.init(error: error.code.rawValue, error_description: error.description, error_uri: error.uri)
  }
}

extension RPCError {
  /// A parameter that the provider cannot honour.
  static func invalidParams(_ objection: Objection) -> RPCError {
    .invalidParams((objection.parameter.map { "params.\($0): " } ?? "") + objection.message, hint: objection.hint)
  }

  /// An issuer that the broker does not send secrets to.
  ///
  /// - Parameter command: the command of grantctl for another issuer.
  static func invalidIssuer(_ error: IssuerError, _ command: (String) -> String) -> RPCError {
    var invalid = RPCError.invalidParams("params.issuer: \(error)")
    if let issuer = error.withHTTPS {
      invalid.hint = "Use https: `\(command(issuer))`."
      invalid.detail = ProviderRegister.notHTTPS
    } else if let issuer = error.withScheme {
      invalid.hint = "Give its URL: `\(command(issuer))`."
    }
    return invalid
  }
}

/// A command of grantctl in a hint, for the user to copy.
enum HintedCommand {
  /// The most scopes of a command.
  private static let mostScopes = 12
  /// Characters of an account's name before a suffix.
  private static let longestName = 120
  /// Characters that no shell interprets: a scope may come from a server.
  private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-")

  static func login(_ provider: ProviderName, _ account: AccountName, scopes: [String] = []) -> String {
    "grantctl login \(provider) \(account)\(options("scope", scopes))"
  }

  /// A login for further scopes that keeps the account's resource and refresh token.
  static func login(_ saved: SavedGrant, adding scopes: [String]) -> String {
    let granted = saved.grantedScopes.isEmpty ? saved.requestedScopes : saved.grantedScopes
    let places =
      options("resource", [saved.resource].compactMap(\.self))
      + options("audience", [saved.audience].compactMap(\.self))
    return login(saved.provider, saved.account, scopes: unnamed(saved) + granted + scopes) + places
  }

  /// A login for a second account of the same user, with fewer scopes.
  static func separateLogin(_ saved: SavedGrant, scopes: [String]) -> String {
    let name = "\(saved.account.rawValue.prefix(longestName))-limited"
    return "grantctl login \(saved.provider) \(name)\(options("scope", unnamed(saved) + scopes))"
  }

  /// Scopes that the login requested and that providers seldom list among the granted ones.
  private static func unnamed(_ saved: SavedGrant) -> [String] {
    saved.requestedScopes.filter { $0 == "openid" || $0 == "offline_access" }
  }

  /// One option for each value; no value if a shell would interpret one of them, or if there are too many.
  private static func options(_ name: String, _ values: [String]) -> String {
    var once: [String] = []
    for value in values where !once.contains(value) { once.append(value) }
    let arePlain = once.allSatisfy { !$0.isEmpty && $0.first != "-" && $0.allSatisfy(plain.contains) }
    guard arePlain, once.count <= mostScopes else { return " --\(name) …" }
    return once.map { " --\(name) \($0)" }.joined()
  }
}
