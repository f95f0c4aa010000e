public import Broker
import Dispatch
import Glibc
public import OAuth
import SQLite
import Synchronization

/// The audit trail in a separate database, so that it neither waits for the grants' commits nor delays them, and
/// survives them. It has no secrets and is not sealed: the machine's administrators may read it.
public final class AuditFile: AuditStore {
  /// The `user_version` that this program writes.
  static let version = 3
  /// "grna", beside the store's "grnt".
  static let applicationID = 0x6772_6e61

  public let path: String
  private let folder: StateFolder
  private let queue = DispatchQueue(label: "grantd.audit")
  /// Changed only on the queue. Nil: opened with the next query.
  private let database = Mutex<(connection: SQLiteConnection, file: FileIdentity?)?>(nil)
  /// The same. Nil: to be counted with the next write.
  private let counts = Mutex<AuditCounts?>(nil)
  /// Records that one transaction forgets at most: a smaller limit may leave very many to forget.
  static let forgottenAtOnce = 10_000

  /// Nothing is opened before it is needed, and a trail that cannot be opened is tried again with each write.
  ///
  /// - Parameter folder: the state folder, which the store of this process owns.
  public init(folder: String) {
    self.folder = StateFolder(path: folder)
    path = folder + "/audit.db"
  }

  public func lastID() async throws(StoreError) -> Int64 {
    try await reading { try $0.value("SELECT max(id) FROM audit")?.integer ?? 0 }
  }

  public func write(_ records: [AuditRecord], most: Int) async throws(StoreError) {
    _ = try await writing { db, counts in
      for record in records where try record.put(in: db) { counts.add(record.refuser.map(AuditCounts.Refuser.init), 1) }
      return try counts.removeExcess(over: most, in: db)
    }
  }

  public func read(_ question: AuditQuestion) async throws(StoreError) -> [AuditRecord] {
    let (sql, arguments) = question.sql
    return try await reading { try $0.rows(sql, arguments).compactMap(AuditRecord.init) }
  }

  public func removeRecords(before moment: Timestamp, most: Int) async throws(StoreError) {
    var isMore = true
    while isMore {
      isMore = try await writing { db, counts in
        try db.execute("DELETE FROM audit WHERE last < ?", [.integer(moment.milliseconds)])
        if db.changes > 0 { counts = try AuditCounts(db) }
        return try counts.removeExcess(over: most, in: db)
      }
    }
  }

  public func close() async {
    await queue.run { _ = try? self.database.withLock { $0.take() }?.connection.close() }
  }

  // MARK: On the queue

  private func reading<Value: Sendable>(
    _ work: @escaping @Sendable (Database) throws -> Value
  ) async throws(StoreError) -> Value {
    try await onQueue {
      try $0.read(work)
    } error: {
      .reading($0, at: $1)
    }
  }

  private func writing(
    _ work: @escaping @Sendable (Database, inout AuditCounts) throws -> Bool
  ) async throws(StoreError) -> Bool {
    try await onQueue { connection in
      // Unknown until the commit.
      let before = self.counts.withLock { $0.take() }
      let (result, after) = try connection.write { db in
        var after = try before ?? AuditCounts(db)
        return (try work(db, &after), after)
      }
      self.counts.withLock { $0 = after }
      return result
    } error: {
      .writing($0, at: $1)
    }
  }

  private func onQueue<Value: Sendable>(
    _ work: @escaping @Sendable (SQLiteConnection) throws -> Value,
    error translated: @escaping @Sendable (any Error, String) -> StoreError
  ) async throws(StoreError) -> Value {
    try await queue.run { () throws(StoreError) in
      do {
        return try work(try self.opened())
      } catch {
        throw self.after(translated(error, self.path))
      }
    }
  }

