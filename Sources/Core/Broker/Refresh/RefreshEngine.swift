import BrokerAPI
import Grants
import Logging
import OAuth

/// The times of refreshes, and running refreshes.
///
/// The next moment of each account is in a heap, and the due accounts of each provider are in a separate queue, so the
/// cost of one account's change does not depend on their number.
@BrokerActor
final class RefreshEngine: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let journal: Journal
  let revocations: Revocations
  var queues = RefreshQueues()
  var endings = RefreshTokenEndings()
  var trades = RefreshTrades()
  var leases = RefreshLeases()
  let proofs: ImportProofs
  let registrations: Registrations
  var budgets = TokenBudgets()

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, revocations: Revocations,
    proofs: ImportProofs, registrations: Registrations
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.revocations = revocations
    self.proofs = proofs
    self.registrations = registrations
  }

  // MARK: Schedule

  /// Begins due work, and returns the next time; nil: not before a change.
  func tick() -> Timestamp? {
    let isMore = collectDue()
    var next = isMore ? now : queues.schedule.first()?.at
    for connection in providers.all {
      guard let moment = dispatch(connection.provider.name, includingDue: true) else { continue }
      next = min(next ?? moment, moment)
    }
    return next
  }

  /// Puts those whose time has come into their queues. True: there are more of them; the others have their turn first.
  @discardableResult
  func collectDue() -> Bool {
    reschedule()
    defer { reschedule() }
    for _ in 0..<Batch.light {
      guard let (account, moment) = queues.schedule.first(), moment <= now else { return false }
      _ = queues.schedule.popFirst()
      examine(account)
    }
    return true
  }

  /// Reserves space for this number of accounts.
  func reserve(_ count: Int) { queues.schedule.reserve(count) }

  /// Updates the moments of changed accounts.
  func reschedule() {
    for account in accounts.drainTouched() { reschedule(account) }
  }

  /// Something is due for the account: an announcement, its end, or a refresh.
  private func examine(_ account: AccountName) {
    guard let grant = accounts.peek(account, .moments) else { return }
    announceIfDue(account, grant)
    if let moment = grant.nextMoment(policy: accounts.refreshPolicy, at: now), moment <= now, !grant.saved.isRenewable {
      endIfDue(account)
    }
    reschedule(account)
  }

  /// The next moment of each of these accounts may be another than before.
  func rescheduleAll(_ names: SortedNames) {
    sweep(names) { [self] account in
      reschedule(account)
      wakeScheduler()
    }
  }

  /// Puts the account where it belongs: into its provider's queue, or to its next moment.
  func reschedule(_ account: AccountName) {
    guard let grant = accounts.peek(account, .moments) else {
      trades.fetched[account] = nil
      budgets.replacements.remove(account)
      queues.schedule.remove(account)
      endings.remove(account)
      queues.remove(account)
      return
    }
    reschedule(account, grant)
  }

  /// - Parameter grant: the grant without its secrets.
  func reschedule(_ account: AccountName, _ grant: Grant) {
    let name = grant.saved.provider
    let (lease, isFetching) = (leaseElsewhere(account), trades.fetching.contains(account))
    let moment = isFetching ? nil : grant.nextMoment(policy: accounts.refreshPolicy, at: now)
    let mayBegin = lease == nil && grant.saved.isRenewable && isOfOwnClient(grant.saved)
    let isDue = mayBegin && moment.map { $0 <= now } ?? false
    let isStalled = mayBegin && moment != nil && grant.waitsForProvider
    let place = RefreshQueue.Place(
      end: grant.token?.expiresAt ?? Timestamp(milliseconds: .min), isDue: isDue,
      isGood: grant.saved.standing == .good, isStalled: isStalled,
      canLose: accounts.canLose(grant.saved), isAtRisk: grant.intent != nil,
      unansweredSince: grant.intent?.sentAt)
    queues.insert(account, at: name, place)
    let announcement = nextAnnouncement(grant)
    let soon = recordEnding(account, grant)
    guard let next = [isDue ? nil : lease.map(wall) ?? moment, announcement, soon].compactMap(\.self).min() else {
      return queues.schedule.remove(account)
    }
    queues.schedule.set(account, to: next)
  }

  /// Stores the end of the refresh token; returns when that will be soon, if it is not yet.
  private func recordEnding(_ account: AccountName, _ grant: Grant) -> Timestamp? {
    if case .loginRequired = grant.saved.standing {
      endings.remove(account)
      return nil
    }
    guard let end = accounts.refreshTokenEnd(of: grant), let soon = accounts.endsSoonAfter(grant) else {
      endings.remove(account)
      return nil
    }
    endings.insert(account, at: grant.saved.provider, end: end.at, isSoon: soon < now)
    return soon < now ? nil : soon + .milliseconds(1)
  }

  /// When the provider's first refresh token ends, as far as that is known.
  func firstRefreshTokenEnd(at name: ProviderName) -> Timestamp? {
    reschedule()
    return endings.first(at: name)
  }

  /// Accounts whose refresh tokens have ended or end soon, and whose grants still live.
  var refreshTokensEnding: SortedNames {
    reschedule()
    return endings.soon
  }

  /// Another broker that shares the store changed the accounts, or gave their leases back.
  func changedElsewhere(_ names: Set<AccountName>) async {
    for account in names { _ = leases.removeHolder(of: account) }
    await accounts.changedElsewhere(names)
    // Leases that were asked for during this time, with the accounts' locks, were answered before.
    for account in names where leases.removeHolder(of: account) { accounts.changed(account) }
  }

  /// Until when another broker may be refreshing the account; nil: none is.
  func leaseElsewhere(_ account: AccountName) -> Duration? { leases.holder(of: account, at: uptime)?.end }

  /// How many of the provider's accounts are due and have not begun, though they were good.
  func restingCount(at name: ProviderName) -> Int {
    collectDue()
    return queues[name]?.resting.count ?? 0
  }

  /// How many accounts' refreshes are due and wait for the store.
  var heldBackCount: Int {
    guard journal.failure != nil else { return 0 }
    collectDue()
    return queues.riskyCount { providers[$0] != nil }
  }

  /// How many of the provider's accounts callers wait for.
  func wantedCount(at name: ProviderName) -> Int { queues[name]?.wantedCount ?? 0 }

  /// The last token of a grant without a refresh token has ended.
  private func endIfDue(_ account: AccountName) {
    guard case .ended = accounts[account]?.due(at: now, policy: accounts.refreshPolicy) else { return }
    Task {
      await accounts.saveStanding(of: account, "the end of a token")
      if let grant = accounts[account] { accounts.reportEnd(of: grant) }
      accounts.changed(account)
    }
  }

  // MARK: Looking again

  /// The network is back, the machine woke up, or its clock was set: what failed before may work now.
  func recheck() {
    for connection in providers.all {
      if connection.hasWrongMetadata { retryMisconfigured(at: connection.provider.name) }
      connection.recheck()
      retryStalled(at: connection.provider.name)
    }
  }

  /// An administrator demands a refresh although another broker's may be under way.
  func forceLease(of account: AccountName) {
    guard journal.isShared, accounts[account]?.phase == .idle else { return }
    leases.forced.insert(account)
    if leases.removeHolder(of: account) { accounts.changed(account) }
  }

  /// A caller with `manage` has it tried now, regardless of the delay after a failure or from the provider.
  func release(_ account: AccountName) {
    guard let name = accounts[account]?.saved.provider else { return }
    providers[name]?.release()
    accounts[account]?.retryNow(at: now)
  }

  /// The provider answers, as a check found: what failed because of it is tried at once.
  func answers(_ connection: ProviderConnection) {
    connection.gate.limit.release(at: uptime)
    connection.recheck()
    retryStalled(at: connection.provider.name)
  }

  private func retryMisconfigured(at name: ProviderName) {
    sweep(accounts.misconfiguredNames, by: Batch.heavy) { [self] account in
      guard accounts.peek(account, .moments)?.saved.provider == name else { return }
      accounts[account]?.retryNow(at: now)
      wakeScheduler()
    }
  }

  /// What failed because of the provider is tried again without its own wait; the gate spreads it.
  func retryStalled(at name: ProviderName) {
    reschedule()
    sweep(queues[name]?.stalledAccounts ?? [], by: Batch.heavy) { [self] account in
      guard queues[name]?.isStalled(account) == true else { return }
      accounts[account]?.retryNow(at: now)
      wakeScheduler()
    }
    wakeScheduler()
  }

  /// Wakes all callers that wait for a refresh at the provider.
  func wakeWanted(_ name: ProviderName) {
    for account in queues[name]?.unwantAll() ?? [] { waiters.wake(.account(account)) }
  }

  func drain() {
    for name in queues.providers { wakeWanted(name) }
  }

  /// The broker ends: reports the accounts with an unread answer that may cost the grant.
  func reportUnread() {
    for account in Set(leases.awaited.map(\.account)).sorted() {
      guard let saved = accounts.peek(account)?.saved, accounts.canLose(saved) else { continue }
      logger.error(
        "stopped before the answer to the refresh of \(account) was read: its refresh token may be spent",
        metadata: [
          "account": "\(account)", "provider": "\(saved.provider)",
          "hint": "The next start tries again. If the account needs a login then: \(accounts.loginHint(saved))",
        ])
    }
  }
}
