import DequeModule
import OAuth
import Principals
import Synchronization

/// A record that still accepts repetitions.
final class AuditLine: Sendable {
  let id: Int64
  let entry: AuditEntry
  let first: Timestamp
  /// The user whose share it takes; nil: root's, the broker's own user's, or the broker's.
  let refuser: AuditSubject?
  var isRefusal: Bool { refuser?.isRefusal == true }
  /// Whether it belongs to the limited records of a caller.
  let isBounded: Bool
  /// Milliseconds since the machine started, as ``last``.
  private let begun: Int64
  private let last: Atomic<Int64>
  private let count = Atomic<UInt64>(0)
  private let pid: Atomic<Int32>
  private let closed = Atomic(false)

  init(
    id: Int64, _ entry: AuditEntry, pid: Int32, first: Timestamp, uptime: Int64, refuser: AuditSubject?,
    isBounded: Bool
  ) {
    self.refuser = refuser
    self.isBounded = isBounded
    self.id = id
    self.entry = entry
    self.first = first
    begun = uptime
    last = Atomic(uptime)
    self.pid = Atomic(pid)
  }

  /// Once more, at a time since the machine started.
  func again(pid: Int32, at uptime: Int64) {
    count.add(1, ordering: .relaxed)
    last.store(uptime, ordering: .relaxed)
    self.pid.store(pid, ordering: .relaxed)
  }

  /// Later actions start a new record.
  var isClosed: Bool { closed.load(ordering: .relaxed) }
  func close() { closed.store(true, ordering: .relaxed) }

  var times: UInt64 { count.load(ordering: .relaxed) }
  var lastUptime: Int64 { last.load(ordering: .relaxed) }

  var record: AuditRecord {
    let pid = pid.load(ordering: .relaxed)
    return AuditRecord(
      id: id, entry: entry, pid: pid > 0 ? pid : nil, count: times, first: first,
      last: first + .milliseconds(max(0, lastUptime - begun)), refuser: refuser)
  }
}

/// Open records, to find one that was quiet for long without a look at all of them: a record that was counted again since
/// it was queued gets one more turn.
private struct AuditLineOrder {
  private var queue: Deque<(line: AuditLine, seen: Int64)> = []
  /// Those that are open.
  private(set) var count = 0
  /// Looks for each record that is found.
  private static let looks = 16

  mutating func append(_ line: AuditLine) {
    queue.append((line, line.lastUptime))
    count += 1
    // Closed ones are dropped before they are the most.
    if queue.count > 2 * max(count, 64) { queue.removeAll { $0.line.isClosed } }
  }

  mutating func closed() { count -= 1 }

  /// The record stays counted until it is closed.
  mutating func popQuiet() -> AuditLine? {
    var looks = 0
    while let (line, seen) = queue.popFirst() {
      guard !line.isClosed else { continue }
      looks += 1
      guard line.lastUptime > seen, looks < Self.looks else { return line }
      queue.append((line, line.lastUptime))
    }
    return nil
  }
}

/// The open records, and the records to save.
struct AuditLines {
  var policy = AuditPolicy()
  private(set) var lines: [AuditEntry: AuditLine] = [:]
  /// The same by when they were last looked at, refusals apart.
  private var refusals = AuditLineOrder()
  private var others = AuditLineOrder()
  /// How often a line had been counted when it was last taken to be written.
  var taken: [Int64: UInt64] = [:]
  /// Closed, and perhaps counted by a thread that had it in hand: written once more.
  var closing: [AuditLine] = []
  /// Failed attempts that are lines of their own, by caller: names that are made up must not fill the trail.
  var failures: [AuditCaller: Int] = [:]
  var budgets = AuditBudgets()
  var programs = AuditPrograms()
  var logBudgets = LogBudgets()
  var nextID: Int64 = 1
  var writing = Writing()

  /// Limits of the lines in the log.
  struct LogBudgets {
    var refusals: [AuditSubject.RuleCoverage: LogBudget] = [
      .named: LogBudget(Limit.auditLogLines), .unnamed: LogBudget(Limit.auditLogLinesUnnamed),
    ]
    /// Other records of each user.
    var users: [AuditSubject: LogBudget] = [:]
    var furtherUsers = LogBudget(Limit.auditLogLines)
  }

  struct Writing {
    /// Records that could not be written.
    var unwritten: [Int64: AuditRecord] = [:]
    var lost: UInt64 = 0
    var isFailing = false
    /// Wakes the writer.
    var nudge: AsyncStream<Void>.Continuation?
  }
}

extension AuditLines {
  /// Attempts on unknown accounts have a limited number of kinds per caller; the others are counted without a name.
  func bounded(_ entry: AuditEntry, isReal: Bool) -> AuditEntry {
    guard entry.result != AuditEntry.ok, !isReal, lines[entry] == nil,
      failures[entry.who, default: 0] >= Limit.auditFailuresPerCaller
    else { return entry }
    var entry = entry
    entry.account = nil
    entry.detail = "of several names"
    return entry
  }

