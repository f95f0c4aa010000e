import BrokerAPI
import Grants
import Logging
import OAuth

/// Every account's grant. All changes of a grant happen here, so that derived state is updated: the cached replies of
/// the socket, and the account's waiters.
@BrokerActor
final class Accounts: Piece {
  let runtime: Runtime
  let providers: ProviderDirectory
  let journal: Journal
  /// State for the socket's event loop.
  nonisolated let cache: TokenCache
  let table: AccountTable
  private var index = AccountIndex()
  /// Those whose rows on disk cannot be read.
  private(set) var unreadable: Set<AccountName> = []
  /// Those that changed and that the refresh engine has not looked at.
  private var touched: Set<AccountName> = []
  /// The sources of the tokens of declared accounts.
  var sources: [AccountName: GrantSource] = [:]
  private(set) var refreshPolicy: RefreshPolicy
  /// When the active configuration was loaded.
  private(set) var configuredAt: Timestamp
  private let audit: AuditLog

  init(
    _ runtime: Runtime, providers: ProviderDirectory, journal: Journal, cache: TokenCache, audit: AuditLog,
    refreshPolicy: RefreshPolicy, wholeAccounts: Int
  ) {
    self.runtime = runtime
    self.providers = providers
    self.journal = journal
    self.cache = cache
    self.audit = audit
    self.refreshPolicy = refreshPolicy
    configuredAt = runtime.clock.now
    table = AccountTable(wholeAccounts: wholeAccounts) { [store = journal.store] in store.pack($0) }
    table.unreadable = { [runtime] stored, error in
      Grant(
        saved: stored.grant.unreadable(error.message, at: runtime.clock.now), token: nil,
        jitter: runtime.clock.system.jitter())
    }
    table.onDamage = { [unowned self] in damaged($0) }
    table.onLeftOut = { [unowned self] in reportLeftOut($0, $1) }
    table.onMove = { [journal] in if !journal.isShared { journal.keep($0) } }
  }

  /// A reload.
  ///
  /// - Returns: whether the policy of refreshes is another: then the next refresh of each account is, too.
  func configure(_ policy: RefreshPolicy) -> Bool {
    let isNew = policy != refreshPolicy
    refreshPolicy = policy
    configuredAt = now
    return isNew
  }

  // MARK: The grants

  subscript(account: AccountName) -> Grant? {
    get { table[account] }
    set {
      var grant = newValue
      grant?.numbersAttempts(after: index.attempts)
      table[account] = grant
      touch(account)
    }
    _modify {
      defer { touch(account) }
      yield &table[account]
    }
  }

  /// The account's grant without its secrets, for loops over many; nil: there is none.
  func peek(_ account: AccountName, _ depth: AccountDepth = .facts) -> Grant? {
    // An account whose row proves damaged is unpacked: it is reported, with its readable part.
    table.peek(account, depth) ?? table[account]
  }

  /// The facts of the accounts that exist, read on other threads than the broker's.
  func facts(of accounts: [AccountName]) async -> [Grant] {
    let names = accounts.filter { table.contains($0) }
    let facts = await Self.read(names.compactMap { table.snapshot($0) })
    return zip(names, facts).compactMap { $1 ?? table[$0] }
  }

  @concurrent private nonisolated static func read(_ accounts: [AccountSnapshot]) async -> [Grant?] {
    accounts.map { $0.read(.facts) }
  }

  func contains(_ account: AccountName) -> Bool { table.contains(account) }

  private func touch(_ account: AccountName) {
    let grant = table[account]
    index.update(account, grant)
    if grant?.isUnreadable != true, !unreadable.isEmpty { unreadable.remove(account) }
    touched.insert(account)
  }

  /// The accounts that changed since this was last asked.
  func drainTouched() -> Set<AccountName> {
    defer { touched = [] }
    return touched
  }

  var names: SortedNames { index.names }
  var count: Int { table.count }
  /// Accounts without a sign-in.
  var declaredNames: SortedNames { index.declared }
  var misconfiguredNames: SortedNames { index.misconfigured }

  func names(at provider: ProviderName) -> SortedNames { index.byProvider[provider]?.names ?? SortedNames() }
  func count(at provider: ProviderName) -> Int { index.byProvider[provider]?.names.count ?? 0 }

  /// The provider's accounts that this person signed in to.
  func accounts(of subject: String, at provider: ProviderName) -> [AccountName] {
    index.accounts(of: subject, at: provider).filter { account in
      peek(account, .moments).map { $0.saved.provider == provider && $0.saved.identity?.subject == subject } ?? false
    }
  }

  /// Whether this user has, or may have, signed in to an account of the provider. Unattended accounts are excluded:
  /// they can get another token at any time.
  ///
  /// - Parameter subject: nil if the provider did not name the user.
  func mayHaveAccount(_ subject: String?, at provider: ProviderName) -> Bool {
    guard let members = index.byProvider[provider] else { return false }
    guard let subject else { return members.signedIn > 0 }
    return members.anonymous > 0 || !accounts(of: subject, at: provider).isEmpty
  }

  /// Renders the account's token for the socket's fast path, or withdraws it. Called after each change of a grant; a
  /// token that no caller has requested is not rendered.
  func publish(_ account: AccountName) {
    guard cache.isAsked(account) else { return cache.set(account, nil, exists: contains(account)) }
    serve(account)
  }

