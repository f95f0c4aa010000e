import Broker
import Dispatch
import FoundationEssentials
import Grants
import SQLite
import Synchronization

/// The connection that commits, reads and leases, and the jobs that wait for it. Jobs that arrive while a transaction is
/// being written share the next one.
///
/// - Note: unchecked, because everything except the inbox and `held` is used only on the queue.
final class CommitQueue: @unchecked Sendable {
  /// Jobs that wait.
  static let waitingLimit = 4096
  /// A statement, a group, or a page is answered within this time.
  static let patience = Duration.seconds(10)
  /// After a failure to connect, the next attempt waits so long.
  static let pause = Duration.milliseconds(300)

  struct Inbox {
    var isOpen = true
    var waiting: [Job] = []
    var isWriting = false
  }

  private struct Connection {
    var session: DatabaseSession?
    var lastFailure: (failure: StoreError, at: Duration)?
  }

  /// The values of this broker's transactions, by which it recognises the database.
  struct Groups {
    private static let mostUnconfirmed = 8

    /// The latest group in the database. Set by ``confirm(_:)``.
    private(set) var latest = Data()
    /// Values that transactions without an answer may have written instead of ``latest``, the newest last.
    private(set) var unconfirmed: [Data] = []
    /// A group was not written, and ``CommitQueue/enter(_:isOwn:_:until:)`` has not succeeded since.
    var hasFailed = false
    /// The database is another copy, and ``CommitQueue/enter(_:isOwn:_:until:)`` has not succeeded since.
    private(set) var isInCopy = false

    /// A transaction that writes this value is sent.
    mutating func sends(_ value: Data) { unconfirmed = unconfirmed.suffix(Self.mostUnconfirmed - 1) + [value] }

    /// The value is in the database. A transaction that was sent before it and still waits for the row's lock finds another
    /// value than it expects.
    mutating func confirm(_ value: Data) { (latest, unconfirmed) = (value, []) }

    /// The value is not in the database, and will not be.
    mutating func withdraw(_ value: Data) { unconfirmed.removeAll { $0 == value } }

    /// Whether the database is another copy than the one of the latest group.
    ///
    /// - Parameter value: the database's; nil: it does not know this node.
    func isOther(_ value: Data?) -> Bool {
      value.map { $0 != latest && !unconfirmed.contains($0) } ?? !latest.isEmpty
    }

    /// The same, once until ``entered()``: nothing is compared before that.
    mutating func findsOther(_ value: Data?) -> Bool {
      guard isOther(value), !isInCopy else { return false }
      (isInCopy, hasFailed) = (true, true)
      return true
    }

    mutating func entered() { (isInCopy, hasFailed) = (false, false) }
  }

  struct Observers {
    /// Called with the rows that a transaction changed.
    var changed: @Sendable (Set<Report>) -> Void = { _ in }
    /// Called if the database is found to be another copy: by a read before its answer is returned.
    var copied: @Sendable () -> Void = {}
  }

  let target: Target
  let uptime: @Sendable () -> Duration
  let randomBytes: @Sendable (Int) -> [UInt8]
  let queue = DispatchQueue(label: "grantd.store.shared")
  private let inbox = Mutex(Inbox())
  /// The leases that were granted and not given back.
  let held = Mutex<[AccountName: Lease]>([:])
  private var connection = Connection()
  var groups = Groups()
  /// Logins that this store has written.
  private var knownLogins: Set<LoginID> = []
  /// Nil: the node is not registered yet.
  var writer: Writer?
  var timeline = ""
  var observers = Observers()

  init(
    _ target: Target, uptime: @escaping @Sendable () -> Duration, randomBytes: @escaping @Sendable (Int) -> [UInt8]
  ) {
    (self.target, self.uptime, self.randomBytes) = (target, uptime, randomBytes)
  }

  // MARK: From everywhere

  func add(
    _ work: Job.Work, expecting: [Expectation], as commit: Revision = .random()
  ) async throws(StoreError) -> Leasing? {
    let revision = commit.data
    let result = await withCheckedContinuation { continuation in
      let job = Job(work: work, expecting: expecting, revision: revision, answer: continuation)
      let refusal = inbox.withLock { inbox -> StoreError? in
        guard inbox.isOpen else { return .closed }
        guard inbox.waiting.count < Self.waitingLimit else {
          return .shared(.init(.refused, target.location, "\(Self.waitingLimit) changes wait already"))
        }
        inbox.waiting.append(job)
        if !inbox.isWriting {
          inbox.isWriting = true
          queue.async { self.drain() }
        }
        return nil
      }
      if let refusal { continuation.resume(returning: .failure(refusal)) }
    }
    return try result.get()
  }