  /// The line that counts this still, at a time since the machine started. One that was quiet for too long is closed.
  mutating func counting(_ entry: AuditEntry, at uptime: Int64) -> AuditLine? {
    guard let line = lines[entry] else { return nil }
    if uptime - line.lastUptime <= entry.window.milliseconds { return line }
    close(entry)
    return nil
  }

  mutating func close(_ entry: AuditEntry) {
    guard let line = lines.removeValue(forKey: entry) else { return }
    line.close()
    if line.isRefusal { refusals.closed() } else { others.closed() }
    closing.append(line)
    guard line.isBounded, let count = failures[entry.who] else { return }
    failures[entry.who] = count > 1 ? count - 1 : nil
  }

  mutating func add(_ line: AuditLine) {
    lines[line.entry] = line
    if line.isRefusal { refusals.append(line) } else { others.append(line) }
    if line.isBounded { failures[line.entry.who, default: 0] += 1 }
  }

  mutating func closeAll() {
    for line in lines.values { line.close() }
    closing += lines.values
    (lines, failures, refusals, others) = ([:], [:], AuditLineOrder(), AuditLineOrder())
  }

  /// Closes a record that was quiet for long: a refusal, where these have more than their share.
  mutating func makeRoom() {
    let quiet =
      (refusals.count > Limit.auditLines / 4 ? refusals.popQuiet() : nil) ?? others.popQuiet() ?? refusals.popQuiet()
    guard let quiet else { return }
    close(quiet.entry)
    if closing.count > Limit.auditLines {
      closing.remove(at: closing.firstIndex { $0.isRefusal } ?? 0)
      writing.lost += 1
    }
  }

  /// Whether there is a record that was never taken.
  var hasNew: Bool {
    let isNew = { (line: AuditLine) in taken[line.id] == nil && line.times > 0 }
    return lines.values.contains(where: isNew) || closing.contains(where: isNew)
  }

  /// The count since the last call, whether to log it, and the number of lost records.
  mutating func drain(at uptime: Int64) -> ([(AuditRecord, isTold: Bool)], lost: UInt64) {
    var records: [(AuditRecord, isTold: Bool)] = []
    for line in closing + Array(lines.values) {
      let record = line.record
      let before = taken[line.id]
      guard record.count > 0, record.count != before else { continue }
      taken[line.id] = record.count
      records.append((record, before.map { record.isWorthTelling(after: $0) } ?? true))
    }
    for line in closing { taken[line.id] = nil }
    closing = []
    // Once more with the next flush: a thread may have had it in hand.
    for line in lines.values where uptime - line.lastUptime > line.entry.window.milliseconds { close(line.entry) }
    defer { writing.lost = 0 }
    return (records.sorted { $0.0.id < $1.0.id }, writing.lost)
  }

  /// How many log lines were omitted before this one; nil: omit this one too. Further users share a budget.
  mutating func acquireLogLine(_ user: AuditSubject, at uptime: Duration) -> Int? {
    guard user.isRefusal else {
      if logBudgets.users[user] == nil, logBudgets.users.count >= AuditPrograms.users {
        logBudgets.users = logBudgets.users.filter { !$0.value.isIdle(at: uptime) }
        guard logBudgets.users.count < AuditPrograms.users else { return logBudgets.furtherUsers.acquire(at: uptime) }
      }
      return logBudgets.users[user, default: LogBudget(Limit.auditLogLines)].acquire(at: uptime)
    }
    guard user.standing != .own else { return 0 }
    return logBudgets.refusals[user.standing]?.acquire(at: uptime)
  }

  /// Omitted lines that are not logged yet: of each user, nil of further ones.
  mutating func omittedLogLines(at uptime: Duration) -> [(user: AuditSubject?, count: Int)] {
    var omitted: [(AuditSubject?, Int)] = []
    for user in Array(logBudgets.users.keys) {
      if let count = logBudgets.users[user]?.due(at: uptime) { omitted.append((user, count)) }
    }
    if let count = logBudgets.furtherUsers.due(at: uptime) { omitted.append((nil, count)) }
    return omitted
  }

  /// Refusals first, then the oldest.
  mutating func dropBeyondLimit() {
    guard writing.unwritten.count > Limit.auditUnwritten else { return }
    let byAge = writing.unwritten.values.sorted { $0.id < $1.id }
    let order = byAge.filter { $0.refuser?.isRefusal == true } + byAge.filter { $0.refuser?.isRefusal != true }
    for record in order.prefix(writing.unwritten.count - Limit.auditUnwritten) {
      writing.unwritten[record.id] = nil
      writing.lost += 1
    }
  }
}
