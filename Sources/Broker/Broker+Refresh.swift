import BrokerAPI
import Grants
import Logging
import OAuth

// The road of a refresh: place at the provider → intent on disk → request → renewal on disk → everybody sees it.
extension Broker {
  func refresh(
    _ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent, line: ProviderLine,
    _ ticket: ProviderGate.Ticket
  ) async {
    let begun = uptime
    let (sent, result) = await ask(account, attempt, intent, line: line)
    leave(account, ticket, result, line: line)
    let outcome: RefreshOutcome
    switch result {
    case .success(let issued): outcome = await renew(account, sent, issued, line: line)
    case .failure(let failure): outcome = await refreshFailed(account, sent, failure, line: line)
    case nil:
      grants[account]?.withdrawn(sent)
      await saveStanding(of: account, "a refresh that was not sent")
      outcome = .discarded
    }
    measures.refreshEnded(line.provider.name, outcome, took: uptime - begun)
    refreshesInFlight -= 1
    changed(account)
    // The place is free for the next that a caller waits for; those that are merely due come with the clockwork.
    if dispatch(line.provider.name, due: []) != nil { nudge?.yield() }
  }

  /// Nil: it was not sent, by our own choice.
  private func ask(
    _ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent, line: ProviderLine
  ) async -> (Grant.Attempt, Result<Issued, ProviderFailure>?) {
    let provider = line.provider
    let metadata: ServerMetadata
    switch await self.metadata(of: provider.name) {
    case .success(let known): metadata = known
    // Nothing went to the token endpoint; and metadata that are missing during an outage stop no account.
    case .failure(let failure): return (attempt, .failure(.notSent(message: failure.message)))
    }
    await prepareKeys(of: provider)
    // Where nothing rotates it can be asked again: it need not wait for a disk that is mended.
    let isSafe = await saveIntent(account, attempt, intent) || grants[account].map { !canLose($0.saved) } ?? false
    guard isSafe else { return (attempt, nil) }
    // Too late for its answer to be kept, or asked under settings that are no longer those of the metadata.
    guard !isDraining, isCurrent(line) else { return (attempt, nil) }
    guard let sent = grants[account]?.sends(attempt, at: now), let grant = grants[account] else {
      return (attempt, nil)
    }
    guard grant.saved.kind.needsNobody else {
      let step = provider.refresh(grant.saved, token: sent.refreshToken, key: sent.key, metadata: metadata)
      return (sent, await converse(step, with: provider.name, isRefresh: true))
    }
    switch await issue(grant.saved, sent.key, line: line, metadata: metadata) {
    case .success(let step): return (sent, await converse(step, with: provider.name, isRefresh: true))
    case .failure(let failure): return (sent, .failure(failure))
    }
  }

  /// False: its answer could not be saved either, or nobody wants it any more.
  private func saveIntent(_ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent) async -> Bool {
    await takeTurn(account)
    defer { leaveTurn(account) }
    // A login may have taken the grant's place meanwhile, or a logout.
    guard case .refreshing(let current) = grants[account]?.phase, current == attempt else { return false }
    do throws(StoreError) {
      try await commit([.putIntent(intent)])
      return true
    } catch {
      return false
    }
  }

  private func renew(
    _ account: AccountName, _ attempt: Grant.Attempt, _ issued: Issued, line: ProviderLine
  ) async -> RefreshOutcome {
    let provider = line.provider
    let before = grants[account]?.saved
    let outcome = grants[account]?.answered(
      attempt, issued, rotation: provider.about.rotation, refreshTokenLifetime: provider.about.refreshTokenLifetime,
      isProlonged: provider.about.prolongsRefreshTokens)
    guard case .commit(let renewal) = outcome else {
      // A discarded answer for a forgotten account still holds a live refresh token.
      if grants[account] == nil, let token = issued.tokens.refreshToken {
        await queueRevocations([(token, "refresh_token")], provider: provider.name)
      }
      return .discarded
    }
    guard await commitRenewal(account, attempt) else {
      if grants[account] == nil, let token = renewal.grant.refreshToken {
        await queueRevocations([(token, "refresh_token")], provider: provider.name)
      }
      return .discarded
    }
    providers[provider.name]?.suspension = nil
    providers[provider.name]?.lastError = nil
    var metadata: Logger.Metadata = ["account": "\(account)", "provider": "\(provider.name)"]
    metadata["generation"] = "\(renewal.token.generation)"
    logger.info("refreshed the token of \(account)", metadata: metadata)
    if let warning = issued.warning { logger.warning("\(account): \(warning)", metadata: metadata) }
    emit(
      Event(
        type: .tokenRefreshed, at: now.seconds, account: account.rawValue, provider: provider.name.rawValue,
        generation: renewal.token.generation))
    if let before { await refreshTokenLived(before) }
    return .success
  }

