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
    }
    return invalid
  }
}

/// A command of grantctl in a hint, for the user to copy.
enum HintedCommand {
  /// The most scopes of a command.
  private static let mostScopes = 12
  /// Characters that no shell interprets: a scope may come from a server.
  private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-")

  static func login(_ provider: ProviderName, _ account: AccountName, scopes: [String] = []) -> String {
    "grantctl login \(provider) \(account)\(options(scopes))"
  }

  /// A login for a second account of the same user.
  static func separateLogin(_ provider: ProviderName, from account: AccountName, scopes: [String]) -> String {
    "grantctl login \(provider) \(account)-limited\(options(scopes))"
  }

  /// One `--scope` for each; a placeholder if a shell would interpret one of them.
  private static func options(_ scopes: [String]) -> String {
    let arePlain = scopes.allSatisfy { !$0.isEmpty && $0.first != "-" && $0.allSatisfy(plain.contains) }
    guard arePlain, scopes.count <= mostScopes else { return " --scope SCOPE" }
    return scopes.map { " --scope \($0)" }.joined()
  }
}