  /// A caller asked for the account's token: from now on it is rendered with each change.
  func serve(_ account: AccountName) {
    guard let grant = table[account], let token = grant.token, token.generation != grant.rejectedGeneration,
      !grant.isUnproven, token.expiresAt == nil || !token.isFromFuture(at: now)
    else {
      cache.set(account, nil, exists: contains(account))
      return
    }
    let connection = providers[grant.saved.provider]
    let isNarrowable = grant.saved.isRenewable && connection?.narrowing(of: grant.saved) ?? .unavailable != .unavailable
    cache.set(
      account,
      TokenCache.Entry(
        token, grant: grant.saved, provider: connection?.provider, isNarrowable: isNarrowable, policy: refreshPolicy,
        at: now, uptime))
  }

  /// An input of every rendered token changed: the clock or the provider's settings.
  func serveAnew() { sweep(cache.withdrawAll(), by: Batch.heavy) { [self] in serve($0) } }

  /// Called after each change: updates the fast path, the waiters, the scheduler and the summary.
  func changed(_ account: AccountName) {
    publish(account)
    waiters.wake(.account(account))
    wakeScheduler()
    runtime.summary.changed()
  }

  /// How many accounts are in each state.
  ///
  /// - Parameter overdue: how many of a provider's accounts are due and rest, as it does not answer.
  func stateCounts(overdue: (ProviderName) -> Int) -> [ProviderName: [AccountState: Int]] {
    index.byProvider.reduce(into: [:]) { counts, entry in
      counts[entry.key] = stateCounts(entry.value, at: entry.key, overdue: overdue)
    }
  }

  private func stateCounts(
    _ members: AccountIndex.Members, at name: ProviderName, overdue: (ProviderName) -> Int
  ) -> [AccountState: Int] {
    var counts: [AccountState: Int] = [:]
    func add(_ kind: AccountIndex.Kind, _ state: AccountState) {
      counts[state, default: 0] += members.count(kind)
    }
    add(.loginRequired, .loginRequired)
    add(.refusedOnce, .degraded)
    add(.refusedAlone, .loginRequired)
    add(.misconfigured, .actionRequired)
    guard let connection = providers[name], connection.suspended == nil else {
      for kind in [AccountIndex.Kind.good, .goodAndBusy, .failing, .refused] { add(kind, .actionRequired) }
      return counts
    }
    add(.failing, .degraded)
    add(.refused, .degraded)
    add(.goodAndBusy, .refreshing)
    add(.good, .ok)
    guard case .unreachable = connection.condition else { return counts }
    let resting = min(overdue(name), counts[.ok] ?? 0)
    counts[.ok, default: 0] -= resting
    counts[.degraded, default: 0] += resting
    return counts
  }

  // MARK: At start

  /// Reserves space for this number of accounts.
  func reserve(_ count: Int) {
    table.reserve(count)
    index.reserve(count)
    cache.reserve(count)
  }

  /// The time of the latest token on disk, if the clock shows an earlier time; nil: it does not.
  var wrongClock: Timestamp? { index.newestIssue.flatMap { $0 > now + RefreshPolicy.clockTolerance ? $0 : nil } }

  /// Adds a loaded account, and passes it to `visit`.
  ///
  func takeOver(_ loaded: AccountLoading.Loaded, _ visit: (Grant) -> Void) {
    let packed = loaded.packed
    var grant = loaded.grant
    journal.read(packed.account, at: loaded.revision, of: loaded.issuer)
    if let issuer = loaded.issuer { reportOtherClient(loaded.grant.saved, issuer) }
    index.newestIssue = [index.newestIssue, grant.token?.issuedAt].compactMap(\.self).max()
    if !loaded.leftOut.isEmpty { reportLeftOut(packed.account, loaded.leftOut) }
    if grant.isUnreadable {
      table.add(unreadable: packed, grant)
      cache.set(packed.account, nil)
      return damaged(grant)
    }
    if let rotation = providers[grant.saved.provider]?.provider.refreshTraits.rotation {
      grant.takeUp(rotation: rotation)
    }
    guard let remainder = grant.remainder else { return }
    table.add(packed, remainder)
    index.update(packed.account, grant)
    cache.set(packed.account, nil)
    visit(grant)
  }

  /// The account's secrets cannot be opened. The stored row stays unchanged until the next login.
  func damaged(_ grant: Grant) {
    let account = grant.saved.account
    index.update(account, grant)
    unreadable.insert(account)
    touched.insert(account)
    wakeScheduler()
    reportEnd(of: grant)
    if let view = view(unreadable: grant) {
      audit.record(damage: "store.set_aside", of: view.account, "\(view.row): \(view.message)")
    }
    runtime.summary.changed()
  }

  // MARK: The clock

  /// The wall clock was set: times of this run move with it.
  ///
  /// - Parameter reschedule: called with each account, whose next moment may be another.
  func clockStepped(by step: Duration, _ reschedule: @escaping @BrokerActor (AccountName) -> Void) {
    configuredAt = configuredAt + step
    table.clockStepped(by: step)
    serveAnew()
    sweep(names, by: Batch.heavy) { [self] account in
      table.catchUp(account)
      if index.isFailing(account) { self[account]?.retryNow(at: now) }
      reschedule(account)
      wakeScheduler()
      if journal.hasUnsaved { journal.saveSoon() }
    }
  }

  /// After a start or a reload: causes of failures may be corrected, so earlier retry delays are dropped. A start
  /// during an outage does not know the earlier failures, so callers could try the provider sooner than after a single
  /// account's long delay.
  func retryFailing() {
    sweep(names, by: Batch.heavy) { [self] account in
      guard index.isFailing(account) else { return }
      self[account]?.retryNow(at: now, resetsDelays: true)
      changed(account)
    }
  }
}
