import BrokerAPI
import Grants
import Logging
import OAuth

// One refresh: the intent on disk → the request → the renewal on disk → visible to callers.
extension RefreshEngine {
  /// The destination of a request, its settings, and the exchanged tokens.
  @BrokerActor
  struct RefreshRequestContext: Sendable {
    let connection: ProviderConnection
    let provider: any Provider
    let settings: UInt64
    let trade: Trade

    init(_ connection: ProviderConnection, _ trade: Trade) {
      self.connection = connection
      provider = connection.provider
      settings = connection.settings
      self.trade = trade
    }
  }

  /// Whether the provider still has the settings that something was asked for under.
  func isCurrent(_ asked: RefreshRequestContext) -> Bool {
    providers.isCurrent(asked.connection, asked.settings)
  }

  func refresh(
    _ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent?, _ asked: RefreshRequestContext,
    _ ticket: ProviderGate.Ticket
  ) async {
    let begun = uptime
    let before = accounts[account]?.saved
    let charge = budgets.replacements.charge(for: account)
    let (sent, result) = await ask(account, attempt, intent, asked, ticket)
    let isPlaceFree = leases.late.removeValue(forKey: key(account, attempt)) != nil
    recordOutcome(account, isPlaceFree ? nil : ticket, result, asked)
    let outcome: RefreshOutcome
    switch result {
    case .success(.issued(let issued)): outcome = await renew(account, sent, issued, asked, before)
    case .success(.rotated(let new, let failure)):
      outcome = await keep(new, of: account, sent, failure, asked, before)
    case .failure(let failure):
      outcome = await refreshFailed(account, sent, failure, asked)
      // Its wait would be for an outage that is over.
      if outcome == .retry, failure.isOfProvider, failure.retryAfter == nil,
        asked.connection.gate.hasRecovered(since: ticket)
      {
        accounts[account]?.retryNow(at: now)
      }
    case nil:
      accounts[account]?.withdrawn(sent)
      // Without the lease nothing was written to a shared store, and the stored row may be another broker's.
      let leased = expectations(account, attempt)
      if journal.failure != nil, !journal.isShared {
        // With the journal's next attempt: a separate commit that works would end the failure, and the refresh whose
        // intent the store refuses would begin again at once.
        if accounts.contains(account) { journal.keep(account) }
      } else if leased != nil || !journal.isShared {
        await accounts.saveStanding(of: account, "a refresh that was not sent", leased: leased)
      } else if journal.isKept(account) {
        await accounts.saveKept(account)
      }
      outcome = .discarded
    }
    if let leased = leases.held.removeValue(forKey: key(account, attempt)) { await journal.store.release(leased.lease) }
    measures.refreshEnded(asked.provider.name, outcome, took: uptime - begun)
    leases.inFlight -= 1
    budgets.replacements.drop(charge, of: account)
    if outcome != .success { accounts.changed(account) }
    if dispatch(asked.provider.name) != nil { wakeScheduler() }
  }

