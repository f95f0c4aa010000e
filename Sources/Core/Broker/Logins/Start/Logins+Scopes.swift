import BrokerAPI
import Grants
import OAuth

// Logins that the provider refuses because of their scopes.
extension Logins {
  /// The error of a request for a login.
  func loginError(
    _ failure: ProviderFailure, at provider: ProviderName, of account: AccountName, scopes: [String]
  ) -> RPCError {
    var error = providers.error(failure, at: provider)
    if failure.oauth?.code == .invalidScope { error.hint = scopeHint(scopes, at: provider, of: account) }
    return error
  }

  /// The login without the scopes that are probably misspelled, as far as the metadata show it.
  func scopeHint(_ asked: [String], at provider: ProviderName, of account: AccountName) -> String {
    let connection = providers[provider]
    let metadata = connection?.metadata.known?.value
    let supported = metadata?.supported.scopes
    let configured = connection?.provider.tokenTraits.scopes(asked: nil, supported: supported)
    let section = providers.section(of: provider)
    let login = HintedCommand.login(provider, account)
    let others = metadata?.misspelled(asked).filter { $0 != "offline_access" } ?? []
    let offered = asked.filter { !others.contains($0) }
    if !offered.isEmpty, !others.isEmpty {
      let fewer = HintedCommand.login(provider, account, scopes: offered)
      let missing = others.joined(separator: " ").printable(limit: 200)
      let correction = asked == configured ? " Correct `scopes` in \(section), too, then run `grantctl reload`." : ""
      return "Provider \(provider) does not list \(missing). Sign in without: `\(fewer)`.\(correction)"
    }
    guard asked == configured else {
      return "Sign in with the configured scopes: `\(login)`. Or name others with --scope."
    }
    return "Correct `scopes` in \(section). Then run `grantctl reload` and `\(login)`."
  }
}
