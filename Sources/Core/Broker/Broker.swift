import BrokerAPI
public import Grants
public import Logging
import OAuth

/// The broker: its pieces, and the calls of the edges. Each piece owns its state. All pieces share one isolation, so that
/// related state changes without an `await` in between (docs/developers/overview.md, decision 28).
@BrokerActor
public final class Broker {
  nonisolated let runtime: Runtime
  nonisolated let door: Door
  nonisolated let journal: Journal
  nonisolated let providers: ProviderDirectory
  nonisolated let accounts: Accounts
  nonisolated let engine: RefreshEngine
  nonisolated let logins: Logins
  nonisolated let tokens: Tokens
  nonisolated let clients: Clients
  nonisolated let logout: Logout
  nonisolated let upkeep: Upkeep
  nonisolated let reports: Reports

  /// - Parameter wholeAccounts: accounts that are whole in memory at a time; the others are packed.
  public init(
    store: any Store, transport: any Transport, system: SystemDependencies, identity: BrokerIdentity,
    configuration: BrokerConfiguration, logger: Logger, registrar: (any Registrar)? = nil,
    auditStore: (any AuditStore)? = nil, administration: (any StoreAdministration)? = nil,
    tokenFiles: (any TokenFileDisk)? = nil,
    wholeAccounts: Int = 128, edges: Edges = Edges(),
    reloader: any Reloader
  ) {
    let clock = BrokerClock(system)
    let inForce = PolicyInForce(configuration.policy)
    let authorizer = Authorizer(inForce, configuration.callerLimits, system)
    let measures = Metrics(edges)
    runtime = Runtime(
      clock: clock, waiters: Waiters(clock), lifecycle: Lifecycle(onLoss: edges.onLoss),
      events: Events(authorizer, measures, onEvent: edges.onEvent), measures: measures, summary: Summary(),
      logger: logger)
    let trail = AuditTrail(store: auditStore, logger: logger, now: system.now, uptime: system.uptime)
    trail.configure(configuration.audit)
    let cache = TokenCache(inForce, trail: trail, uptime: system.uptime)
    cache.configure(configuration.refresh)
    let audit = AuditLog(trail, cache, system, logger)
    door = Door(authorizer: authorizer, audit: audit, requests: RequestTally())
    journal = Journal(store, runtime)
    providers = ProviderDirectory(
      configuration.providers, refreshesAtOnce: configuration.refresh.concurrentPerProvider, transport,
      journal: journal, runtime)
    accounts = Accounts(
      runtime, providers: providers, journal: journal, cache: cache, audit: audit,
      refreshPolicy: configuration.refresh, wholeAccounts: wholeAccounts)
    clients = Clients(
      runtime, providers: providers, accounts: accounts, journal: journal, transport: transport, registrar: registrar,
      configuration)
    logout = Logout(
      runtime, accounts: accounts, providers: providers, journal: journal, audit: audit, addresses: clients.addresses)
    let checks = TokenChecks(runtime, accounts: accounts, providers: providers)
    let proofs = ImportProofs(runtime, accounts: accounts, providers: providers, checks: checks)
    engine = RefreshEngine(
      runtime, accounts: accounts, providers: providers, journal: journal, revocations: logout.revocations,
      proofs: proofs, registrations: clients.registrations)
    tokens = Tokens(
      runtime, accounts: accounts, providers: providers, journal: journal, engine: engine, door: door, checks: checks,
      tokenFiles: tokenFiles, keyLock: edges.keyLock, configuration)
    logins = Logins(
      runtime, accounts: accounts, providers: providers, journal: journal, revocations: logout.revocations,
      door: door, addresses: clients.addresses, endings: logout.sessions,
      registrations: clients.registrations)
    upkeep = Upkeep(
      runtime, accounts: accounts, providers: providers, journal: journal, engine: engine, door: door, clients: clients,
      logout: logout, proofs: proofs, transport: transport, administration: administration, page: edges.page, identity,
      configuration, reloader)
    reports = Reports(
      runtime, accounts: accounts, providers: providers, journal: journal, engine: engine, logins: logins, door: door,
      revocations: logout.revocations, addresses: clients.addresses, reloading: upkeep.reloading, identity)
    clients.registrations.configure(configuration.providers, declared: configuration.accounts)
    journal.records(self)
  }

