import BrokerAPI
import Grants
import Logging
import OAuth

// Which refreshes begin now: those of callers that wait, then those that are due, as the provider's gate lets them.
extension Broker {
  enum Started {
    /// It runs, or will when it is its turn.
    case underWay
    case impossible
    case suspended(Failure)
    /// The provider does not answer.
    case unreachable(Failure, retryAt: Timestamp)
    /// Its answer could not be saved.
    case heldBack(StoreError)
  }

  /// A caller waits for a refresh: it begins now, or in its turn.
  func want(_ account: AccountName, _ key: SavedToken.Key = .init()) -> Started {
    guard !isDraining, let grant = grants[account] else { return .impossible }
    let name = grant.saved.provider
    guard let line = providers[name] else { return .suspended(Failure(message: gone(name).message, at: now)) }
    guard grant.phase == .idle else { return .underWay }
    if let failure = line.suspended(at: now) { return .suspended(failure) }
    guard grant.saved.isRenewable else { return .impossible }
    if case .loginRequired = grant.saved.standing { return .impossible }
    if let error = holdsBack(grant) { return .heldBack(error) }
    if case .open(let outage, let retryAt) = line.gate.circuit.state, retryAt > uptime {
      return .unreachable(outage.failure, retryAt: wall(retryAt))
    }
    grants[account]?.wants(key)
    if !line.wanted.contains(account) { providers[name]?.wanted.append(account) }
    if dispatch(name, due: []) != nil { nudge?.yield() }
    return .underWay
  }

  /// Begins what the gate lets through; says when it would let through more, where something waits for that.
  func dispatch(_ name: ProviderName, due: [AccountName]) -> Timestamp? {
    guard !isDraining, let line = providers[name],
      !(due.isEmpty && line.wanted.isEmpty) || line.gate.circuit.outage != nil
    else { return nil }
    if line.suspended(at: now) != nil { return line.suspension?.until }
    // Whom it lets through matters only where it lets anybody through.
    var gate = line.gate
    switch gate.admit(
      isWanted: !line.wanted.isEmpty, accounts: line.accounts, at: uptime, policy: configuration.refresh)
    {
    case .go: break
    case .full: return nil
    case .later(let moment): return wall(moment)
    }
    var candidates = candidates(line, due: due)
    // Those go on when the store works.
    if storeFailure != nil { candidates.removeAll { grants[$0.account].map { holdsBack($0) != nil } ?? true } }
    while let candidate = next(&candidates, at: name) {
      guard
        let admission = providers[name]?.gate.admit(
          isWanted: candidate.place != nil, accounts: line.accounts, at: uptime,
          policy: configuration.refresh)
      else { return nil }
      switch admission {
      case .go(let ticket): begin(candidate.account, at: name, ticket)
      case .full: return nil
      case .later(let moment): return wall(moment)
      }
    }
    return nil
  }

  private func candidates(_ line: ProviderLine, due: [AccountName]) -> [Candidate] {
    let name = line.provider.name
    // Whoever no longer needs one has been served, or has gone.
    let wanted = line.wanted.filter { account in
      grants[account].map { $0.phase == .idle && $0.saved.provider == name } ?? false
    }
    providers[name]?.wanted = wanted
    let places = Dictionary(uniqueKeysWithValues: wanted.enumerated().map { ($1, $0) })
    var accounts = wanted + due.filter { places[$0] == nil }
    if line.gate.circuit.outage != nil {
      // Their own waits say nothing of when the provider is tried.
      let known = Set(accounts)
      accounts += grants.values.filter {
        $0.waitsForProvider && $0.phase == .idle && $0.saved.provider == name && !known.contains($0.saved.account)
      }.map(\.saved.account)
    }
    let all = accounts.compactMap { account in
      grants[account].map {
        Candidate(
          account: account, place: places[account], isAtRisk: $0.intent != nil, expiresAt: $0.token?.expiresAt,
          probes: line.probes[account] ?? 0)
      }
    }
    // The last comes first: it is taken off the end.
    return Candidate.inOrder(all).reversed()
  }

  private func next(_ candidates: inout [Candidate], at name: ProviderName) -> Candidate? {
    guard providers[name]?.gate.circuit.outage != nil else { return candidates.popLast() }
    let probe = Candidate.probe(candidates)
    candidates.removeAll { $0.account == probe?.account }
    return probe
  }

