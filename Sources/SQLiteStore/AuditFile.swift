public import Broker
import Dispatch
import Foundation
import GRDB
public import OAuth
import Synchronization

/// The audit trail in a database of its own, so that it neither waits for the grants' commits nor keeps them waiting, and
/// outlives theirs. It holds no secret, and nothing is sealed: whoever may look after the machine may read it.
public final class AuditFile: AuditStore {
  /// `user_version` of what this program writes.
  static let version = 1
  /// "grna", beside the store's "grnt".
  static let applicationID: Int32 = 0x6772_6e61

  public let path: String
  private let folder: StateFolder
  private let queue = DispatchQueue(label: "grantd.audit")
  /// Changed on the queue alone. Nil: to be opened with the next question.
  private let database = Mutex<(queue: DatabaseQueue, file: FileIdentity?)?>(nil)

  /// Nothing is opened before it is needed, and a trail that cannot be opened is tried again with each write.
  ///
  /// - Parameter folder: the state folder, which the store of this process owns.
  public init(folder: String) {
    self.folder = StateFolder(path: folder)
    path = folder + "/audit.db"
  }

  public func lastID() async throws(StoreError) -> Int64 {
    try await reading { try Int64.fetchOne($0, sql: "SELECT max(id) FROM audit") ?? 0 }
  }

  public func write(_ records: [AuditRecord]) async throws(StoreError) {
    try await writing { db in for record in records { try record.put(in: db) } }
  }

  public func read(_ question: AuditQuestion) async throws(StoreError) -> [AuditRecord] {
    let (sql, arguments) = question.sql
    return try await reading { try Row.fetchAll($0, sql: sql, arguments: arguments).compactMap(AuditRecord.init) }
  }

  public func forget(before moment: Timestamp, most: Int) async throws(StoreError) {
    try await writing { db in
      try db.execute(sql: "DELETE FROM audit WHERE last < ?", arguments: [moment.milliseconds])
      let oldest = "SELECT id FROM audit ORDER BY id DESC LIMIT 1 OFFSET ?"
      if let id = try Int64.fetchOne(db, sql: oldest, arguments: [most]) {
        try db.execute(sql: "DELETE FROM audit WHERE id <= ?", arguments: [id])
      }
    }
  }

  public func close() async {
    await withCheckedContinuation { continuation in
      queue.async {
        try? self.database.withLock { $0.take() }?.queue.close()
        continuation.resume()
      }
    }
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

  private func writing(_ work: @escaping @Sendable (Database) throws -> Void) async throws(StoreError) {
    try await onQueue {
      try $0.inTransaction(.immediate) { db in
        try work(db)
        return .commit
      }
    } error: {
      .writing($0, at: $1)
    }
  }

  private func onQueue<Value: Sendable>(
    _ work: @escaping @Sendable (DatabaseQueue) throws -> Value,
    error translated: @escaping @Sendable (any Error, String) -> StoreError
  ) async throws(StoreError) -> Value {
    let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
      queue.async {
        do {
          continuation.resume(returning: .success(try work(try self.opened())))
        } catch {
          continuation.resume(returning: .failure(self.after(translated(error, self.path))))
        }
      }
    }
    return try result.get()
  }

  private func opened() throws -> DatabaseQueue {
    if let (open, file) = database.withLock({ $0 }) {
      // What is written into a file that was removed or replaced is nowhere.
      if let file, FileIdentity(at: path) == file { return open }
      database.withLock { $0 = nil }
      try? open.close()
    }
    try folder.protect(path)
    let new = try DatabaseQueue(path: path, configuration: Opening.writing("grantd.audit"))
    do {
      try new.write { try Self.prepare($0, path: path) }
    } catch {
      try? new.close()
      throw error
    }
    database.withLock { [file = FileIdentity(at: path)] in $0 = (new, file) }
    return new
  }

  /// A damaged trail is put aside, for those who want to look at it, and the next write begins a new one.
  private func after(_ error: StoreError) -> StoreError {
    guard case .corrupt(let path, let detail) = error else { return error }
    try? database.withLock { $0.take() }?.queue.close()
    let aside = path + ".damaged"
    for suffix in [""] + StateFolder.companions {
      unlink(aside + suffix)
      rename(path + suffix, aside + suffix)
    }
    return .corrupt(path: path, detail: "\(detail); it was put aside as \(aside), and a new one begins")
  }