  /// Takes over what is on disk. Once, before anything else.
  ///
  /// - Parameter progress: called now and then with how many accounts were read, of how many.
  public func start(_ progress: (@Sendable (Int, Int) -> Void)? = nil) async throws(StoreError) {
    // Changes from now on are reported, so that none is missed.
    let changes = journal.store.changesElsewhere
    let stored = try await journal.store.loadRest()
    await door.audit.begin()
    door.audit.started(upkeep.reloading.configuration)
    journal.takeOver(values: stored.values)
    tokens.hold.takeOver()
    if let error = journal.store.writesFail { journal.failed(error) }
    clients.registrations.takeOver(stored.registrations)
    providers.takeOver(upkeep.reloading.configuration.providers + clients.registrations.registered)
    try await loadAccounts(progress)
    reportSetAside()
    await reportOlder()
    if let clock = reports.views.clockView {
      runtime.logger.warning("\(clock.message)", metadata: ["hint": "\(clock.hint)"])
    }
    accounts.retryFailing()
    logout.revocations.takeOver(stored.revocations)
    await logins.takeOver(stored.logins)
    upkeep.declared.configure(upkeep.reloading.configuration.accounts)
    await upkeep.declared.apply()
    tokens.files.takeOver(upkeep.reloading.configuration.files)
    followOthers(changes)
    runtime.summary.changed()
  }

  /// Names the rows that cannot be read; those of accounts were named as they were taken over.
  private func reportSetAside() {
    journal.takeOver(setAside: journal.store.setAside)
    for row in journal.setAside {
      let view = reports.views.view(row)
      runtime.logger.error("\(view.message)", metadata: ["row": "\(view.row)", "hint": "\(view.hint)"])
      door.audit.record(damage: "store.set_aside", of: view.account, "\(view.row): \(view.message)")
    }
  }

  private func reportOlder() async {
    guard let lost = journal.store.lostCommits else { return }
    await journal.recordOlder(lost)
    guard let view = reports.views.olderView(lost) else { return }
    runtime.logger.error("\(view.message ?? "")", metadata: ["hint": "\(view.hint ?? "")"])
    door.audit.record(damage: "store.older", view.message ?? "")
    // A refresh token that was used since is found at the first account, not at all of them at once.
    providers.refreshCautiously()
  }

  private func loadAccounts(_ progress: (@Sendable (Int, Int) -> Void)?) async throws(StoreError) {
    let all = try await journal.store.countAccounts()
    accounts.reserve(all)
    engine.reserve(all)
    let loading = AccountLoading(journal.store, runtime.clock.system)
    var next: AccountLoading.Page? = loading.first()
    while let (accounts, following) = try await next?.value.get() {
      // The next are unpacked while these are taken over, and those behind them are read.
      guard !accounts.isEmpty else { break }
      next = following.map(loading.unpack)
      for account in accounts {
        self.accounts.takeOver(account) { engine.reschedule(account.packed.account, $0) }
      }
      progress?(self.accounts.count, max(all, self.accounts.count))
    }
  }

  /// Reads all stored data again after the first answers: damage is reported, and data in memory are written again.
  public nonisolated func verify() async {
    await runtime.clock.system.sleep(Limit.verificationDelay)
    await journal.verify { [accounts] in await accounts.verify() }
  }

  /// Follows the changes of other brokers that share the store.
  private func followOthers(_ changes: AsyncStream<ChangesElsewhere>?) {
    guard let changes else { return }
    let waiting = WaitingChanges()
    let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    Task {
      for await change in changes {
        waiting.add(change)
        signal.yield()
      }
      signal.finish()
    }
    Task {
      for await _ in signals {
        for change in waiting.drain() { await follow(change) }
      }
    }
  }

  private func follow(_ change: ChangesElsewhere) async {
    switch change {
    case .accounts(let names):
      await engine.changedElsewhere(names)
      await logins.accountsChangedElsewhere(names)
    case .logins(let ids): await logins.changedElsewhere(ids)
    case .revocations: await logout.revocations.follow()
    case .registrations(let names): await clients.registrations.changedElsewhere(names)
    case .otherCopy: await journal.compareCopy()
    }
  }

  /// Does nothing, in the turn of who calls it.
  nonisolated func yieldTurn() async { await turn() }
  private func turn() {}

  // MARK: What happens by itself

