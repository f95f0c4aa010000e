import BrokerAPI
import Grants
import Logging
import OAuth

// Selects the refreshes that begin now: those with waiting callers, then due ones, within the provider's limits.
extension RefreshEngine {
  enum Started {
    /// It runs, or will when it is its turn.
    case underWay
    case impossible
    case suspended(FailureRecord)
    /// The provider does not answer.
    case unreachable(FailureRecord, retryAt: Timestamp)
    /// Its answer could not be saved.
    case heldBack(StoreError)
  }

  /// A caller waits for a refresh: it begins now, or in its order.
  ///
  /// - Parameters:
  ///   - asker: the holder whose share it uses among the callers of the account's tokens.
  ///   - until: how long the caller waits.
  func want(
    _ account: AccountName, _ key: SavedToken.Key = .init(), by asker: String = "",
    until: Timestamp = Timestamp(milliseconds: .max)
  ) -> Started {
    guard !isDraining, let grant = accounts[account] else { return .impossible }
    let name = grant.saved.provider
    guard let connection = providers[name] else {
      return .suspended(FailureRecord(message: gone(name).message, at: now))
    }
    guard grant.phase == .idle, !trades.fetching.contains(account) else {
      accounts[account]?.wants(key, by: asker, until: until)
      return .underWay
    }
    if let failure = connection.suspended { return .suspended(failure) }
    guard isOfOwnClient(grant.saved) else {
      return .suspended(FailureRecord(message: accounts.otherClient(grant.saved), at: now))
    }
    guard grant.saved.isRenewable else { return .impossible }
    if case .loginRequired = grant.saved.standing {
      guard let moment = grant.nextMoment(policy: accounts.refreshPolicy, at: now), moment <= now else {
        return .impossible
      }
    }
    if let error = accounts.holdsBack(grant) { return .heldBack(error) }
    let circuit = connection.gate.circuit
    if let outage = circuit.outage, !mayProbe(connection), !awaitsProbe(connection) {
      let next = circuit.nextProbe(isWanted: false, policy: accounts.refreshPolicy) ?? uptime
      return .unreachable(outage.failure, retryAt: wall(next))
    }
    let held = wall(connection.gate.limit.heldUntil)
    if held > until { return .unreachable(rateLimit(of: name), retryAt: held) }
    accounts[account]?.wants(key, by: asker, until: until)
    // Its lease's holder brings the token, or its end lets us try.
    guard leaseElsewhere(account) == nil else { return .underWay }
    reschedule()
    queues.want(account, at: name)
    if dispatch(name) != nil { wakeScheduler() }
    // The requests that are stuck have all places.
    if let outage = connection.gate.circuit.outage, !isUnderWay(account), !awaitsProbe(connection) {
      queues[name]?.unwant(account)
      return .unreachable(outage.failure, retryAt: now + accounts.refreshPolicy.probePatience)
    }
    return .underWay
  }

  /// Whether something that brings the account's token has begun, here or at another broker.
  func isUnderWay(_ account: AccountName) -> Bool {
    accounts[account]?.phase != .idle || trades.fetching.contains(account) || leaseElsewhere(account) != nil
  }

  /// Begins refreshes within the provider's limits; returns when it permits more, if any are waiting.
  ///
  /// - Parameter includingDue: also those without waiting callers. The scheduler begins these.
  func dispatch(_ name: ProviderName, includingDue: Bool = false) -> Timestamp? {
    // No copy of the queue is kept: it is changed in place below.
    let isWaiting = queues[name].map { $0.wantedCount > 0 || includingDue && !$0.isEmpty }
    guard !isDraining, let connection = providers[name], let isWaiting,
      isWaiting || connection.gate.circuit.outage != nil
    else { return nil }
    if connection.suspended != nil { return connection.history.suspension?.until }
    let rest = connection.history.clientRefusals.rest(at: now)
    let includingDue = includingDue && rest == nil
    while let candidate = urgent(at: name, connection) ?? next(at: name, connection, includingDue: includingDue) {
      guard let trade = trade(of: candidate.account) else {
        fetchTrade(for: candidate.account, at: name)
        continue
      }
      switch connection.gate.admit(
        isWanted: candidate.isWanted, isUrgent: candidate.isUrgent, accounts: accounts.count(at: name), at: uptime,
        policy: accounts.refreshPolicy)
      {
      case .go(let ticket): begin(candidate.account, RefreshRequestContext(connection, trade), ticket)
      case .full: return nil
      case .later(let moment): return wall(moment)
      }
    }
    // No account can try it yet: not before its own time.
    let next = connection.gate.circuit.nextProbe(
      isWanted: wantedCount(at: name) > 0, policy: accounts.refreshPolicy)
    return next.flatMap { $0 > uptime ? wall($0) : nil } ?? rest?.until
  }