  /// Runs on the queue with a session.
  func use<Value: Sendable>(
    _ body: @escaping @Sendable (DatabaseSession, Duration) throws -> Value
  ) async throws(StoreError) -> Value {
    try await queue.run { () throws(StoreError) in try self.attempt(body) }
  }

  /// Runs the queries in one snapshot. If the database is another copy than before, ``Observers/copied`` precedes the answers.
  func read(_ queries: [Query]) async throws(StoreError) -> [Answer] {
    try await use { session, deadline in
      guard let node = self.writer?.node else { throw StoreError.closed }
      let answers = try session.run(
        [Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), Self.latest(of: node)] + queries
          + [Query("COMMIT")], until: deadline)
      if self.groups.findsOther(answers[1].value?.blob) { self.observers.copied() }
      return Array(answers[2..<(2 + queries.count)])
    }
  }

  static func latest(of node: String) -> Query {
    Query("SELECT last FROM grantd.writer WHERE node = $1::text", [.text(node)])
  }

  func close() async {
    inbox.withLock { $0.isOpen = false }
    await queue.run { self.connection.session = nil }
  }

  /// The server's timeline, which leases record.
  func connected(to timeline: String) { queue.async { self.timeline = timeline } }

  func know(_ logins: [LoginID]) { queue.async { self.knownLogins.formUnion(logins) } }

  // MARK: On the queue

  func connected() throws(StoreError) -> DatabaseSession {
    if let session = connection.session, !session.isLost { return session }
    connection.session = nil
    if let last = connection.lastFailure, uptime() - last.at < Self.pause { throw last.failure }
    do {
      let new = try DatabaseSession(target, until: uptime() + Self.patience / 2, uptime: uptime)
      try Self.refusePooler(new, at: target.location, until: uptime() + Self.patience / 2)
      connection = Connection(session: new)
      return new
    } catch {
      let failure = StoreError(error, at: target.location)
      connection.lastFailure = (failure, uptime())
      throw failure
    }
  }

  /// Behind a pooler each transaction may be another server process: prepared statements and notifications are lost.
  static func refusePooler(_ session: DatabaseSession, at location: String, until deadline: Duration) throws {
    let process = try session.ask("SELECT pg_backend_pid()", until: deadline).value?.integer
    guard process == session.process else {
      throw StoreError.shared(.init(.pooler, location, "the server process is not the connected one"))
    }
  }

  /// A connection that broke while it was idle is replaced once; nothing was sent on it that matters.
  private func attempt<Value>(_ body: (DatabaseSession, Duration) throws -> Value) throws(StoreError) -> Value {
    for isLast in [false, true] {
      let session = try connected()
      do {
        return try body(session, uptime() + Self.patience)
      } catch {
        if case .lost? = error as? SessionFailure, !isLast { continue }
        throw StoreError(error, at: target.location)
      }
    }
    throw .closed
  }

  private func drain() {
    while true {
      let group = inbox.withLock { inbox in
        let group = Array(inbox.waiting.prefix(CommitGroup.limit))
        inbox.waiting.removeFirst(group.count)
        inbox.isWriting = !group.isEmpty
        return group
      }
      if group.isEmpty { return }
      let results = write(group)
      for case .failure(let error) in results where error != .conflict { groups.hasFailed = true }
      for (job, result) in zip(group, results) { job.answer.resume(returning: result) }
    }
  }

  private func write(_ jobs: [Job]) -> [Result<Leasing?, StoreError>] {
    func all(_ failure: StoreError) -> [Result<Leasing?, StoreError>] { jobs.map { _ in .failure(failure) } }
    guard let writer else { return all(.closed) }
    do {
      let (results, told) = try commit(jobs, writer)
      record(jobs, results)
      observers.changed(told)
      return results
    } catch let failure as SessionFailure where failure.mayConcernOneCommit && jobs.count > 1 {
      return jobs.flatMap { write([$0]) }
    } catch let unsettled as Unsettled {
      let detail = unsettled.failure.message
      return jobs.map { job in
        // The same broker gets a lease again.
        if case .lease = job.work { return .failure(unsettled.failure) }
        return .failure(.unknown(path: target.location, detail: detail))
      }
    } catch {
      return all(StoreError(error, at: target.location))
    }
  }

  var otherCopy: StoreError {
    .shared(.init(.otherCopy, target.location, "this machine's latest write is missing, as in a restored copy"))
  }

  /// It is not known whether the group's transaction was done.
  private struct Unsettled: Error {
    let failure: StoreError
  }

  private func commit(
    _ jobs: [Job], _ writer: Writer
  ) throws -> (results: [Result<Leasing?, StoreError>], told: Set<Report>) {
    for isLast in [false, true] {
      let session = try connected()
      let group = try CommitGroup(
        jobs, by: writer, id: Data(randomBytes(8)), after: groups.latest, timeline: timeline,
        intents: try intents(of: jobs, writer, session), isKnown: { knownLogins.contains($0) })
      do {
        groups.sends(group.id)
        let answers = try session.run(group.queries, until: uptime() + Self.patience)
        guard group.isNext(answers) else {
          groups.withdraw(group.id)
          throw otherCopy
        }
        groups.confirm(group.id)
        return group.results(answers)
      } catch let failure as SessionFailure {
        guard failure.isUnknown else {
          groups.withdraw(group.id)
          throw failure
        }
        // The transaction may have been done.
        do {
          if let applied = try settle(group, writer) { return group.settled(applied) }
        } catch {
          throw Unsettled(failure: StoreError(error, at: target.location))
        }
        if isLast || failure == .unconfirmed { throw failure }
      }
    }
    throw StoreError.closed
  }

  /// What is on disk of the intents of accounts that are leased.
  private func intents(
    of jobs: [Job], _ writer: Writer, _ session: DatabaseSession
  ) throws -> [AccountName: CommitGroup.Intent] {
    let wanted = jobs.compactMap { job in if case .lease(let intent, _, _) = job.work { intent } else { nil } }
    guard !wanted.isEmpty else { return [:] }
    let answers = try session.run(wanted.map { Writer.intent($0.account) }, until: uptime() + Self.patience)
    var intents: [AccountName: CommitGroup.Intent] = [:]
    for (intent, answer) in zip(wanted, answers) {
      let before = answer.rows.first
      intents[intent.account] = .init(new: writer.continued(intent, from: before), before: before)
    }
    return intents
  }

  private func record(_ jobs: [Job], _ results: [Result<Leasing?, StoreError>]) {
    for (job, result) in zip(jobs, results) {
      if case .success(.granted(let lease, _)) = result { held.withLock { $0[lease.account] = lease } }
      guard case .commit(let changes) = job.work, case .success = result else { continue }
      for change in changes {
        switch change {
        case .putLogin(let login): knownLogins.insert(login.id)
        case .removeLogin(let id): knownLogins.remove(id)
        default: break
        }
      }
    }
  }
}