  /// Tries until the renewal is on disk: until then it is in memory only, and nobody sees it. False: it is not wanted
  /// any more, or the broker stops.
  private func commitRenewal(_ account: AccountName, _ attempt: Grant.Attempt) async -> Bool {
    var delay = Duration.milliseconds(200)
    while true {
      switch await tryCommit(account, attempt) {
      case .saved: return true
      case .unwanted: return false
      case .failed:
        if isStopped { return false }
        waiting.wake(.account(account))
        if waiting.count < Limit.waiters {
          await wait(for: .store, until: uptime + delay)
        } else {
          await surroundings.sleep(delay)
        }
        delay = min(delay * 2, Limit.longestSleep)
      }
    }
  }

  private enum Tried {
    case saved, unwanted, failed
  }

  private func tryCommit(_ account: AccountName, _ attempt: Grant.Attempt) async -> Tried {
    await takeTurn(account)
    defer { leaveTurn(account) }
    // A login or a logout may have taken the grant's place meanwhile.
    guard case .committing(let current, let renewal) = grants[account]?.phase, current == attempt else {
      return .unwanted
    }
    do throws(StoreError) {
      let dropped = renewal.dropped.map { Change.removeToken(account, $0) }
      try await commit([.putGrant(renewal.grant)] + dropped + [.putToken(renewal.token), .removeIntent(account)])
    } catch {
      // The refresh token on disk stays good: a crash now loses nothing but this access token.
      guard let grant = grants[account], !canLose(grant.saved), grant.isCommittingSameRefreshToken else {
        return .failed
      }
      unsaved.insert(account)
    }
    return grants[account]?.committed(attempt, jitter: surroundings.jitter()) == true ? .saved : .unwanted
  }

  private func refreshFailed(
    _ account: AccountName, _ attempt: Grant.Attempt, _ failure: ProviderFailure, line: ProviderLine
  ) async -> RefreshOutcome {
    let provider = line.provider.name
    providers[provider]?.lastError = failure.message
    let outcome = grants[account]?.failed(
      attempt, failure, at: now, policy: configuration.refresh, jitter: surroundings.jitter(),
      rotation: providers[provider]?.provider.about.rotation ?? .strict)
    switch outcome {
    case .retry(let saved, let retryAt):
      await saveStanding(of: account, "a failed refresh")
      report(saved, unavailable(orSelf: account, failure, retryAt: retryAt), .tokenFailed)
      return .retry
    case .ended(let saved, let reason):
      await saveStanding(of: account, "the end of a grant")
      if reason == .refused || reason == .refreshTokenExpired { await refreshTokenEnded(saved) }
      if let grant = grants[account], case .loginRequired(_, let told) = grant.saved.standing {
        report(saved, loginRequired(grant, reason, told), .loginRequired)
      }
      return .ended
    case .misconfigured(let saved):
      let told = Failure(message: failure.message, oauth: failure.oauth, at: now)
      if !isCurrent(line) {
        // That was the client of the settings before: those of now have not been tried.
        grants[account]?.retryNow(at: now)
      } else if !isAbout(saved, alone: failure, line.provider.about) {
        providers[provider]?.suspension = (told, until: now + Limit.suspension)
      }
      await saveStanding(of: account, "a refused client")
      if let grant = grants[account] { report(saved, misconfigured(grant, told), .tokenFailed) }
      for other in grants.keys where grants[other]?.saved.provider == provider { changed(other) }
      return .misconfigured
    case .refused(let saved):
      await saveStanding(of: account, "a refused scope")
      logger.notice(
        "\(account): the provider gives no such token: \(failure.message)",
        metadata: ["account": "\(account)", "provider": "\(saved.provider)"])
      return .discarded
    case .discard, nil: return .discarded
    }
  }

  /// A scope or a resource that a login chose for itself says nothing of the provider's settings; nor does what is
  /// refused to a declared account, unless it is the client that all of them are.
  private func isAbout(_ saved: SavedGrant, alone failure: ProviderFailure, _ about: ProviderAbout) -> Bool {
    if saved.kind.needsNobody { return failure.oauth?.code != .invalidClient }
    return switch failure.oauth?.code {
    case .invalidScope: Set(saved.requestedScopes) != Set(about.scopes)
    case .invalidTarget: saved.resource != about.resource
    default: false
    }
  }

  private func unavailable(orSelf account: AccountName, _ failure: ProviderFailure, retryAt: Timestamp) -> RPCError {
    let told = Failure(message: failure.message, oauth: failure.oauth, at: now)
    return grants[account].map { unavailable($0, told, retryAt: retryAt) } ?? RPCError(.unknownAccount, failure.message)
  }

  func report(_ saved: SavedGrant, _ error: RPCError, _ type: EventType) {
    let metadata: Logger.Metadata = [
      "account": "\(saved.account)", "provider": "\(saved.provider)", "reason": "\(error.reason?.rawValue ?? "")",
      "hint": "\(error.hint ?? "")",
    ]
    logger.warning("\(error.message)", metadata: metadata)
    emit(
      Event(
        type: type, at: now.seconds, account: saved.account.rawValue, provider: saved.provider.rawValue,
        generation: saved.generation, reason: error.reason, message: error.message, hint: error.hint))
  }
}
