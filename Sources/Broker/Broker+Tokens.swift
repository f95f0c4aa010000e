import BrokerAPI
import Grants
import OAuth

extension Broker {
  /// `token.get`, where the cache had no answer.
  func token(_ params: TokenGet.Params) async throws(RPCError) -> TokenGet.Result {
    let account = try accountName(params.account)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    let minimum = try minimumTTL(params.min_ttl)
    let first = grants[account]?.saved.generation
    for _ in 0..<Limit.rounds {
      // One moment for the answer and the time left that it tells.
      let now = now
      guard let grant = grants[account] else { throw unknownAccount(params.account) }
      try checkScopes(params.scopes, resource: params.resource, grant)
      let answer = grant.answer(minimumTTL: minimum, at: now, policy: configuration.refresh)
      switch answer {
      case .token(let token):
        return TokenGet.Result(token, grant: grant.saved, issuer: issuer(of: grant), at: now)
      case .loginRequired(let reason, let failure): throw loginRequired(grant, reason, failure)
      case .misconfigured(let failure): throw misconfigured(grant, failure)
      case .temporarilyUnavailable(let failure, let retryAt): throw unavailable(grant, failure, retryAt: retryAt)
      case .refresh, .wait: break
      }
      do throws(RPCError) {
        // What a fresh token does not have, the next one will not have either.
        if answer == .refresh, grant.saved.generation != first, grant.rejectedGeneration != grant.saved.generation {
          throw tooShort(grant)
        }
        if answer == .refresh { try begin(account, grant) }
        try await waitForRefresh(account, until: deadline)
      } catch {
        // Less time than asked for is better than none.
        let now = self.now
        guard case .token(let token) = grants[account]?.lastResort(at: now) else { throw error }
        return TokenGet.Result(token, grant: grant.saved, issuer: issuer(of: grant), at: now)
      }
    }
    throw timedOut(account)
  }

  /// `token.report_rejected`.
  func reportRejected(_ params: TokenReportRejected.Params) async throws(RPCError) -> TokenReportRejected.Result {
    let account = try accountName(params.account)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = grants[account] else { throw unknownAccount(params.account) }
    switch grants[account]?.rejected(generation: params.generation, at: now) {
    case .stale, nil: return .init(refreshed: false, generation: grant.saved.generation)
    case .ended(let saved):
      publish(account)
      await finish(by: deadline) { await self.saveStanding(of: account, "a refused token") }
      if let grant = grants[account], case .loginRequired(let reason, let failure) = grant.saved.standing {
        let error = loginRequired(grant, reason, failure)
        report(saved, error, .loginRequired)
        changed(account)
        throw error
      }
    case .refresh:
      publish(account)
      // A restart must not hand it out again.
      await finish(by: deadline) { await self.dropToken(account, generation: params.generation) }
    }
    let token = try await token(
      TokenGet.Params(account: account.rawValue, timeout: max(0, Double((deadline - uptime).milliseconds) / 1000)))
    return .init(refreshed: token.generation > params.generation, generation: token.generation)
  }

  private func issuer(of grant: Grant) -> String? { providers[grant.saved.provider]?.provider.about.issuer }

  private func begin(_ account: AccountName, _ grant: Grant) throws(RPCError) {
    guard !isDraining else { throw shuttingDown() }
    switch want(account) {
    case .underWay: break
    case .suspended(let failure): throw misconfigured(grant, failure)
    case .unreachable(let failure, let retryAt): throw unavailable(grant, failure, retryAt: retryAt)
    case .heldBack(let error): throw storeError(error)
    case .impossible: throw loginRequired(grant, .noRefreshToken, nil)
    }
  }

  private func waitForRefresh(_ account: AccountName, until deadline: Duration) async throws(RPCError) {
    if case .committing = grants[account]?.phase, let storeFailure { throw storeError(storeFailure) }
    guard uptime < deadline else { throw timedOut(account) }
    guard waiting.count < Limit.waiters else { throw RPCError(.overloaded, "too many requests are waiting") }
    guard !isStopped else { throw shuttingDown() }
    await wait(for: .account(account), until: deadline)
  }

  /// Waits for what goes on by itself, and no longer: a slow disk keeps no caller beyond its time.
  private func finish(by deadline: Duration, _ work: @escaping @Sendable () async -> Void) async {
    let key = Waiting.Key.work(waiting.ticket())
    Task {
      await work()
      waiting.wake(key)
    }
    await wait(for: key, until: deadline)
  }

  private func dropToken(_ account: AccountName, generation: Int64) async {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account], grant.rejectedGeneration == generation, grant.saved.generation == generation
    else { return }
    do throws(StoreError) {
      try await commit([.removeTokens(account)])
    } catch {
      unsaved.insert(account)
    }
  }

  private func tooShort(_ grant: Grant) -> RPCError {
    RPCError(
      .providerError, "account \(grant.saved.account): the provider's new token was over as it came",
      hint: "Check the clock (timedatectl), and the lifetime of access tokens at the provider.")
  }

  private func timedOut(_ account: AccountName) -> RPCError {
    RPCError(
      .timedOut, "account \(account): the refresh did not end in time",
      hint: "Ask again: the refresh goes on. `grantctl show \(account)` tells how it went.")
  }

  private func minimumTTL(_ seconds: Double?) throws(RPCError) -> Duration? {
    guard let seconds else { return nil }
    guard seconds >= 0 else { throw .invalidParams("params.min_ttl: expected 0 or more seconds, got \(seconds)") }
    return .seconds(min(seconds, 1e9))
  }

  /// A token is handed out whole, so the account must have been granted all that is asked for.
  private func checkScopes(_ scopes: [String]?, resource: String?, _ grant: Grant) throws(RPCError) {
    let missing = (scopes ?? []).filter { !grant.saved.grantedScopes.contains($0) }
    guard missing.isEmpty else {
      let account = grant.saved.account
      throw RPCError(
        .scopeNotGranted, "account \(account) was not granted \(missing.joined(separator: " ").prefix(200))",
        hint: "Sign in again asking for it: `grantctl login \(grant.saved.provider) \(account) --scope …`.")
    }
    if let resource, resource != grant.saved.resource {
      throw RPCError(
        .scopeNotGranted,
        "account \(grant.saved.account) was signed in for "
          + (grant.saved.resource.map { "resource \($0)" } ?? "no particular resource"))
    }
  }

  func accountName(_ text: String) throws(RPCError) -> AccountName {
    guard let name = AccountName(rawValue: text) else {
      throw .invalidParams("params.account: expected 1 to 128 characters of A-Z a-z 0-9 . _ @ + -")
    }
    return name
  }

  func providerName(_ text: String) throws(RPCError) -> ProviderName {
    guard let name = ProviderName(rawValue: text) else {
      throw .invalidParams("params.provider: expected 1 to 64 characters of A-Z a-z 0-9 . _ @ + -")
    }
    return name
  }
}
