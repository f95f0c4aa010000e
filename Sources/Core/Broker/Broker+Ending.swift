import BrokerAPI
import Grants

// The end: what is under way is awaited, and what is in memory alone is told.
extension Broker {
  /// Stops beginning things and waits for those under way: an answer that is lost now could be a grant lost. Callers
  /// that wait for a refresh under way still get its token. What is unread at the end is said.
  ///
  /// - Parameter deadline: a time since boot.
  public func drain(until deadline: Duration) async {
    let (clock, lifecycle) = (runtime.clock, runtime.lifecycle)
    lifecycle.drain()
    lifecycle.wakeScheduler()
    logins.wakeAll()
    tokens.approvals.wakeAll()
    engine.drain()
    await awaitAnswers(until: deadline)
    // A disk that hangs delays the end by no more than this.
    let end = max(clock.uptime, deadline) + Limit.lastCommits
    await runtime.waiters.run(until: end) { [journal, engine, logins, waiters = runtime.waiters] in
      await journal.repair()
      // The disk may take by now what waits for its next try.
      waiters.wake(.store)
      for _ in 0..<Limit.lastTries
      where engine.leases.inFlight > engine.leases.awaited.count || logins.unsavedCount > 0 {
        await clock.system.sleep(.milliseconds(20))
      }
      await journal.saveUnsaved()
      // These commits may have met damage that came after the look.
      if journal.failure?.isLoss == true { await journal.repair() }
    }
    engine.reportUnread()
    logins.reportUnread()
    lifecycle.stop()
    accounts.cache.close()
    runtime.waiters.wakeAll()
  }

  /// Time in which the process did not run does not count: answers that came meanwhile are read. It ends, as each request
  /// has an end of its own.
  private func awaitAnswers(until deadline: Duration) async {
    let clock = runtime.clock
    var (end, last) = (deadline, clock.uptime)
    while isAwaitingAnswers, last < end {
      await clock.system.sleep(.milliseconds(20))
      let now = clock.uptime
      if now - last > .seconds(2) { end += now - last }
      last = now
    }
  }

  /// Answers that may come yet. If the store fails, answers that cannot be saved are not awaited.
  private var isAwaitingAnswers: Bool {
    if journal.failure != nil { return !engine.leases.awaited.isEmpty || logins.table.exchangesInFlight > 0 }
    return engine.leases.inFlight + logins.table.exchangesInFlight > 0
  }

  /// Accounts whose latest tokens are in memory alone: as they should be on disk. All of them where the database is lost.
  public func unsaved() async -> [any PackedAccount] {
    let uncommitted = accounts.uncommitted()
    let names = Set(uncommitted.map(\.account))
    let rest =
      journal.failure?.isLoss == true
      ? await accounts.packed() : journal.unsavedAccounts.compactMap { accounts.table.packed($0) }
    return uncommitted + rest.filter { !names.contains($0.account) }
  }

  /// What else than accounts the state has; nothing unless the database is lost.
  public func unsavedRest() async -> StoredState {
    journal.failure?.isLoss == true ? await wholeState().rest : StoredState()
  }

  /// Why the state cannot be written; nil: it can.
  public var storeFailure: StoreError? { journal.failure }
}