extension StoreError {
  init(_ error: any Error, at location: String) {
    self =
      switch error {
      case let error as StoreError: error
      case let error as SessionFailure: .shared(SharedStoreTrouble(error, at: location))
      default: .shared(.init(.refused, location, "unexpected: \(type(of: error))"))
      }
  }
}

extension SharedStoreTrouble {
  /// By SQLSTATE (PostgreSQL, "Error Codes").
  init(_ failure: SessionFailure, at location: String) {
    switch failure {
    case .unconfirmed: self.init(.unconfirmed, location, "")
    case .lost(let reason):
      let isRefused = ["authentication failed", "does not exist", "pg_hba.conf", "permission denied"]
        .contains { reason.contains($0) }
      let isReadOnly = reason.contains("read-only") || reason.contains("in recovery")
      self.init(isReadOnly ? .readOnly : isRefused ? .notPermitted : .unreachable, location, reason)
    case .refused(let state, let message):
      let kind: Kind =
        switch state {
        case "55P03", "57014": .lockTimeout
        case "53100": .fullDisk
        case "25006": .readOnly
        case "42501", "28000", "28P01": .notPermitted
        case "42P01", "3F000", "42703": .schema
        default: .refused
        }
      self.init(kind, location, "\(message) (\(state))")
    }
  }
}