  private func begin(_ account: AccountName, at name: ProviderName, _ ticket: ProviderGate.Ticket) {
    providers[name]?.wanted.removeAll { $0 == account }
    guard let line = providers[name],
      case .begun(let attempt, let intent) = grants[account]?.beginRefresh(
        at: now, policy: configuration.refresh)
    else {
      providers[name]?.gate.withdrawn(ticket, at: uptime)
      return
    }
    refreshesInFlight += 1
    updateSummary()
    Task { await refresh(account, attempt, intent, line: line, ticket) }
  }

  // MARK: What a request's end says of the provider

  /// Nil: it was not sent.
  func leave(
    _ account: AccountName, _ ticket: ProviderGate.Ticket, _ result: Result<Issued, ProviderFailure>?,
    line: ProviderLine
  ) {
    let name = line.provider.name
    // One that went and came back has another gate.
    guard providers[name]?.id == line.id else { return }
    switch result {
    case nil: providers[name]?.gate.withdrawn(ticket, at: uptime)
    case .failure(let failure) where failure.isOfProvider:
      if ticket.isProbe { providers[name]?.probes[account, default: 0] += 1 }
      let told = Failure(message: failure.message, oauth: failure.oauth, at: now)
      let turn = providers[name]?.gate.failed(
        ticket, told, retryAfter: failure.retryAfter, at: uptime, policy: configuration.refresh,
        jitter: surroundings.jitter())
      if turn == .unreachable { unreachable(name, told) }
      // Whoever waits for the probe's end learns that there is no answer yet.
      if ticket.isProbe || turn == .unreachable { wakeWanted(name) }
    case .success, .failure:
      if providers[name]?.gate.answered(ticket, policy: configuration.refresh) == .recovered { recovered(name) }
    }
  }

  func wakeWanted(_ name: ProviderName) {
    let wanted = providers[name]?.wanted ?? []
    providers[name]?.wanted = []
    for account in wanted { waiting.wake(.account(account)) }
  }

  private func unreachable(_ name: ProviderName, _ failure: Failure) {
    measures.providerUnreachable(name)
    providers[name]?.probes = [:]
    let hint = "Nothing to do: it is tried again by itself. `grantctl doctor \(name)` tells more."
    logger.warning(
      "provider \(name) does not answer: \(failure.message)", metadata: ["provider": "\(name)", "hint": "\(hint)"])
    emit(
      Event(
        type: .providerUnreachable, at: now.seconds, provider: name.rawValue, reason: .temporarilyUnavailable,
        message: failure.message, hint: hint))
    updateSummary()
  }

  private func recovered(_ name: ProviderName) {
    providers[name]?.probes = [:]
    logger.notice("provider \(name) answers again", metadata: ["provider": "\(name)"])
    emit(Event(type: .providerRecovered, at: now.seconds, provider: name.rawValue))
    retryWaiting(at: name)
    updateSummary()
  }

  /// What failed because of the provider is tried again without its own wait; the gate spreads it.
  func retryWaiting(at name: ProviderName) {
    for (account, grant) in grants where grant.saved.provider == name && grant.waitsForProvider {
      grants[account]?.retryNow(at: now)
    }
    nudge?.yield()
  }

  // MARK: Looking again

  /// The network is back, the machine woke up, or its clock was set: what failed before may work now.
  public func recheck(_ cause: RecheckCause) {
    logger.info("looking again at everything that waits: \(cause.rawValue)")
    watchClock()
    for name in providers.keys {
      providers[name]?.metadataFailure = nil
      providers[name]?.keysFailedAt = nil
      providers[name]?.gate.recheck(at: uptime)
      retryWaiting(at: name)
    }
    for id in revocations.keys where (revocations[id]?.attempts ?? 0) > 0 { revocations[id]?.retryAt = now }
    lastExamined = .zero
    nudge?.yield()
  }
}

/// Why everything that waits is looked at again.
public enum RecheckCause: String, Sendable {
  case networkUp = "the network is up"
  case resumed = "the machine woke up"
  case clockStepped = "the clock was set"
}
