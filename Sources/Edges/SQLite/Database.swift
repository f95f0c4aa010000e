import CSQLite

/// An open database, for as long as a call of ``SQLiteConnection`` lasts.
public final class Database {
  public enum TransactionKind: String {
    /// Takes a lock with its first statement.
    case deferred = "BEGIN DEFERRED"
    /// Takes the lock for writing at once.
    case immediate = "BEGIN IMMEDIATE"
  }

  /// How much of the log is taken into the database (SQLite, "sqlite3_wal_checkpoint_v2").
  public enum Checkpoint: Int32, Sendable {
    /// An unlimited value.
    case passive = 0
    /// All, and the log is emptied.
    case truncate = 3
  }

  /// Prepared statements. Some are made for each query, and are dropped first.
  private static let keptStatements = 100

  /// Nil: it is closed.
  private var open: OpaquePointer?
  private var kept: [String: Statement] = [:]
  /// SQLite calls it after each commit; it is only kept alive here.
  var watcher: LogPages?

  init(_ handle: OpaquePointer) { open = handle }

  deinit {
    kept = [:]
    // A running read ends it later.
    sqlite3_close_v2(open)
  }

  func close() throws {
    kept = [:]
    let code = sqlite3_close(open)
    guard code == SQLITE_OK else { throw DatabaseError(code, in: open) }
    open = nil
  }

  var handle: OpaquePointer {
    get throws {
      guard let open else { throw DatabaseError(.misuse, message: "the connection is closed") }
      return open
    }
  }

  // MARK: Statements

  /// Runs one statement with arguments, or several without.
  public func execute(_ sql: String, _ arguments: [ColumnValue] = []) throws {
    let database = try handle
    try sql.withCString { start in
      var rest: UnsafePointer<CChar>? = start
      while let next = rest, next.pointee != 0 {
        guard let statement = try Statement(next, in: database, rest: &rest) else { continue }
        try statement.run(arguments)
      }
    }
  }

  /// A statement that is kept for the next time. One that is being read is made a second time.
  public func statement(_ sql: String) throws -> Statement {
    if let statement = kept[sql], !statement.isTaken { return statement }
    var rest: UnsafePointer<CChar>?
    let database = try handle
    guard let statement = try sql.withCString({ try Statement($0, in: database, rest: &rest) }) else {
      throw DatabaseError(.misuse, message: "no statement")
    }
    if kept.count >= Self.keptStatements { kept = kept.filter(\.value.isTaken) }
    if kept[sql] == nil { kept[sql] = statement }
    return statement
  }

  /// The first column of the first row; nil if there is none.
  public func value(_ sql: String, _ arguments: [ColumnValue] = []) throws -> ColumnValue? {
    let rows = try Cursor(statement(sql), arguments)
    return try rows.next() ? rows.value(at: 0) : nil
  }

  public func rows(_ sql: String, _ arguments: [ColumnValue] = []) throws -> [Row] {
    let cursor = try Cursor(statement(sql), arguments)
    var rows: [Row] = []
    var names: [String: Int] = [:]
    while try cursor.next() {
      if rows.isEmpty { names = cursor.names }
      rows.append(Row(names, (0..<cursor.columnCount).map { cursor.value(at: $0) }))
    }
    return rows
  }

  /// Rows that the last statement changed.
  public var changes: Int { open.map { Int(sqlite3_changes($0)) } ?? 0 }

  public func hasTable(_ name: String) throws -> Bool {
    try value("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [.text(name)]) != nil
  }

  // MARK: Transactions

  /// Committed where `body` returns, else taken back.
  public func transaction<Value>(_ kind: TransactionKind, _ body: (Database) throws -> Value) throws -> Value {
    try begin(kind)
    do {
      let value = try body(self)
      try run("COMMIT")
      return value
    } catch {
      // The first error has the reason; SQLite may have rolled back by itself.
      try? rollback()
      throw error
    }
  }

  public func begin(_ kind: TransactionKind) throws {
    // One is open still where it could not be taken back: nothing of it may be committed with the next.
    try rollback()
    try run(kind.rawValue)
  }

  /// No open transaction is required.
  public func rollback() throws {
    guard sqlite3_get_autocommit(try handle) == 0 else { return }
    try run("ROLLBACK")
  }

  private func run(_ sql: String) throws { try statement(sql).run() }

  /// - Throws: `busy` where others read or write and not all was done.
  public func checkpoint(_ mode: Checkpoint) throws {
    let code = sqlite3_wal_checkpoint_v2(try handle, nil, mode.rawValue, nil, nil)
    guard code == SQLITE_OK else { throw DatabaseError(code, in: open) }
  }
}