  /// Whether a caller's question may try a provider that does not answer.
  func mayProbe(_ connection: ProviderConnection) -> Bool {
    connection.gate.circuit.nextProbe(isWanted: true, policy: accounts.refreshPolicy).map { $0 <= uptime } ?? false
  }

  /// Whether a probe is under way that may be answered at any moment.
  func awaitsProbe(_ connection: ProviderConnection) -> Bool { probeEnd(connection).map { $0 > uptime } ?? false }

  func probeEnd(_ connection: ProviderConnection) -> Duration? {
    connection.gate.circuit.probeEnd(policy: accounts.refreshPolicy)
  }

  private typealias Next = (account: AccountName, isWanted: Bool, isUrgent: Bool)

  private func next(
    at name: ProviderName, _ connection: ProviderConnection, includingDue: Bool
  ) -> Next? {
    reschedule()
    // A refresh whose answer could not be saved continues when the store works.
    let isFailing = journal.failure != nil
    guard connection.gate.circuit.outage == nil else { return prober(at: name, connection, isFailing: isFailing) }
    // Callers that no longer need one were served, or have closed.
    while let first = queues[name]?.firstWanted, !mayBegin(first, at: name) { queues[name]?.unwant(first) }
    let due: RefreshQueue.Due = !includingDue ? .none : isFailing ? .withoutLoss : .all
    return queues[name]?.next(due) { account in
      mayBegin(account, at: name)
        && (!isFailing || accounts[account].map { accounts.holdsBack($0) == nil } ?? false)
    }.map { ($0.account, $0.isWanted, false) }
  }

  private func mayBegin(_ account: AccountName, at name: ProviderName) -> Bool {
    leaseElsewhere(account) == nil
      && accounts[account].map { $0.phase == .idle && $0.saved.provider == name && isOfOwnClient($0.saved) } ?? false
  }

  /// Who tries a provider that does not answer, once it may be tried.
  private func prober(
    at name: ProviderName, _ connection: ProviderConnection, isFailing: Bool
  ) -> Next? {
    let isWanted = wantedCount(at: name) > 0
    let next = connection.gate.circuit.nextProbe(isWanted: isWanted, policy: accounts.refreshPolicy)
    if let next, next > uptime { return nil }
    let probers = queues[name]?.probers(withoutLossOnly: isFailing) ?? [:]
    let candidates = probers.compactMap { account, place -> Candidate? in
      guard mayBegin(account, at: name), let grant = accounts[account], accounts.holdsBack(grant) == nil else {
        return nil
      }
      return Candidate(
        account: account, place: place, canLose: accounts.canLose(grant.saved),
        isAtRisk: grant.intent != nil,
        expiresAt: grant.token?.expiresAt, probes: queues[name]?.probes[account] ?? 0)
    }
    // Callers wait for the result of the probe, regardless of the account.
    return Candidate.probe(candidates).map { ($0.account, isWanted, false) }
  }

  /// An account whose grant may end unless its lost request is repeated before the provider's `Retry-After` is over.
  private func urgent(at name: ProviderName, _ connection: ProviderConnection) -> Next? {
    guard connection.gate.limit.heldUntil > uptime, connection.gate.circuit.outage == nil, journal.failure == nil,
      let account = queues[name]?.latestUnanswered, mayBegin(account, at: name),
      accounts[account]?.isInGrace(connection.provider.refreshTraits.rotation, at: now) == true
    else { return nil }
    return (account, false, true)
  }

  private func rateLimit(of name: ProviderName) -> FailureRecord {
    FailureRecord(message: "provider \(name) limits the rate of requests (HTTP 429)", at: now)
  }

  private func begin(_ account: AccountName, _ asked: RefreshRequestContext, _ ticket: ProviderGate.Ticket) {
    queues[asked.provider.name]?.unwant(account)
    trades.fetched[account] = nil
    let narrowing = accounts[account].map { asked.connection.narrowing(of: $0.saved) } ?? .unavailable
    // An outage is ended by probes, which need no other reason.
    let hasReason = accounts[account]?.hasReason(at: now, policy: accounts.refreshPolicy, narrowing: narrowing) ?? false
    guard ticket.isProbe || hasReason else { return asked.connection.gate.withdrawn(ticket, at: uptime) }
    guard
      case .begun(let attempt, let intent) = accounts[account]?.beginRefresh(
        at: now, policy: accounts.refreshPolicy, narrowing: narrowing)
    else {
      asked.connection.gate.withdrawn(ticket, at: uptime)
      // It could not begin, so it is neither due nor stalled.
      queues.remove(account)
      return
    }
    leases.inFlight += 1
    runtime.summary.changed()
    Task { await refresh(account, attempt, intent, asked, ticket) }
  }

