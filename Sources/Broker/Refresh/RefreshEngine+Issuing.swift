import BrokerAPI
import Grants
import OAuth

// Refreshes of accounts that need no refresh token: client credentials, assertions, and another account's token.
extension RefreshEngine {
  /// What a refresh asks for where no refresh token is needed; a failure where it cannot be asked now.
  func issue(
    _ grant: SavedGrant, _ key: SavedToken.Key, _ provider: any Provider, _ metadata: ServerMetadata
  ) async -> Result<Step<Issued>, ProviderFailure> {
    guard let source = accounts.sources[grant.account] else {
      return .failure(.misconfigured(message: "account \(grant.account) is not in the configuration", nil))
    }
    var subject: Secret?
    var actor: Secret?
    if case .exchange(let exchange) = source {
      do throws(RPCError) {
        subject = try await tokenToTrade(exchange.from, for: grant.account)
        if let account = exchange.actor { actor = try await tokenToTrade(account, for: grant.account) }
      } catch {
        return .failure(.blocked(message: error.message))
      }
    }
    return .success(
      provider.issue(source, to: grant, key: key, subject: subject, actor: actor, metadata: metadata))
  }

  func tokenToTrade(_ account: AccountName, for derived: AccountName) async throws(RPCError) -> Secret {
    guard accounts[account]?.saved.kind != .tokenExchange, account != derived else {
      throw RPCError(.providerMisconfigured, "account \(account) is itself had by an exchange")
    }
    let (token, _) = try await token(
      of: account, SavedToken.Key(), minimumTTL: nil, until: uptime + Limit.subjectTokenWait)
    return token.accessToken
  }
}
