import Broker
import Dispatch
import FoundationEssentials
import Grants
import OAuth
import SQLite
import Synchronization

/// The second connection: it listens and notifies, prolongs and releases leases, and gives the machine's sign of life.
///
/// - Note: unchecked, because everything except `shared` is used only on the queue.
final class Keeper: @unchecked Sendable {
  /// Each statement is answered within this time.
  private static let patience = Duration.seconds(5)
  /// How often the change log is read: notifications may be late or lost.
  private static let catchUp = Duration.seconds(30)
  /// The same if no notification arrives, as behind some poolers.
  private static let deafCatchUp = Duration.seconds(1)
  /// Changes stay in the log for this time; a broker that was away longer compares everything.
  static let kept = Duration.seconds(3600)
  private static let pruning = Duration.seconds(60)
  /// The probe at connect hears itself within this time.
  private static let probe = Duration.seconds(1)
  /// PostgreSQL's limit is 7,999 bytes.
  static let longestPayload = 7000
  static let channel = "grantd_change"

  let queue = DispatchQueue(label: "grantd.store.sharing")
  let target: Target
  let clock: SharedStoreClock
  let changes: AsyncStream<ChangesElsewhere>.Continuation
  let shared = Mutex(Shared())
  var node: OwnNode
  private(set) var connection = Connection()
  private var timer: (any DispatchSourceTimer)?
  var last = Times()
  var log = LogReading()
  /// The machine's clock minus the database's, in milliseconds.
  var clockOffset: Int64?
  /// Called when the database is another one than before, with its timeline.
  var onTimeline: @Sendable (String) -> Void = { _ in }

  /// State that any thread may use.
  struct Shared {
    var seen = SharedStoreState()
    /// Changes for the next notification of other brokers.
    var waiting: Set<Report> = []
    fileprivate var copies = Copies()
    /// Whether the session has the node's lock: no other process has its id.
    var hasNode = false
  }

  struct Connection {
    fileprivate(set) var session: DatabaseSession?
    /// It has the node's lock and does not listen yet.
    fileprivate var claimed: DatabaseSession?
    fileprivate var source: (any DispatchSourceRead)?
    fileprivate var lastAttempt: Duration?
    /// No notification arrives, as behind some poolers.
    fileprivate(set) var isDeaf = false
  }

  /// How far the change log was read.
  struct LogReading {
    /// The oldest transaction that may still have been running.
    var position: String?
    /// The database that the position belongs to.
    var identity: String?
    /// The last attempt, and the last success.
    var triedAt = Duration.zero
    var readAt: Duration?
    /// All accounts are compared at the next reading: the broker has saved the rows that another copy lacks.
    var mustCompare = false
  }

  struct Times {
    var heartbeat = Duration.zero
    var pruning = Duration.zero
  }

  /// Copies of the database by their numbers: the latest found, and the latest whose lacks the broker has written back.
  fileprivate struct Copies {
    var found = 0
    var kept = 0
  }

  init(
    _ target: Target, _ node: OwnNode, _ clock: SharedStoreClock, _ changes: AsyncStream<ChangesElsewhere>.Continuation
  ) {
    (self.target, self.node, self.clock, self.changes) = (target, node, clock, changes)
  }

  var state: SharedStoreState { shared.withLock { $0.seen } }

  // MARK: From everywhere

  var hasNode: Bool { shared.withLock { $0.hasNode } }

  /// The number of another copy of the database, if the broker has not saved the rows that it lacks.
  var otherCopy: Int? {
    let copies = shared.withLock { $0.copies }
    return copies.found > copies.kept ? copies.found : nil
  }

  /// The database is another copy. The broker saves the rows that it lacks, and then ``keptOverCopy(_:)`` follows.
  func foundCopy() {
    let isFirst = shared.withLock { shared in
      defer { shared.copies.found += 1 }
      return shared.copies.found == shared.copies.kept
    }
    if isFirst { changes.yield(.otherCopy) }
  }

  /// Compares memory with all rows, unless a further copy was found.
  func keptOverCopy(_ number: Int) {
    let isLatest = shared.withLock { shared in
      shared.copies.kept = max(shared.copies.kept, number)
      return shared.copies.found == number
    }
    guard isLatest else { return }
    queue.async {
      self.log.mustCompare = true
      if let session = try? self.connected(), self.log.mustCompare { try? self.catchUp(session) }
    }
  }

  /// Notifies the other brokers after the commit, in a transaction that is not flushed.
  func notify(_ reports: Set<Report>) {
    guard !reports.isEmpty else { return }
    let isFirst = shared.withLock { shared in
      defer { shared.waiting.formUnion(reports) }
      return shared.waiting.isEmpty
    }
    if isFirst { queue.async { self.notify() } }
  }

  func ask(_ query: Query) async throws(StoreError) -> Answer {
    try await onQueue {
      // After the answer.
      defer { self.queue.async { self.hear() } }
      return try self.run(self.connected(), [query])[0]
    }
  }

  /// Makes sure that no other process has the node's id, and returns it.
  func claim(_ random: @escaping @Sendable (Int) -> [UInt8]) async throws(StoreError) -> String {
    try await onQueue {
      try self.claim(random)
      return self.node.id
    }
  }