  /// Nil: it was not sent, by our own choice.
  private func ask(
    _ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent?, _ asked: RefreshRequestContext,
    _ ticket: ProviderGate.Ticket
  ) async -> (Grant.Attempt, Result<RefreshAnswer, ProviderFailure>?) {
    let (connection, provider) = (asked.connection, asked.provider)
    let metadata: ServerMetadata
    switch await connection.currentMetadata() {
    case .success(let known):
      metadata = known
      connection.gate.goesOn(ticket, at: uptime)
    // Waiting does not help: the admin has to know.
    case .failure(.misconfigured(let message, let oauth)):
      return (attempt, .failure(.misconfigured(message: message, oauth)))
    // Nothing went to the token endpoint; and metadata that are missing during an outage stop no account.
    case .failure(let failure): return (attempt, .failure(.notSent(message: failure.message)))
    }
    await connection.prepareKeys()
    if let intent {
      switch await saveIntent(account, attempt, intent) {
      case .saved: break
      case .unwanted: return (attempt, nil)
      // The refresh token in memory may be spent.
      case .blocked(let error): return (attempt, .failure(.blocked(message: error.message)))
      // Without rotation the request can be repeated, so it does not wait for a disk that fails.
      case .failed: guard accounts[account].map({ !accounts.canLose($0.saved) }) ?? false else { return (attempt, nil) }
      }
    }
    // Too late for its answer to be kept, or requested under settings that the metadata no longer match. The exchanged
    // tokens are from before a reload too.
    guard !isDraining, isCurrent(asked) else { return (attempt, nil) }
    guard let sent = accounts[account]?.sends(attempt, at: now), let grant = accounts[account] else {
      return (attempt, nil)
    }
    if sent.isExchange { return (sent, await exchange(grant, sent.key, asked, metadata)) }
    leases.awaited.insert(key(account, attempt))
    defer { leases.awaited.remove(key(account, attempt)) }
    guard grant.saved.kind.isUnattended else {
      let wanted = scopesToAskFor(grant, sent, asked)
      let late = lateAnswer(account, sent, asked, ticket)
      let latest = latestSend(account, sent)
      func send(_ key: SavedToken.Key) async -> Result<RefreshAnswer, ProviderFailure> {
        let saved = key == sent.key ? withoutRefusedScopes(grant, connection) : grant.saved
        let step = provider.refresh(saved, token: sent.refreshToken, key: key, metadata: metadata)
        return await connection.converse(step, for: .refreshes, late: late, latest: latest)
      }
      guard let wanted else { return (sent, unlessTooLate(await send(sent.key), account, sent)) }
      let result = unlessTooLate(await send(SavedToken.Key(scopes: wanted, resource: nil)), account, sent)
      guard let result else { return (sent, nil) }
      // The refusal did not use the refresh token, so it is sent again without scopes.
      return (sent, isScopeRefused(result, account, connection) ? await send(sent.key) : result)
    }
    switch issue(grant.saved, sent.key, asked, metadata) {
    case .success(let step):
      return (sent, await connection.converse(step, for: .refreshes).map { .issued($0) })
    case .failure(let failure): return (sent, .failure(failure))
    }
  }

  /// Nil: the lease was over before the request was sent. That is not the provider's failure.
  private func unlessTooLate(
    _ result: Result<RefreshAnswer, ProviderFailure>, _ account: AccountName, _ attempt: Grant.Attempt
  ) -> Result<RefreshAnswer, ProviderFailure>? {
    if case .failure(.notSent) = result, isTooLate(account, attempt) { nil } else { result }
  }

  /// - Parameter before: the grant that was refreshed; nil: it was gone before anything was sent.
  private func renew(
    _ account: AccountName, _ attempt: Grant.Attempt, _ issued: Issued, _ asked: RefreshRequestContext,
    _ before: SavedGrant?
  ) async -> RefreshOutcome {
    let provider = asked.provider
    let traits = provider.refreshTraits
    let outcome = accounts[account]?.answered(
      attempt, issued, rotation: traits.rotation, refreshTokenLifetime: traits.lifetime, isProlonged: traits.isSliding)
    guard case .commit(let renewal) = outcome else {
      await revokeUnused(issued.tokens.refreshToken, of: account, attempt, provider, before)
      return .discarded
    }
    guard await commitRenewal(account, attempt) else {
      await revokeUnused(renewal.grant.refreshToken, of: account, attempt, provider, before)
      return .discarded
    }
    let isOfRefreshToken = !attempt.isExchange && before?.kind.isUnattended == false
    if isCurrent(asked) { asked.connection.works(isRefresh: isOfRefreshToken) }
    let generation = renewal.grant.generation
    let metadata: Logger.Metadata = [
      "account": "\(account)", "provider": "\(provider.name)", "generation": "\(generation)",
    ]
    logger.info("refreshed the token of \(account)", metadata: metadata)
    if let warning = issued.warning { logger.warning("\(account): \(warning)", metadata: metadata) }
    asked.connection.passedOver(issued.tokens.oddities)
    if !attempt.key.isNarrowed {
      if renewal.token?.expiresAt == nil { asked.connection.passedOver([TokenResponse.unknownLifetime]) }
      asked.connection.diagnostics.omitsScope = issued.tokens.scope == nil
      reportLostScopes(account)
    }
    emit(
      Event(
        type: .tokenRefreshed, at: now.seconds, account: account.rawValue, provider: provider.name.rawValue,
        generation: generation))
    if let before, isOfRefreshToken { await refreshTokenLived(before) }
    // It may ask the provider, which no caller waits for.
    if attempt.key.isNarrowed { Task { await judgeNarrowing(account, attempt, issued.tokens, asked) } }
    return .success
  }