  private static func prepare(_ db: Database, path: String) throws {
    let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    guard found <= version else { throw StoreError.newer(path: path, found: found, known: version) }
    let application = try Int32.fetchOne(db, sql: "PRAGMA application_id")
    if found == 0 {
      try db.execute(sql: schema)
      try db.execute(sql: "PRAGMA application_id = \(applicationID); PRAGMA user_version = \(version)")
    } else if application != applicationID {
      throw StoreError.corrupt(path: path, detail: "it is another program's database")
    }
  }

  /// Times are milliseconds since 1970. Scopes are joined by a space.
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
      detail TEXT
    ) STRICT;
    CREATE INDEX audit_by_account ON audit (account, id);
    CREATE INDEX audit_by_end ON audit (last);
    """
}

extension AuditRecord {
  fileprivate func put(in db: Database) throws {
    let arguments: StatementArguments = [
      id, first.milliseconds, last.milliseconds, Int64(clamping: count), entry.actionName, entry.method,
      entry.account, entry.provider, entry.who.uid.map { Int64($0) }, pid.map { Int64($0) }, entry.who.unit,
      entry.who.userUnit, entry.who.executable, entry.scopes.isEmpty ? nil : entry.scopes.joined(separator: " "),
      entry.generation, entry.rule, entry.result, entry.detail,
    ]
    try db.cachedStatement(
      sql: """
        INSERT INTO audit (id, first, last, count, action, method, account, provider, uid, pid, unit, user_unit, exe,
          scopes, generation, rule, result, detail)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET count = max(count, excluded.count), last = max(last, excluded.last),
          pid = excluded.pid
        """
    ).execute(arguments: arguments)
  }

  /// Nil where a column holds what this version does not know.
  fileprivate init?(_ row: Row) {
    let who = AuditEntry.Who(
      uid: (row["uid"] as Int64?).flatMap { UInt32(exactly: $0) }, unit: row["unit"], userUnit: row["user_unit"],
      executable: row["exe"])
    guard
      var entry = AuditEntry(
        actionName: row["action"], method: row["method"], account: row["account"], who: who, result: row["result"])
    else { return nil }
    entry.provider = row["provider"]
    entry.scopes = (row["scopes"] as String?).map { $0.split(separator: " ").map(String.init) } ?? []
    entry.generation = row["generation"]
    entry.rule = row["rule"]
    entry.detail = row["detail"]
    let count: Int64 = row["count"]
    self.init(
      id: row["id"], entry: entry, pid: (row["pid"] as Int64?).flatMap { Int32(exactly: $0) },
      count: UInt64(clamping: count), first: Timestamp(milliseconds: row["first"]),
      last: Timestamp(milliseconds: row["last"]))
  }
}

extension AuditQuestion {
  fileprivate var sql: (String, StatementArguments) {
    var conditions: [String] = []
    var arguments = StatementArguments()
    func add(_ condition: String, _ value: any DatabaseValueConvertible) { add(condition, [value]) }
    func add(_ condition: String, _ values: [any DatabaseValueConvertible]) {
      conditions.append(condition)
      arguments += StatementArguments(values)
    }
    if let account { add("account = ?", account) }
    if let accounts {
      add(Self.matching(accounts.count), accounts.map { Self.glob($0) as any DatabaseValueConvertible })
    }
    if let uid { add("uid = ?", Int64(uid)) }
    if let unit { add("(unit = ? OR user_unit = ?)", [unit, unit]) }
    if let actionName { add("action = ?", actionName) }
    if refusalsOnly {
      add(
        "result IN (\(AuditEntry.refusals.map { _ in "?" }.joined(separator: ", ")))",
        AuditEntry.refusals.map { $0 as any DatabaseValueConvertible })
    }
    if let since { add("last >= ?", since.milliseconds) }
    if let until { add("first <= ?", until.milliseconds) }
    if let before { add("id < ?", before) }
    let filter = conditions.isEmpty ? "" : "WHERE \(conditions.joined(separator: " AND ")) "
    arguments += [limit]
    return ("SELECT * FROM audit \(filter)ORDER BY id DESC LIMIT ?", arguments)
  }

  /// That the account is one that a pattern stands for. Each name is compared once, out of the index, not each record.
  private static func matching(_ patterns: Int) -> String {
    guard patterns > 0 else { return "0" }
    let rows = [String](repeating: "(?)", count: patterns).joined(separator: ", ")
    return """
      account IN (SELECT name FROM (SELECT DISTINCT account AS name FROM audit)
        WHERE EXISTS (SELECT 1 FROM (VALUES \(rows)) WHERE name GLOB column1))
      """
  }

  /// To GLOB `?` and `[` are more than themselves.
  private static func glob(_ pattern: String) -> String {
    pattern.replacingOccurrences(of: "[", with: "[[]").replacingOccurrences(of: "?", with: "[?]")
  }
}