  /// Connects, and repeats what is due from now on.
  func start() async throws(StoreError) {
    try await onQueue {
      _ = try self.connected()
      let timer = DispatchSource.makeTimerSource(queue: self.queue)
      timer.schedule(deadline: .now() + .seconds(1), repeating: .seconds(1))
      timer.setEventHandler { [weak self] in self?.tick() }
      timer.activate()
      self.timer = timer
    }
  }

  func close() async {
    await queue.run {
      self.timer?.cancel()
      self.notify()
      if let session = self.connection.session, !session.isLost {
        try? self.node.end(session, until: self.clock.uptime() + Self.patience)
      }
      self.disconnect()
      self.changes.finish()
    }
  }

  private func onQueue<Value: Sendable>(
    _ work: @escaping @Sendable () throws -> Value
  ) async throws(StoreError) -> Value {
    do { return try await queue.run(work) } catch { throw StoreError(error, at: target.location) }
  }

  // MARK: The session, on the queue

  func run(_ session: DatabaseSession, _ queries: [Query]) throws -> [Answer] {
    do {
      return try session.run(queries, until: clock.uptime() + Self.patience)
    } catch {
      if session.isLost { disconnect() }
      throw error
    }
  }

  func disconnect() {
    // The connection ends now. Its descriptor is closed after the source was cancelled.
    connection.session?.shutDown()
    connection.source?.cancel()
    (connection.source, connection.session) = (nil, nil)
    shared.withLock { $0.hasNode = false }
  }

  private func opened() throws -> DatabaseSession {
    if let last = connection.lastAttempt, clock.uptime() - last < CommitQueue.pause {
      throw SessionFailure.lost("the connection ended")
    }
    connection.lastAttempt = clock.uptime()
    let new = try DatabaseSession(target, until: clock.uptime() + Self.patience, uptime: clock.uptime)
    try CommitQueue.refusePooler(new, at: target.location, until: clock.uptime() + Self.patience)
    return new
  }

  /// Takes the lock of the node. If another running broker has the same id, its state folder was copied: this machine gets
  /// a new id.
  private func claim(_ random: (Int) -> [UInt8]) throws {
    let new = try opened()
    let begun = clock.uptime()
    let first = try node.sign(new, until: begun + Self.patience)
    while try !node.lock(new, until: clock.uptime() + Self.patience) {
      if try node.sign(new, until: clock.uptime() + Self.patience) != first {
        node.id = hexadecimal(random(8))
      } else if clock.uptime() - begun > OwnNode.silence {
        break
      } else {
        _ = try new.ask("SELECT pg_sleep(0.5)", until: clock.uptime() + Self.patience)
      }
    }
    connection.claimed = new
  }

  func connected() throws -> DatabaseSession {
    if let session = connection.session, !session.isLost { return session }
    disconnect()
    let new: DatabaseSession
    if let claimed = connection.claimed {
      new = claimed
      connection.claimed = nil
    } else {
      new = try opened()
    }
    _ = try run(new, [Query("SET synchronous_commit = off"), Query("LISTEN \(Self.channel)")])
    connection.isDeaf = try !probe(new)
    try own(new)
    connection.session = new
    // libpq closes the descriptor. Until the source is cancelled, another one for that number would not fire.
    nonisolated(unsafe) let kept = new
    let source = DispatchSource.makeReadSource(fileDescriptor: new.descriptor, queue: queue)
    source.setEventHandler { [weak self] in self?.hear() }
    source.setCancelHandler { withExtendedLifetime(kept) {} }
    source.activate()
    connection.source = source
    try catchUp(new)
    try beat(new)
    return new
  }

  /// Takes the node's lock, or tries again: an earlier session may have it until the server notices its end.
  private func own(_ session: DatabaseSession) throws {
    guard !hasNode else { return }
    let isLocked = try node.lock(session, until: clock.uptime() + Self.patience)
    shared.withLock { $0.hasNode = isLocked }
  }

  /// Whether a notification arrives.
  private func probe(_ session: DatabaseSession) throws -> Bool {
    let end = clock.uptime() + Self.probe
    _ = try run(session, [Query("SELECT pg_notify('\(Self.channel)', $1::text)", [.text("\(node.id)\nprobe")])])
    while clock.uptime() < end {
      if try !session.listen().isEmpty { return true }
      _ = try run(session, [Query("SELECT pg_sleep(0.01)")])
    }
    return false
  }

  private func tick() {
    do {
      let session = try connected()
      try own(session)
      let now = clock.uptime()
      if now - last.heartbeat >= OwnNode.heartbeat { try beat(session) }
      let pause = connection.isDeaf ? Self.deafCatchUp : Self.catchUp
      if log.mustCompare || now - log.triedAt >= pause { try catchUp(session) }
      if now - last.pruning >= Self.pruning {
        last.pruning = now
        _ = try run(
          session,
          [
            Query(
              "DELETE FROM grantd.change WHERE at < clock_timestamp() - interval '\(Self.kept.components.seconds) s'")
          ])
      }
      hear()
    } catch {
      let failure = StoreError(error, at: target.location)
      shared.withLock { $0.seen.failure = failure }
    }
  }
}

/// The clocks, which only the composition root reads.
struct SharedStoreClock: Sendable {
  let now: @Sendable () -> Timestamp
  let uptime: @Sendable () -> Duration
}