  /// The answer cannot be used, but its new refresh token is on disk before the failure is judged.
  private func keep(
    _ new: RotatedToken, of account: AccountName, _ attempt: Grant.Attempt, _ failure: ProviderFailure,
    _ asked: RefreshRequestContext,
    _ before: SavedGrant?
  ) async -> RefreshOutcome {
    let traits = asked.provider.refreshTraits
    guard new.token != attempt.refreshToken else { return await refreshFailed(account, attempt, failure, asked) }
    let outcome = accounts[account]?.rotated(
      attempt, to: new, rotation: traits.rotation, refreshTokenLifetime: traits.lifetime)
    guard case .commit = outcome, await commitRenewal(account, attempt) else {
      await revokeUnused(new.token, of: account, attempt, asked.provider, before)
      return .discarded
    }
    // The state after the failure is saved if this is still stored.
    logger.notice(
      "kept the new refresh token of \(account), whose answer cannot be used",
      metadata: ["account": "\(account)", "provider": "\(asked.provider.name)"])
    return await refreshFailed(account, attempt, failure, asked)
  }

  /// Revokes the refresh token of an answer that is not kept: a logout, a sign-out or a login came first.
  private func revokeUnused(
    _ token: Secret?, of account: AccountName, _ attempt: Grant.Attempt, _ provider: any Provider,
    _ before: SavedGrant?
  ) async {
    guard let token, !token.isEmpty, token != attempt.refreshToken else { return }
    let current = accounts[account]?.saved.refreshToken
    // Another broker has renewed the same login: a revocation could end its new token.
    if journal.isShared, current != nil, accounts[account]?.saved.loggedInAt == before?.loggedInAt { return }
    // If the account still has the token that was sent, a revocation of its successor could end both.
    guard current != token, current != attempt.refreshToken else { return }
    // The token of a login may belong to the same grant (decision 30).
    guard current == nil || provider.revocationTraits.endsReplaced else { return }
    await revocations.queue(
      [(token, "refresh_token")], before.map { revocations.context(of: $0) } ?? [:], provider: provider.name,
      issuer: TokenIssuer(provider))
  }

  /// Repeats until the renewal is on disk: until then it is only in memory, and no caller sees it. False: no longer
  /// needed, or the broker stops.
  private func commitRenewal(_ account: AccountName, _ attempt: Grant.Attempt) async -> Bool {
    var delay = Duration.milliseconds(200)
    var conflicts = 0
    while true {
      switch await tryCommit(account, attempt) {
      case .saved: return true
      case .unwanted: return false
      case .again where conflicts < Limit.conflicts: conflicts += 1
      case .again, .failed:
        conflicts = 0
        if isStopped { return false }
        waiters.wake(.account(account))
        await wait(for: .store, until: uptime + delay)
        delay = min(delay * 2, Limit.longestSleep)
      }
    }
  }

  private func tryCommit(_ account: AccountName, _ attempt: Grant.Attempt) async -> Tried {
    await journal.lock(account)
    defer { journal.unlock(account) }
    // A login may have replaced the grant in the interim, or a logout removed it.
    guard case .committing(let current, let renewal) = accounts[account]?.phase, current == attempt else {
      return .unwanted
    }
    do throws(StoreError) {
      let dropped = renewal.dropped.map { Change.removeToken(account, $0) }
      let ended: [Change] = attempt.isExchange ? [] : [.removeIntent(account)]
      try await journal.commit(
        [.putGrant(renewal.grant)] + dropped + (renewal.token.map { [.putToken($0)] } ?? []) + ended,
        expecting: journal.expectations(account) + (expectations(account, attempt) ?? []))
    } catch {
      if error == .conflict { return await leaseEnded(account, attempt) }
      // The refresh token on disk stays good: a crash now loses nothing but this access token.
      guard let grant = accounts[account], !accounts.canLose(grant.saved), grant.isCommittingSameRefreshToken else {
        return .failed
      }
      journal.keep(account)
    }
    guard accounts[account]?.committed(attempt, jitter: system.jitter()) == true else { return .unwanted }
    // Its callers wait for nothing else.
    accounts.changed(account)
    budgets.replacements.replaced(account, at: uptime)
    return .saved
  }

