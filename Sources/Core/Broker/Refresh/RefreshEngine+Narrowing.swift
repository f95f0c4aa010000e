import BrokerAPI
import Grants
import Logging
import OAuth

// The first narrowed refresh at a provider without rotation: whether it left the account unchanged.
extension RefreshEngine {
  /// Judges the answer, and asks the provider about the account's own token if the answer does not tell.
  func judgeNarrowing(
    _ account: AccountName, _ attempt: Grant.Attempt, _ tokens: TokenResponse, _ asked: RefreshRequestContext
  ) async {
    let traits = asked.provider.refreshTraits
    guard attempt.key.isNarrowed, !attempt.isExchange, asked.connection.history.narrowingResult == .unknown,
      traits.narrowing == .cautious, let grant = accounts[account], !grant.saved.kind.isUnattended
    else { return }
    let name = asked.provider.name
    if let new = tokens.refreshToken, new != attempt.refreshToken {
      return await narrowingHarms(name, account, "its answer had another refresh token")
    }
    let granted = Set(grant.saved.grantedScopes)
    if let scope = tokens.scope, !attempt.key.scope.isEmpty, granted.isSubset(of: scope), granted.count > 1 {
      return await providers.save(.ignored, of: name)
    }
    guard let own = grant.token, own.expiresAt.map({ $0 > now }) ?? true else { return }
    let isAlive = await proofs.checks.isAlive(account, until: uptime + Timeouts.standard)
    // The result of another account, or a reload, may have come since.
    guard asked.connection.history.narrowingResult == .unknown, isCurrent(asked),
      accounts[account]?.token?.accessToken == own.accessToken
    else { return }
    guard isAlive == false else {
      // Without an answer nothing is known, unless the provider has no endpoint that could answer.
      if isAlive == true || !canTell(asked.connection) { await providers.save(.works, of: name) }
      return
    }
    _ = accounts[account]?.rejected(generation: own.generation, at: now)
    accounts.changed(account)
    await narrowingHarms(name, account, "the account's own token is no longer valid")
  }

  private func canTell(_ connection: ProviderConnection) -> Bool {
    let metadata = connection.metadata.known?.value
    return metadata?.endpoints[.introspection] != nil || metadata?.endpoints[.userinfo] != nil
  }

  private func narrowingHarms(_ name: ProviderName, _ account: AccountName, _ reason: String) async {
    await providers.save(.harmful, of: name)
    logger.warning(
      "a narrowed refresh of \(account) changed the account: \(reason)",
      metadata: [
        "account": "\(account)", "provider": "\(name)",
        "hint": "No other narrowed token is requested at \(name): callers get the account's own token if they may.",
      ])
  }
}
