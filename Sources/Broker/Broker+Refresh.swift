import BrokerAPI
import Grants
import Logging
import OAuth

// The road of a refresh: intent on disk → place at the provider → request → renewal on disk → everybody sees it.
extension Broker {
  enum Started {
    /// It runs, or ran already.
    case underWay
    case impossible
    case suspended(Failure)
  }

  /// Begins a refresh unless one is under way.
  @discardableResult
  func startRefresh(_ account: AccountName) -> Started {
    guard let grant = grants[account] else { return .impossible }
    let name = grant.saved.provider
    guard let line = providers[name] else { return .suspended(Failure(message: gone(name).message, at: now)) }
    if let failure = line.suspended(at: now) { return .suspended(failure) }
    guard !isDraining else { return .impossible }
    switch grants[account]?.beginRefresh(at: now) {
    case .begun(let attempt, let intent):
      refreshesInFlight += 1
      updateSummary()
      Task { await refresh(account, attempt, intent, line: line) }
      return .underWay
    case .already: return .underWay
    case .impossible, nil: return .impossible
    }
  }

  private func refresh(
    _ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent, line: ProviderLine
  ) async {
    let provider = line.provider
    let place = await takePlace(at: provider.name)
    if isDraining || providers[provider.name]?.suspended(at: now) != nil {
      // It queued while the broker or the provider stopped.
      grants[account]?.withdrawn(attempt)
      leavePlace(place, at: provider.name)
    } else {
      let (sent, result) = await ask(account, attempt, intent, line: line)
      leavePlace(place, at: provider.name)
      switch result {
      case .success(let issued): await renew(account, sent, issued, provider: provider)
      case .failure(let failure): await refreshFailed(account, sent, failure, line: line)
      case nil:
        grants[account]?.withdrawn(sent)
        await saveStanding(of: account, "a refresh that was not sent")
      }
    }
    refreshesInFlight -= 1
    changed(account)
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
    if let failure = await saveIntent(account, attempt, intent) { return (attempt, .failure(failure)) }
    // Too late for its answer to be kept, or asked under settings that are no longer those of the metadata.
    guard !isDraining, isCurrent(line) else { return (attempt, nil) }
    guard let sent = grants[account]?.sends(attempt, at: now), let grant = grants[account] else {
      return (attempt, .failure(.notSent(message: "no longer wanted")))
    }
    let step = provider.refresh(grant.saved, token: sent.refreshToken, metadata: metadata)
    return (sent, await converse(step, with: provider.name, isRefresh: true))
  }

  private func saveIntent(
    _ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent
  ) async -> ProviderFailure? {
    await takeTurn(account)
    defer { leaveTurn(account) }
    // A login may have taken the grant's place meanwhile, or a logout.
    guard grants[account]?.phase == .refreshing(attempt) else { return .notSent(message: "no longer wanted") }
    do throws(StoreError) {
      try await commit([.putIntent(intent)])
      return nil
    } catch {
      return .notSent(message: "held back, since its answer could not be saved: \(error.message)")
    }
  }

  private func renew(
    _ account: AccountName, _ attempt: Grant.Attempt, _ issued: Issued, provider: any Provider
  ) async {
    let outcome = grants[account]?.answered(
      attempt, issued, rotation: provider.about.rotation, refreshTokenLifetime: provider.about.refreshTokenLifetime)
    guard case .commit(let renewal) = outcome else {
      // A discarded answer for a forgotten account still holds a live refresh token.
      if grants[account] == nil, let token = issued.tokens.refreshToken {
        await queueRevocations([(token, "refresh_token")], provider: provider.name)
      }
      return
    }
    guard await commitRenewal(account, attempt, renewal) else { return }
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
  }

  /// Tries until the renewal is on disk: until then it is in memory only, and nobody sees it. False: it is not wanted
  /// any more, or the broker stops.
  private func commitRenewal(
    _ account: AccountName, _ attempt: Grant.Attempt, _ renewal: Grant.Renewal
  ) async -> Bool {
    var delay = Duration.milliseconds(200)
    while true {
      switch await tryCommit(account, attempt, renewal) {
      case .saved: return true
      case .unwanted: return false
      case .failed:
        if isStopped { return false }
        waiting.wake(.account(account))
        await surroundings.sleep(delay)
        delay = min(delay * 2, Limit.longestSleep)
      }
    }
  }

  private enum Tried {
    case saved, unwanted, failed
  }

  private func tryCommit(_ account: AccountName, _ attempt: Grant.Attempt, _ renewal: Grant.Renewal) async -> Tried {
    await takeTurn(account)
    defer { leaveTurn(account) }
    // A login or a logout may have taken the grant's place meanwhile.
    guard grants[account]?.phase == .committing(attempt, renewal) else {
      if grants[account] == nil, let token = renewal.grant.refreshToken {
        await queueRevocations([(token, "refresh_token")], provider: renewal.grant.provider)
      }
      return .unwanted
    }
    do throws(StoreError) {
      try await commit([.putGrant(renewal.grant), .putToken(renewal.token), .removeIntent(account)])
      return grants[account]?.committed(attempt, jitter: surroundings.jitter()) == true ? .saved : .unwanted
    } catch {
      return .failed
    }
  }

  private func refreshFailed(
    _ account: AccountName, _ attempt: Grant.Attempt, _ failure: ProviderFailure, line: ProviderLine
  ) async {
    let provider = line.provider.name
    providers[provider]?.lastError = failure.message
    let outcome = grants[account]?.failed(
      attempt, failure, at: now, policy: configuration.refresh, jitter: surroundings.jitter(),
      rotation: providers[provider]?.provider.about.rotation ?? .strict)
    switch outcome {
    case .retry(let saved, let retryAt, _):
      await saveStanding(of: account, "a failed refresh")
      report(saved, unavailable(orSelf: account, failure, retryAt: retryAt), .tokenFailed)
    case .ended(let saved, let reason):
      await saveStanding(of: account, "the end of a grant")
      if let grant = grants[account], case .loginRequired(_, let told) = grant.saved.standing {
        report(saved, loginRequired(grant, reason, told), .loginRequired)
      }
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
    case .discard, nil: break
    }
  }

  /// A scope or a resource that a login chose for itself says nothing of the provider's settings.
  private func isAbout(_ saved: SavedGrant, alone failure: ProviderFailure, _ about: ProviderAbout) -> Bool {
    switch failure.oauth?.code {
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