  func refreshFailed(
    _ account: AccountName, _ attempt: Grant.Attempt, _ failure: ProviderFailure, _ asked: RefreshRequestContext
  ) async -> RefreshOutcome {
    asked.connection.diagnostics.lastError = failure.message
    let leased = expectations(account, attempt)
    let outcome = accounts[account]?.failed(
      attempt, failure, at: now, policy: accounts.refreshPolicy, jitter: system.jitter(),
      rotation: asked.connection.provider.refreshTraits.rotation,
      lastSuccessOfOthers: asked.connection.history.lastSuccess)
    switch outcome {
    case .retry(let saved, let retryAt):
      await accounts.saveStanding(of: account, "a failed refresh", leased: leased)
      // It waits with the provider's other accounts, and so do its callers.
      if case .rateLimited = failure, retryAt <= now { return .retry }
      accounts.report(saved, unavailable(account, failure, retryAt: retryAt), .tokenFailed)
      return .retry
    case .ended(let saved, let reason):
      await accounts.saveStanding(of: account, "the end of a grant", leased: leased)
      if let grant = accounts[account], grant.awaitsSecondTry {
        let retryAt = grant.nextMoment(policy: accounts.refreshPolicy, at: now) ?? now
        accounts.report(saved, unavailable(account, failure, retryAt: retryAt), .tokenFailed)
        return .retry
      }
      if reason == .refused || reason == .refreshTokenExpired { await refreshTokenEnded(saved) }
      if let grant = accounts[account] { accounts.reportEnd(of: grant) }
      return .ended
    case .misconfigured(let saved):
      let told = FailureRecord(message: failure.message, oauth: failure.oauth, at: now)
      // That makes new settings.
      _ = await registrations.hasOtherAuthentication(after: failure, at: asked.provider.name)
      if !isCurrent(asked) {
        // That was the client of the settings before: those of now have not been tried.
        accounts[account]?.retryNow(at: now)
      } else if isOfClient(saved, failure, asked.connection) {
        asked.connection.history.suspension = (told, until: now + Limit.suspension)
        // Its other accounts rest with it.
        wakeWanted(asked.provider.name)
      } else if !saved.kind.isUnattended, failure.oauth != nil {
        asked.connection.history.clientRefusals.add(account, told, at: now)
      }
      await accounts.saveStanding(of: account, "a refused client", leased: leased)
      if let grant = accounts[account] {
        accounts.report(
          saved, accounts.misconfigured(grant, told), grant.isRefusedAlone ? .loginRequired : .tokenFailed)
      }
      runtime.summary.changed()
      return .misconfigured
    case .refused(let saved):
      await accounts.saveStanding(of: account, "a refused scope", leased: leased)
      logger.notice(
        "\(account): the provider gives no such token: \(failure.message)",
        metadata: ["account": "\(account)", "provider": "\(saved.provider)"])
      return .discarded
    case .discard, nil: return .discarded
    }
  }

  /// Whether all accounts of the provider are concerned: the settings cannot be used, or the client was refused at a
  /// request that presents no grant. A refusal of one account's refresh token concerns that account.
  private func isOfClient(_ saved: SavedGrant, _ failure: ProviderFailure, _ connection: ProviderConnection) -> Bool {
    if connection.hasWrongMetadata { return true }
    guard let oauth = failure.oauth else { return !saved.kind.isUnattended }
    return saved.kind.isUnattended && oauth.code == .invalidClient
  }

  func unavailable(_ account: AccountName, _ failure: ProviderFailure, retryAt: Timestamp) -> RPCError {
    let told = FailureRecord(message: failure.message, oauth: failure.oauth, at: now)
    return accounts[account].map { accounts.unavailable($0, told, retryAt: retryAt) }
      ?? RPCError(.unknownAccount, failure.message)
  }
}