  // MARK: What a request's end says of the provider

  /// Counts the result of a refresh request for its provider's limits and circuit, and frees its slot.
  ///
  /// - Parameters:
  ///   - ticket: nil: the slot is already free, since the answer is late.
  ///   - result: nil: it was not sent.
  func recordOutcome(
    _ account: AccountName, _ ticket: ProviderGate.Ticket?, _ result: Result<RefreshAnswer, ProviderFailure>?,
    _ asked: RefreshRequestContext
  ) {
    let (connection, name) = (asked.connection, asked.provider.name)
    switch result?.flatMap(\.issued) {
    // Without an error of the provider it was not sent: a key cannot sign, or the metadata are of another issuer.
    case nil, .failure(.blocked), .failure(.misconfigured(_, nil)):
      if let ticket { connection.gate.withdrawn(ticket, at: uptime) }
    case .failure(.rateLimited(let message, _, let retryAfter)):
      let (turn, isNew) = connection.gate.limited(
        ticket, retryAfter: retryAfter, at: uptime, policy: accounts.refreshPolicy)
      guard providers[name] === connection else { return }
      if turn == .recovered { recovered(name) }
      if isNew { limited(connection, message) }
    case .failure(let failure) where failure.isOfProvider:
      // That it had no answer in time was counted then.
      guard let ticket else { return }
      if ticket.isProbe { queues.countProbe(account, at: name) }
      let told = FailureRecord(message: failure.message, oauth: failure.oauth, at: now)
      let turn = connection.gate.failed(
        ticket, told, retryAfter: failure.retryAfter, at: uptime, policy: accounts.refreshPolicy,
        jitter: system.jitter())
      // One that went and came back has another connection.
      guard providers[name] === connection else { return }
      if turn == .unreachable { unreachable(name, told) }
      // Callers that wait for the probe learn that there is no answer yet.
      if ticket.isProbe || turn == .unreachable { wakeWanted(name) }
    case .success, .failure:
      let turn = connection.gate.answered(ticket, at: uptime, policy: accounts.refreshPolicy)
      if turn == .recovered, providers[name] === connection { recovered(name) }
    }
  }

  /// The provider gets fewer requests from now on. Each burst changes the rate; only the first one is logged as a notice.
  private func limited(_ connection: ProviderConnection, _ message: String) {
    let (name, limit) = (connection.provider.name, connection.gate.limit)
    let text = "provider \(name) limits the rate of requests, so fewer are sent: \(message)"
    let rate = "\(((limit.rate ?? 0) * 100).rounded() / 100) per second"
    logger.log(
      level: connection.diagnostics.isLimited ? .info : .notice, "\(text)",
      metadata: ["provider": "\(name)", "rate": "\(rate)"])
    connection.diagnostics.isLimited = true
    Task { await providers.saveLimit(of: name) }
  }

  private func unreachable(_ name: ProviderName, _ failure: FailureRecord) {
    measures.providerUnreachable(name)
    queues[name]?.probes = [:]
    let hint = "Nothing to do: it is tried again by itself. `grantctl doctor \(name)` tells more."
    logger.warning(
      "provider \(name) does not answer: \(failure.message)", metadata: ["provider": "\(name)", "hint": "\(hint)"])
    emit(
      Event(
        type: .providerUnreachable, at: now.seconds, provider: name.rawValue, reason: .temporarilyUnavailable,
        message: failure.message, hint: hint))
    runtime.summary.changed()
  }

  private func recovered(_ name: ProviderName) {
    queues[name]?.probes = [:]
    logger.notice("provider \(name) answers again", metadata: ["provider": "\(name)"])
    emit(Event(type: .providerRecovered, at: now.seconds, provider: name.rawValue))
    retryStalled(at: name)
    runtime.summary.changed()
  }
}

/// Why everything that waits is looked at again.
public enum RecheckCause: String, Sendable {
  case networkUp = "the network is up"
  case resumed = "the machine woke up"
  case clockStepped = "the clock was set"
}