  /// Does what is due when it is due, until the task is cancelled. Each sleep is short enough for a wall clock that steps.
  public func run() async {
    while !Task.isCancelled, !runtime.lifecycle.isDraining {
      // One for each round: cancelling the reader of a stream ends the stream, and an ended one would never let us sleep.
      // A wake-up between two rounds is not lost, as each begins with a look at everything.
      let (wakeups, wakeup) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
      runtime.lifecycle.schedulerSleeps(until: wakeup)
      let pause = min(max(tick() - runtime.clock.now, .zero), Limit.longestSleep)
      await withTaskGroup(of: Void.self) { [runtime] group in
        group.addTask { await runtime.clock.system.sleep(pause) }
        group.addTask { for await _ in wakeups { return } }
        await group.next()
        group.cancelAll()
      }
    }
    runtime.lifecycle.schedulerSleeps(until: nil)
  }

  /// Does what is due, and says when to look again.
  func tick() -> Timestamp {
    watchClock()
    journal.examineIfTime()
    upkeep.backups.tick()
    let moments = [engine.tick(), logins.tick(), logout.revocations.tick()].compactMap(\.self)
    return moments.min() ?? runtime.clock.now + Limit.longestSleep
  }

  /// The network is back, the machine woke up, or its clock was set: what failed before may work now.
  public func recheck(_ cause: RecheckCause) {
    runtime.logger.info("looking again at everything that waits: \(cause.rawValue)")
    watchClock()
    engine.recheck()
    logout.revocations.recheck()
    journal.examineSoon()
    runtime.lifecycle.wakeScheduler()
  }

  /// Examines the store every few seconds, until the task is cancelled.
  public func watchStore() async {
    while !Task.isCancelled, !runtime.lifecycle.isDraining {
      await runtime.clock.system.sleep(Limit.examination)
      await journal.examine()
    }
  }

  /// That another program has taken the state over.
  public var loss: StoreError? { runtime.lifecycle.loss }

  // MARK: The clock

  /// The wall clock may be wrong at boot, and may be set at any time. If it moves relative to the monotonic clock, the
  /// times that this run has recorded move with it (decision 16).
  private func watchClock() {
    guard let step = runtime.clock.read() else { return }
    let seconds = step.wholeSeconds
    let message = "this machine's clock was set \(seconds < 0 ? "back" : "forward") by \(abs(seconds)) s"
    runtime.logger.notice("\(message)")
    reports.views.clockStepped(by: step)
    journal.clockStepped(by: step)
    providers.clockStepped(by: step)
    logins.clockStepped(by: step)
    accounts.clockStepped(by: step) { [engine] in engine.reschedule($0) }
    logout.revocations.clockStepped()
    runtime.events.emit(Event(type: .clockStepped, at: runtime.clock.now.seconds, message: message))
    journal.saveSoon()
    runtime.waiters.wakeAccounts()
    runtime.lifecycle.wakeScheduler()
    runtime.summary.changed()
  }

  // MARK: The summary

  /// `12 ok, 1 needs login`.
  public var currentSummary: String { reports.views.summary }

  /// Reports it whenever it changes, until the task is cancelled. For one caller.
  ///
  /// - Parameter known: the latest reported one.
  public func reportSummary(since known: String, _ report: @Sendable (String) -> Void) async {
    var said = known
    for await _ in runtime.summary.dues {
      runtime.summary.markRead()
      let text = currentSummary
      if text != said { report(text) }
      said = text
    }
  }
}

extension Broker: JournalSource {
  func wholeState() async -> (rest: StoredState, accounts: [any PackedAccount]) {
    let packed = await accounts.packed()
    var state = StoredState()
    state.logins = logins.saved
    state.revocations = Array(logout.revocations.all)
    state.registrations = Array(clients.registrations.saved.values)
    return (state, packed)
  }

  func changes(of account: AccountName) -> [Change]? { accounts.changes(of: account) }

  func follow(_ account: AccountName) async { await accounts.follow(account) }

  func keep(over copy: AccountsOfCopy) async throws(StoreError) {
    // First: accounts need their providers at the other brokers.
    try await clients.registrations.keep(over: copy)
    try await accounts.keep(over: copy)
    await engine.leaseKept()
    // Last: later logins make revocations obsolete.
    try await logout.revocations.keep(over: accounts, copy)
  }

  func compared() async {
    let (accounts, registrations) = journal.drainUndecided()
    if !accounts.isEmpty { await self.accounts.changedElsewhere(accounts) }
    if !registrations.isEmpty { await clients.registrations.changedElsewhere(registrations) }
  }
}
