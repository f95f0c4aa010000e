import BrokerAPI
import Grants
import OAuth

/// What a caller may ask a provider by an account's token, beside the token itself.
@BrokerActor
final class AuthorizedCalls: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let engine: RefreshEngine
  let tokens: TokenRequests
  let authorizer: Authorizer
  let approvals: Approvals
  let audit: AuditLog

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, engine: RefreshEngine, tokens: TokenRequests,
    authorizer: Authorizer, approvals: Approvals, audit: AuditLog
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.engine = engine
    self.tokens = tokens
    self.authorizer = authorizer
    self.approvals = approvals
    self.audit = audit
  }

  /// A conversation that a caller waits for, no longer than it said.
  func talk<Output: Sendable>(
    _ step: Step<Output>, _ name: ProviderName, until deadline: Duration
  ) async throws(RPCError) -> Output {
    switch try await outcome(step, name, until: deadline) {
    case .success(let output): return output
    case .failure(let failure): throw providerError(failure, provider: name)
    }
  }

  private func outcome<Output: Sendable>(
    _ step: Step<Output>, _ name: ProviderName, until deadline: Duration
  ) async throws(RPCError) -> Result<Output, ProviderFailure> {
    let key = waiters.newWork()
    let box = Answer<Output>()
    Task {
      let result = await providers.converse(step, with: name, for: .callers)
      box.result = result
      waiters.wake(key)
    }
    await wait(for: key, until: deadline)
    guard let result = box.result else {
      throw RPCError(
        .timedOut, "provider \(name) did not answer in time",
        hint: "Ask again, with a longer `timeout`. `grantctl doctor \(name)` tells how the provider is.")
    }
    return result
  }

  /// Asks by the account's token. Where that is refused it is refreshed, and asked once more (RFC 6750 §3.1).
  ///
  /// - Parameter question: made each time when the token is there, with what is allowed then.
  func ask<Output: Sendable>(
    by account: AccountName, _ name: ProviderName, for uid: UInt32, until deadline: Duration, isLast: Bool = false,
    _ question: (SavedToken, SavedGrant) throws(RPCError) -> Step<Output>
  ) async throws(RPCError) -> Output {
    let (token, saved) = try await token(of: account, at: name, for: uid, until: deadline)
    switch try await outcome(try question(token, saved), name, until: deadline) {
    case .success(let output): return output
    case .failure(.tokenRefused(let message, let oauth)):
      guard !isLast else { throw refusedAgain(saved, message, oauth) }
      // Generations begin anew with another login: what was refused is the token, not its number.
      if accounts[account]?.token?.accessToken == token.accessToken {
        let left = max(0, Double((deadline - uptime).milliseconds) / 1000)
        _ = try await tokens.reportRejected(
          .init(account: account.rawValue, generation: token.generation, timeout: left), for: uid)
      }
      return try await ask(by: account, name, for: uid, until: deadline, isLast: true, question)
    case .failure(let failure): throw providerError(failure, provider: name)
    }
  }

  /// The account's token, to be sent to this provider.
  func token(
    of account: AccountName, at name: ProviderName, for uid: UInt32, until deadline: Duration
  ) async throws(RPCError) -> (SavedToken, SavedGrant) {
    let (token, saved) = try await engine.token(
      of: account, SavedToken.Key(), minimumTTL: nil, for: uid, until: deadline)
    try check(saved, isAt: name)
    return (token, saved)
  }

  /// A token is sent to its own provider alone: the account may have become another's while something was waited for.
  func check(_ saved: SavedGrant, isAt name: ProviderName) throws(RPCError) {
    guard saved.provider == name else {
      throw RPCError(
        .unknownAccount, "account \(saved.account) changed its provider during the request", hint: "Ask again.")
    }
  }

  private func refusedAgain(_ saved: SavedGrant, _ message: String, _ oauth: OAuthError?) -> RPCError {
    RPCError(
      .providerError, "provider \(saved.provider) refuses a fresh token of account \(saved.account) too: \(message)",
      hint: saved.kind.isUnattended
        ? "See whether [account.\(saved.account)] has the scopes that this needs."
        : "\(accounts.loginHint(saved)) Name the scopes that this needs with --scope.",
      oauth: oauth.map { OAuthDetail($0) })
  }

  func provider(of account: AccountName) throws(RPCError) -> any Provider {
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    guard let provider = providers[grant.saved.provider]?.provider else {
      throw accounts.misconfigured(grant, Failure(message: "", at: now))
    }
    return provider
  }
}

/// What an exchange came to, for the caller that may have stopped waiting.
@BrokerActor
private final class Answer<Output: Sendable> {
  var result: Result<Output, ProviderFailure>?
}