  private func opened() throws -> SQLiteConnection {
    if let (open, file) = database.withLock({ $0 }) {
      // Data written into a removed or replaced file are lost.
      if let file, FileIdentity(at: path) == file { return open }
      database.withLock { $0 = nil }
      try? open.close()
    }
    try folder.protect(path)
    let new = try SQLiteConnection(path: path, Opening.writing)
    do {
      try new.write { try Self.prepare($0, path: path) }
    } catch {
      try? new.close()
      throw error
    }
    counts.withLock { $0 = nil }
    database.withLock { [file = FileIdentity(at: path)] in $0 = (new, file) }
    return new
  }

  /// A damaged trail is moved aside for inspection, and the next write begins a new one.
  private func after(_ error: StoreError) -> StoreError {
    guard case .corrupt(let path, let detail) = error else { return error }
    try? database.withLock { $0.take() }?.connection.close()
    let aside = path + ".damaged"
    for suffix in [""] + StateFolder.companions {
      unlink(aside + suffix)
      rename(path + suffix, aside + suffix)
    }
    return .corrupt(path: path, detail: "\(detail); it was put aside as \(aside), and a new one begins")
  }

  private static func prepare(_ db: Database, path: String) throws {
    let found = try db.number("PRAGMA user_version")
    try check(found, db, path: path)
    let application = try db.number("PRAGMA application_id")
    if found == 0 {
      try db.execute(schema)
      try db.execute("PRAGMA application_id = \(applicationID); PRAGMA user_version = \(version)")
    } else if application != applicationID {
      throw StoreError.corrupt(path: path, detail: "it is another program's database")
    }
    guard found > 0 else { return }
    if found < 2 {
      // Who was refused is not known better than by user id, and not whether a rule named them.
      try db.execute(
        """
        ALTER TABLE audit ADD COLUMN refuser TEXT;
        ALTER TABLE audit ADD COLUMN standing TEXT;
        UPDATE audit SET refuser = 'uid ' || ifnull(uid, '-'), standing = 'unnamed'
          WHERE result IN ('not_permitted', 'rate_limited', 'not_delivered') AND ifnull(uid, -1) != 0;
        \(refuserIndex)
        PRAGMA user_version = 2;
        """)
    }
    if found < 3 {
      try db.execute("ALTER TABLE audit ADD COLUMN parent TEXT; PRAGMA user_version = \(version);")
    }
  }

  /// The header's version must be that of the table: a damaged one must neither start a migration nor be taken for a newer
  /// version's. A new version adds a column.
  private static func check(_ stated: Int, _ db: Database, path: String) throws {
    let columns = try db.number("SELECT count(*) FROM pragma_table_info('audit')")
    // By version; the first is of an empty database.
    guard let found = [0, 18, 20, 21].firstIndex(of: columns) else {
      if stated > version { throw StoreError.newer(path: path, found: stated, known: version) }
      throw StoreError.corrupt(path: path, detail: "its table is that of no schema")
    }
    guard stated == found else {
      throw StoreError.corrupt(
        path: path, detail: "its header names schema \(stated), and its table is that of \(found)")
    }
  }

  /// Whose refusals there are, and the oldest of each; of the events where it is null.
  private static let refuserIndex = "CREATE INDEX audit_by_refuser ON audit (refuser, standing, last);"

  /// Times are milliseconds since 1970. Scopes are joined by a space. `refuser` and `standing` are null except for
  /// refusals.
  private static let schema = """
    CREATE TABLE audit (
      id INTEGER PRIMARY KEY,
      first INTEGER NOT NULL,
      last INTEGER NOT NULL,
      count INTEGER NOT NULL,
      action TEXT NOT NULL,
      method TEXT NOT NULL,
      account TEXT,
      provider TEXT,
      uid INTEGER,
      pid INTEGER,
      unit TEXT,
      user_unit TEXT,
      exe TEXT,
      scopes TEXT,
      generation INTEGER,
      rule TEXT,
      result TEXT NOT NULL,
      detail TEXT,
      refuser TEXT,
      standing TEXT,
      parent TEXT
    ) STRICT;
    CREATE INDEX audit_by_account ON audit (account, id);
    CREATE INDEX audit_by_end ON audit (last);
    \(refuserIndex)
    """
}
