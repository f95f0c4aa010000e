public import Broker
import Dispatch
import Grants
import SQLite
public import Sealing
import StoreRows
import Synchronization

/// The broker's state in a SQLite database, with secrets sealed under a key that is kept elsewhere.
///
/// Commits of many callers share a transaction: those that arrive while one is being written go into the next. All
/// work happens on one queue, so that waiting for the disk holds no thread of the concurrency pool.
public final class SQLiteStore: Store {
  /// Commits in one transaction.
  static let groupLimit = 256
  /// Commits that wait for one.
  static let waitingLimit = 4096
  /// Pages of the log that cause a checkpoint: SQLite's own number.
  static let logLimit = 1000

  /// The open database. Changed only on the queue.
  struct Home {
    /// Nil: a rebuild has put a new database in place that could not be opened yet.
    var database: SQLiteConnection?
    /// Nil: a rebuild is moving them.
    var files: OpenFiles?
    var lock: OwnerLock
    /// The database's key.
    var key: SealingKey {
      didSet { sealer = key.sealer }
    }
    private(set) var sealer: Sealer
    /// Changes that are not in the database yet.
    var emergencySaves: [EmergencySave] = []
    var commits: CommitCount
    /// The disk was read-only at the start: nothing can be written before the database is opened again.
    var isReadOnly: Bool

    init(
      database: SQLiteConnection?, files: OpenFiles?, lock: OwnerLock, key: SealingKey, commits: CommitCount,
      isReadOnly: Bool
    ) {
      self.isReadOnly = isReadOnly
      self.commits = commits
      self.database = database
      self.files = files
      self.lock = lock
      self.key = key
      sealer = key.sealer
    }
  }

  struct Queues {
    let commits = DispatchQueue(label: "grantd.store")
    /// Looks at files from outside; apart, so that a slow commit does not keep it.
    let looking = DispatchQueue(label: "grantd.store.looking")
    /// Makes and opens backups, one after the other: each takes memory and time to come from a passphrase to a key.
    let packing = DispatchQueue(label: "grantd.store.packing", qos: .utility)
    /// At the end of a run, when the others may hang on a disk.
    let emergency = DispatchQueue(label: "grantd.store.emergency")
  }

  struct UnreadableRows {
    var found: [RowName: SetAsideRow] = [:]
    /// The same rows for a new database, those of accounts not included.
    var kept: [RowName: KeptRow] = [:]
  }

  /// Repairs of damage since the store was opened.
  struct Repaired {
    var notices: [String]
    /// How many of them are in the log.
    var logged = 0
    /// A damaged database is rebuilt from its readable rows at most once.
    var isSalvaged = false
  }

  public let location: String

  /// Limitations of this file system, for the log.
  public var limitation: String? {
    home.withLock { $0.lock.isOfFile }
      ? "\(opening.folder.path) cannot be locked on its file system: where \(opening.folder.lock) is removed, another grantd "
        + "may start on it and work for some seconds" : nil
  }

  /// The results for the keys given at opening, for the log.
  public let keyNotices: [KeyNotice]

  public let lostCommits: LostCommits?

  let opening: Opening
  let queues = Queues()
  let home: Mutex<Home>
  /// While the lock's file is looked at, and made again.
  let owning = Mutex(())
  /// While a file of accounts that the state did not take is replaced or removed.
  let emergencyFiles = Mutex(())
  let inbox = Mutex(Inbox(limit: waitingLimit))
  /// Memory of the packed accounts.
  let memory = PackedMemory()
  let unreadable = Mutex(UnreadableRows())
  let repaired: Mutex<Repaired>
  public var repairs: [String] { repaired.withLock { $0.notices } }

  /// Those that are not in the log yet.
  public func repairsToLog() -> [String] {
    repaired.withLock { repaired in
      defer { repaired.logged = repaired.notices.count }
      return Array(repaired.notices.dropFirst(repaired.logged))
    }
  }

  /// Opens the store in `folder`, which is made where it is missing, and owns it until it is closed or the process ends.
  ///
  /// Nothing is written to a database that is damaged, newer than this version, or sealed under another key.
  /// - Parameters:
  ///   - previousKeys: if the store is still sealed under one of these, it is sealed again under `key`.
  ///   - countFile: a file in another folder for the number of commits; nil: none.
  ///   - pageLimit: for tests: how many pages the disk has room for.
  ///   - onWritePoint: for tests: called on the store's queue; it may end the process.
  ///   - onMigration: called before each step of a migration, with its number and how many there are.
  package static func open(
    folder: String, key: SealingKey, previousKeys: [SealingKey] = [], countFile: String? = nil, pageLimit: Int? = nil,
    onWritePoint: (@Sendable (WritePoint) -> Void)? = nil, onMigration: (@Sendable (Int, Int) -> Void)? = nil
  ) throws(StoreError) -> SQLiteStore {
    let folder = try StateFolder.prepare(folder)
    let isReadOnly = folder.isReadOnly
    let lock = try OwnerLock.acquire(folder.lock, owning: folder.path, isReadOnly: isReadOnly)
    let opening = Opening(
      folder: folder, keyring: Keyring(key, previous: previousKeys), pageLimit: pageLimit, onWritePoint: onWritePoint,
      onStep: { onMigration?($0, SQLiteSchema.version) })
    let opened = isReadOnly ? try opening.databaseToRead() : try opening.database()
    var commits = CommitCount(in: folder, elsewhere: countFile)
    let lost: LostCommits?
    do { lost = try commits.compare(opened.database, opened.keys.key.sealer) } catch {
      throw .opening(error, at: folder.database)
    }
    return SQLiteStore(
      opening, opened.keys.notices, opened.damageNotices, lost,
      Home(
        database: opened.database, files: isReadOnly ? nil : OpenFiles(in: folder), lock: lock, key: opened.keys.key,
        commits: commits, isReadOnly: isReadOnly))
  }

