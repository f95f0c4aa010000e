import BrokerAPI
public import Logging
public import OAuth
import Principals
import Synchronization

/// Token releases, refusals, sign-ins, sign-outs, and administrative changes; never a token.
///
/// Repetitions are counted in memory, on the socket's event loop without a lock, and saved with the next flush: the
/// trail never delays a request. A new record is saved within ``Limit/auditDelay``; counts within
/// ``Limit/auditInterval``.
public final class AuditTrail: Sendable {
  private let state = Mutex(AuditLines())
  let store: (any AuditStore)?
  private let logger: Logger
  private let now: @Sendable () -> Timestamp
  private let uptime: @Sendable () -> Duration

  public init(
    store: (any AuditStore)?, logger: Logger, now: @escaping @Sendable () -> Timestamp,
    uptime: @escaping @Sendable () -> Duration
  ) {
    self.store = store
    self.logger = logger
    self.now = now
    self.uptime = uptime
  }

  func configure(_ policy: AuditPolicy) {
    state.withLock { state in
      state.policy = policy
      guard !policy.isEnabled else { return }
      state.closeAll()
    }
  }

  var policy: AuditPolicy { state.withLock { $0.policy } }

  /// Records are numbered from here on.
  func begin(after id: Int64) { state.withLock { $0.nextID = max($0.nextID, id + 1) } }

  // MARK: Recording

  /// - Parameters:
  ///   - isReal: whether the account exists; the number of invented names is limited.
  ///   - refuser: the user whose share it takes; nil: none.
  func record(_ entry: AuditEntry, pid: Int32 = 0, isReal: Bool = false, refuser: AuditSubject? = nil) {
    _ = line(entry, pid: pid, at: uptime().milliseconds, isReal: isReal, refuser: refuser)
  }

  /// The record that counted this and counts repetitions; nil: nothing is recorded. A closed one must be requested
  /// again.
  func line(
    _ entry: AuditEntry, pid: Int32, at uptime: Int64, isReal: Bool = true, refuser: AuditSubject? = nil
  ) -> AuditLine? {
    let now = now()
    return state.withLock { state in
      guard state.policy.isEnabled else { return nil }
      var (entry, refuser) = (state.bounded(entry, isReal: isReal), refuser)
      var counting = state.counting(entry, at: uptime)
      if counting == nil, let one = refuser {
        if !one.isRefusal {
          if state.programs.isBeyond(entry.who, of: one, at: uptime) { entry = entry.byAnyProgram(of: one) }
        } else if case .countOnly(let all) = state.budgets.acquire(one, at: uptime) {
          (entry, refuser) = (AuditEntry(moreRefusalsOf: all), all)
        }
        counting = state.counting(entry, at: uptime)
      }
      if let counting {
        counting.again(pid: pid, at: uptime)
        return counting
      }
      if state.lines.count >= Limit.auditLines { state.makeRoom() }
      let isBounded = entry.result != AuditEntry.ok && !isReal
      let line = AuditLine(
        id: state.nextID, entry, pid: pid, first: now, uptime: uptime, refuser: refuser, isBounded: isBounded)
      state.nextID += 1
      state.add(line)
      // Counted first: the writer takes no record without a count, and would not look again soon.
      line.again(pid: pid, at: uptime)
      state.writing.nudge?.yield()
      return line
    }
  }

  // MARK: Writing

  /// Saves until the task is cancelled: new records soon, counts from time to time.
  func run(sleep: @escaping @Sendable (Duration) async -> Void) async {
    var forgotten: Duration?
    while !Task.isCancelled {
      let (nudges, nudge) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
      let hasNew = state.withLock { state in
        state.writing.nudge = nudge
        return state.hasNew
      }
      if !hasNew {
        await withTaskGroup(of: Void.self) { group in
          group.addTask { await sleep(Limit.auditInterval) }
          group.addTask { for await _ in nudges { return } }
          await group.next()
          group.cancelAll()
        }
      }
      // Records within a short time are saved together.
      await sleep(Limit.auditDelay)
      await flush()
      if forgotten.map({ uptime() - $0 >= Limit.auditForgetting }) ?? true {
        forgotten = uptime()
        await removeOldRecords()
      }
    }
  }

  /// Saves the pending records.
  public func flush() async {
    let (records, lost) = state.withLock { state in
      let taken = state.drain(at: uptime().milliseconds)
      // At once, so that the last look at the end finds them.
      for (record, _) in taken.0 { state.writing.unwritten[record.id] = record }
      return taken
    }
    if lost > 0 { logger.error("\(lost) records of the audit trail were lost: they could not be written") }
    for (number, (record, isTold)) in records.enumerated() where isTold {
      log(record)
      // A line takes some 40 µs, and a request for many accounts has a thousand.
      if number % 32 == 31 { await yieldActor() }
    }
    logOmitted()
    let all = state.withLock { $0.writing.unwritten.values.sorted { $0.id < $1.id } }
    guard let store else { return state.withLock { $0.writing.unwritten = [:] } }
    // Others may have put theirs there since: nothing is cleared.
    guard !all.isEmpty else { return }
    do throws(StoreError) {
      try await store.write(all, most: policy.most)
      let wasFailing = state.withLock { state in
        // Counts from this time are saved next.
        for record in all where state.writing.unwritten[record.id] == record {
          state.writing.unwritten[record.id] = nil
        }
        defer { state.writing.isFailing = false }
        return state.writing.isFailing
      }
      if wasFailing { logger.notice("the audit trail is written again") }
    } catch {
      let wasFailing = state.withLock { state in
        state.dropBeyondLimit()
        defer { state.writing.isFailing = true }
        return state.writing.isFailing
      }
      if !wasFailing {
        logger.error("the audit trail cannot be written: \(error.message)", metadata: ["hint": "\(error.hint)"])
      }
    }
  }

  private func removeOldRecords() async {
    let policy = policy
    guard let store else { return }
    do throws(StoreError) {
      try await store.removeRecords(before: now() - policy.keep, most: policy.most)
    } catch {
      logger.warning("old records of the audit trail could not be removed: \(error.message)")
    }
  }

  /// For the journal, with a field for each thing that is known.
  private func log(_ record: AuditRecord) {
    let level: Logger.Level =
      record.entry.isRefusal
      ? .warning : record.entry.action == .release || record.entry.action == .use ? .info : .notice
    var others = ""
    if let user = record.refuser {
      let now = uptime()
      guard let omitted = state.withLock({ $0.acquireLogLine(user, at: now) }) else { return }
      let kind = user.isRefusal ? "refusals" : "records of \(user.name)"
      if omitted > 0 { others = "; \(omitted) more \(kind) before it are only in the audit trail" }
    }
    logger.log(level: level, "\(record.sentence)\(others)", metadata: record.fields)
  }

  private func logOmitted() {
    let now = uptime()
    for (user, count) in state.withLock({ $0.omittedLogLines(at: now) }) {
      logger.warning(
        "\(count) more records of \(user?.name ?? "other users") are only in the audit trail: `grantctl audit`")
    }
    for standing in AuditSubject.RuleCoverage.allCases {
      guard let omitted = state.withLock({ $0.logBudgets.refusals[standing]?.due(at: now) }) else { continue }
      logger.warning("\(omitted) more refusals are only in the audit trail: `grantctl audit --refused`")
    }
  }
}
