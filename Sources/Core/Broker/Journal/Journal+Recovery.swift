import BrokerAPI
import Grants
import Logging
import OAuth

// Failures of the store, its recovery and its rebuild; checks of its files.
extension Journal {
  /// An operation of the store failed.
  func failed(_ error: StoreError) {
    // The store was closed at this broker's end, after unsaved changes were reported. Any earlier closing is a failure:
    // otherwise refreshes whose intents cannot be saved would repeat endlessly.
    if isStopped, case .closed = error { return }
    let hint =
      error.isLoss && !isShared ? "Nothing to do: grantd writes it again from memory, and reports it." : error.hint
    if failure != error { logger.error("the state cannot be written: \(error.message)", metadata: ["hint": "\(hint)"]) }
    let (isNew, isLost) = (failure == nil, failure?.isLoss == true)
    outage = (error, since: failingSince ?? now)
    if error.isLoss, !isLost {
      // Data missing from the disk exist only in memory: the database is rebuilt at once.
      if let pause = repairState.hurry() { waiters.wake(pause) }
    }
    if isNew {
      emit(
        Event(
          type: .storeFailed, at: now.seconds, reason: .storeFailure, message: error.message, hint: hint))
    }
    runtime.summary.changed()
    // A write now would change another broker's state.
    if case .owned = error { return runtime.lifecycle.lost(error) }
    guard repairState.recovery == nil, !isStopped else { return }
    repairState.recovery = .trying
    Task { await recover() }
  }

  func works() {
    guard failure != nil else { return }
    logger.notice("the state can be written again")
    outage = nil
    repairState.ended = uptime
    emit(Event(type: .storeRecovered, at: now.seconds))
    runtime.summary.changed()
    waiters.wake(.store)
    Task {
      await saveUnsaved()
      waiters.wakeAccounts()
      wakeScheduler()
    }
  }

  private func recover() async {
    while failure != nil, !isStopped {
      let key = waiters.newWork()
      repairState.pause = key
      await wait(for: key, until: uptime + nextDelay)
      repairState.pause = nil
      guard failure != nil, !isStopped else { break }
      await tryStore()
    }
    repairState.recovery = nil
    // It may have failed again in the interim.
    if let failure, !isStopped { failed(failure) }
  }

  /// A database on another machine that restarts is used again at once.
  private var nextDelay: Duration {
    if case .shared? = failure { return Limit.sharedStorePause }
    return repairState.nextDelay(at: uptime)
  }

  /// One commit shows whether the disk accepts writes again. A damaged or missing database is rebuilt from memory,
  /// which has all data.
  private func tryStore() async {
    if failure?.isLoss == true, !isShared { return await rebuild() }
    do throws(StoreError) {
      try await examineStore()
      // The database is an administrator's, who has restored it.
      if failure?.isLoss == true { return works() }
      try await commit([.putValue("store.tried", String(now.seconds))])
    } catch {
      failed(error)
      if failure?.isLoss == true, !isShared { await rebuild() }
    }
  }

  /// One at a time: a concurrent caller finds it done, or repeats it.
  private func rebuild() async {
    // Memory is older than the rows that other brokers wrote.
    guard repairState.recovery != .rebuilding, !isShared else { return }
    // A commit during the copy of memory is in the copy or fails: never only in the old database.
    repairState.recovery = .rebuilding
    defer { if repairState.recovery == .rebuilding { repairState.recovery = .trying } }
    await awaitCommits()
    guard commits.begun.isEmpty, let failure, failure.isLoss, !isStopped else { return }
    let before = unsaved.waiting
    unsaved.waiting = []
    var (state, accounts) = await source?.wholeState() ?? (StoredState(), [])
    state.values = values
    state.setAside = setAside
    do throws(StoreError) {
      try await store.rebuild(from: state, accounts: accounts)
    } catch {
      unsaved.waiting.formUnion(before)
      if case .owned = error { return failed(error) }
      // Damage remains, whatever prevented the rebuild.
      logger.error("the state could not be written again: \(error.message)", metadata: ["hint": "\(error.hint)"])
      return
    }
    logger.warning("the state was written again from memory", metadata: ["state": "\(store.location)"])
    works()
  }

  /// Looks whether the database is still there, every ``Limit/examination``: one whose file was removed takes every
  /// commit, and is empty after the next start.
  func examineIfTime() {
    guard uptime - examination.last >= Limit.examination else { return }
    Task { await examine() }
  }

  /// Has the next ``examineIfTime()`` look at once.
  func examineSoon() { examination.last = uptime - Limit.examination }

  /// Reads all stored data, then performs the other checks.
  nonisolated func verify(_ rest: @Sendable () async -> Void) async {
    do throws(StoreError) {
      try await store.verify()
    } catch {
      return await failed(error)
    }
    await rest()
  }

  func examine() async {
    guard failure == nil, !examination.isUnderWay else { return }
    await examineNow()
  }

  private func examineNow() async {
    examination.last = uptime
    examination.isUnderWay = true
    defer { examination.isUnderWay = false }
    do throws(StoreError) { try await examineStore() } catch { failed(error) }
  }

  private func examineStore() async throws(StoreError) {
    let found = try await store.examine()
    for notice in found where !examination.notices.contains(notice) { logger.warning("\(notice)") }
    examination.notices = found
    // Before other commits, which would find that the copy lacks their account.
    try await keepOverCopy()
    await source?.compared()
  }

  /// The store reported another copy. If the comparison fails, it is repeated with the next look at the store.
  func compareCopy() async {
    // Before that look nothing can be written to the copy.
    do throws(StoreError) { try await examineStore() } catch { failed(error) }
  }

  private func keepOverCopy() async throws(StoreError) {
    // The database may be replaced again in the interim.
    for _ in 0..<Limit.rounds {
      guard let copy = try await store.otherCopy() else { return }
      try await source?.keep(over: copy)
      store.keptOverCopy(copy.number)
      await source?.compared()
    }
  }

  /// Before the end: a missing or damaged database is rebuilt while memory still has the data.
  func repair() async {
    for _ in 0..<Limit.rounds where examination.isUnderWay { await system.sleep(.milliseconds(100)) }
    // Until they have ended, their writes cannot be told from another program's.
    await awaitCommits()
    // Even with a known full disk: damage may have occurred since.
    if failure?.isLoss != true, runtime.lifecycle.loss == nil { await examineNow() }
    // It ends, and the stop waits no longer than it may.
    while repairState.recovery == .rebuilding { await system.sleep(.milliseconds(100)) }
    if failure?.isLoss == true, repairState.recovery != .rebuilding { await rebuild() }
  }

  /// Waits until no commit is under way, but not for one that hangs.
  private func awaitCommits() async {
    let end = uptime + Limit.lastCommit
    while !commits.begun.isEmpty, uptime < end { await wait(for: .commits, until: end) }
  }
}
