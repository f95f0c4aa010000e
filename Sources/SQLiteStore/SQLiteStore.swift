public import Broker
import Dispatch
import GRDB
import Synchronization

/// The broker's state in a SQLite database, with secrets sealed under a key that is kept elsewhere.
///
/// Commits of many callers share a transaction: those that arrive while one is being written go into the next. All
/// work happens on the database's own queue, so that waiting for the disk holds no thread of the concurrency pool.
public final class SQLiteStore: Store {
  /// Commits in one transaction.
  static let groupLimit = 256
  /// Commits that wait for one.
  static let waitingLimit = 4096

  public let location: String

  private let database: DatabaseQueue
  private let sealer: Sealer
  private let lock: OwnerLock
  private let onWritePoint: (@Sendable (WritePoint) -> Void)?
  private let inbox = Mutex(Inbox(limit: waitingLimit))

  /// Opens the store in `folder`, which is made where it is missing, and owns it until it is closed or the process ends.
  ///
  /// Nothing is written to a database that is damaged, newer than this version, or sealed under another key.
  /// - Parameter previousKey: where the store is still sealed under this one, it is sealed anew under `key`.
  public static func open(
    folder: String, key: SealingKey, previousKey: SealingKey? = nil
  ) throws(StoreError) -> SQLiteStore {
    try open(folder: folder, key: key, previousKey: previousKey, pageLimit: nil, onWritePoint: nil)
  }

  /// For tests.
  /// - Parameters:
  ///   - pageLimit: how many pages the disk has room for.
  ///   - onWritePoint: called on the database's queue; it may end the process.
  package static func open(
    folder: String, key: SealingKey, previousKey: SealingKey? = nil, pageLimit: Int?,
    onWritePoint: (@Sendable (WritePoint) -> Void)?
  ) throws(StoreError) -> SQLiteStore {
    let folder = try StateFolder.prepare(folder)
    let lock = try OwnerLock.acquire(folder.lock, owning: folder.path)
    let sealer = Sealer(key: key.key)
    let opening = Opening(
      folder: folder, sealer: sealer, previous: previousKey.map { Sealer(key: $0.key) }, keySource: key.source,
      pageLimit: pageLimit)
    return SQLiteStore(
      location: folder.database, database: try opening.database(), sealer: sealer, lock: lock,
      onWritePoint: onWritePoint)
  }

  private init(
    location: String, database: DatabaseQueue, sealer: Sealer, lock: OwnerLock,
    onWritePoint: (@Sendable (WritePoint) -> Void)?
  ) {
    self.location = location
    self.database = database
    self.sealer = sealer
    self.lock = lock
    self.onWritePoint = onWritePoint
  }

  public func load() async throws(StoreError) -> StoredState {
    guard inbox.withLock({ $0.isOpen }) else { throw .closed }
    let result = await withCheckedContinuation {
      (continuation: CheckedContinuation<Result<StoredState, StoreError>, Never>) in
      database.asyncRead { [sealer, location] access in
        do {
          continuation.resume(returning: .success(try StoredState.read(access.get(), sealer: sealer)))
        } catch {
          continuation.resume(returning: .failure(.reading(error, at: location)))
        }
      }
    }
    return try result.get()
  }

  public func commit(_ changes: [Change]) async throws(StoreError) {
    let result = await withCheckedContinuation { (continuation: Inbox.Answer) in
      switch inbox.withLock({ $0.add(Inbox.Commit(changes: changes, answer: continuation)) }) {
      case .waits: break
      case .first: database.asyncWriteWithoutTransaction { self.drain($0) }
      case .refused(let error): continuation.resume(returning: .failure(error(location)))
      }
    }
    try result.get()
  }

  public func close() async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      switch inbox.withLock({ $0.close(continuation) }) {
      case .waits: break
      case .first: database.asyncWriteWithoutTransaction { self.finish($0) }
      case .done: continuation.resume()
      }
    }
  }

  // MARK: On the database's queue

  private func drain(_ db: Database) {
    while true {
      let group = inbox.withLock { $0.next(limit: Self.groupLimit) }
      if group.isEmpty { return }
      write(group, to: db)
    }
  }

  /// In one transaction; where that fails for a reason that may be one caller's, each on its own.
  private func write(_ group: [Inbox.Commit], to db: Database) {
    do {
      try transaction(group, in: db)
      for commit in group { commit.answer.resume(returning: .success(())) }
    } catch {
      if group.count > 1, error.mayConcernOneCommit {
        for commit in group { write([commit], to: db) }
      } else {
        let failure = StoreError.writing(error, at: location)
        for commit in group { commit.answer.resume(returning: .failure(failure)) }
      }
    }
  }

  private func transaction(_ group: [Inbox.Commit], in db: Database) throws {
    onWritePoint?(.taken(commits: group.count))
    try db.inTransaction(.immediate) {
      for commit in group {
        for change in commit.changes { try change.apply(to: db, sealer: sealer) }
      }
      onWritePoint?(.applied)
      return .commit
    }
    onWritePoint?(.committed)
  }

  private func finish(_ db: Database) {
    drain(db)
    // What is committed is safe in the WAL where this fails; the next start takes it from there.
    _ = try? db.checkpoint(.truncate)
    // The queue cannot close the connection from within its own closure.
    database.asyncClose { [self] in
      lock.release()
      for waiting in inbox.withLock({ $0.closed() }) { waiting.resume() }
    }
  }
}

/// Where a commit is, for tests of what survives the end of the process.
package enum WritePoint: Sendable, Equatable {
  case taken(commits: Int)
  case applied
  case committed
}

extension DatabaseQueue {
  fileprivate func asyncClose(then next: @escaping @Sendable () -> Void) {
    DispatchQueue.global().async {
      try? self.close()
      next()
    }
  }
}