  /// Changes that wait for the disk, for tests.
  package var waiting: (commits: Int, rebuilds: Int) { inbox.withLock { $0.counts } }

  private init(
    _ opening: Opening, _ notices: [KeyNotice], _ damage: [String], _ lost: LostCommits?, _ home: sending Home
  ) {
    self.opening = opening
    keyNotices = notices
    repaired = Mutex(Repaired(notices: damage))
    lostCommits = lost
    self.home = Mutex(home)
    location = opening.folder.database
  }

  public func commit(_ changes: [Change]) async throws(StoreError) { try await commit(changes, nil) }

  func commit(
    _ changes: [Change], _ work: (@Sendable (Database, Sealer) throws -> Void)?
  ) async throws(StoreError) {
    let result = await withCheckedContinuation { (continuation: Inbox.Answer) in
      let refusal = inbox.withLock { inbox -> (@Sendable (String) -> StoreError)? in
        switch inbox.add(Inbox.Commit(changes: changes, work: work, answer: continuation)) {
        case .waits: break
        // Within the lock, so that the queue has things in the order in which the inbox has them.
        case .first: queues.commits.async { self.drain() }
        case .refused(let error): return error
        }
        return nil
      }
      if let refusal { continuation.resume(returning: .failure(refusal(location))) }
    }
    try result.get()
  }

  public func close() async {
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      let isClosed = inbox.withLock { inbox in
        switch inbox.close(continuation) {
        case .waits: break
        case .first: queues.commits.async { self.finish() }
        case .done: return true
        }
        return false
      }
      if isClosed { continuation.resume() }
    }
  }

  // MARK: On the queue

  var sealer: Sealer { home.withLock { $0.sealer } }

  /// The open database; one that a rebuild could not open is opened now.
  func database() throws(StoreError) -> SQLiteConnection {
    if let database = home.withLock({ $0.database }) { return database }
    try home.withLock { $0.files }?.examine()
    let database = try opening.reopened()
    let files = OpenFiles(in: opening.folder)
    home.withLock {
      $0.database = database
      $0.files = files
    }
    return database
  }

  func drain() {
    while true {
      let group = inbox.withLock { $0.next(limit: Self.groupLimit) }
      if group.isEmpty { return }
      let results = write(group)
      let (isAnswered, goesOn) = inbox.withLock { ($0.settle(group), $0.isWriting) }
      guard isAnswered else { return }
      for (commit, result) in zip(group, results) { commit.answer.resume(returning: result) }
      guard goesOn else { return }
    }
  }

  /// In one transaction; where that fails for a reason that may be one caller's, each on its own.
  private func write(_ group: [Inbox.Commit]) -> [Result<Void, StoreError>] {
    do {
      try transaction(group)
      return group.map { _ in .success(()) }
    } catch {
      if group.count > 1, error.mayConcernOneCommit { return group.flatMap { write([$0]) } }
      let failure = StoreError.writing(error, at: location)
      return group.map { _ in .failure(failure) }
    }
  }

  /// Checked before and after: data written into a missing file were not saved.
  func transaction(_ group: [Inbox.Commit]) throws {
    opening.onWritePoint?(.taken(commits: group.count))
    try becomeWritable()
    let database = try database()
    try opening.folder.withdrawSuccessor()
    try home.withLock { $0.files }?.examine()
    try examineContents()
    let sealer = sealer
    let saves = home.withLock { $0.emergencySaves }
    // The log has rolled back data too.
    defer { written(to: .log) }
    try database.write { db in
      try put(saves, in: db, sealer)
      for commit in group {
        for change in commit.changes { try change.apply(to: db, sealer: sealer) }
        try commit.work?(db, sealer)
      }
      try home.withLock { $0.commits }.putNext(in: db)
      opening.onWritePoint?(.applied)
    }
    home.withLock { $0.commits.committed(sealer) }
    try home.withLock { $0.files }?.examine()
    try examineDatabase()
    removeEmergencySaves(saves)
    opening.onWritePoint?(.committed)
    checkpointGrownLog(database)
  }

  /// Checkpoints a grown log. SQLite would do so within any commit, and another program's write during a commit could
  /// not be distinguished from that.
  private func checkpointGrownLog(_ database: SQLiteConnection) {
    guard opening.log.pages >= Self.logLimit else { return }
    // If the disk is full, or the database is read, the log grows, and it is tried again.
    try? database.use { try $0.checkpoint(.passive) }
    written(to: .all)
  }

  private func finish() {
    drain()
    let (database, files, lock) = home.withLock { home in
      defer { home.database = nil }
      return (home.database, home.files, home.lock)
    }
    // If this fails, committed data are safe in the log; the next start uses them.
    if let files, (try? files.examine()) != nil, (try? files.examineContents(.init(in: opening.folder))) != nil {
      try? database?.use { try $0.checkpoint(.truncate) }
      try? database?.close()
    } else {
      // Another program's data do not get into the database: the last connection would write them, unless it is
      // read-only.
      let reader = try? SQLiteConnection(path: location, Opening.looking)
      _ = try? reader?.read { try $0.value("SELECT 1 FROM sqlite_master LIMIT 1") }
      try? database?.close()
      try? reader?.close()
    }
    lock.release()
    for waiting in inbox.withLock({ $0.closed() }) { waiting.resume() }
  }
}
