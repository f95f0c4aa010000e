import CSQLite
import Synchronization

/// A connection to a database. Calls from several threads take turns.
///
/// - Note: unchecked, because ``Database`` is not `Sendable`. A caller has it only while it has `turn`, and no result
///   of a call can hold it: results are `Sendable`, and no `body` keeps it.
public final class SQLiteConnection: @unchecked Sendable {
  public struct Options: Sendable {
    public var isReadOnly = false
    /// No program can change the file, and it has no log: SQLite makes no files next to it. Only with `isReadOnly`.
    public var isImmutable = false
    /// How long a statement waits for another connection.
    public var patience: Duration = .zero
    /// Run first on the open connection.
    public var preparations: [@Sendable (Database) throws -> Void] = []

    public init() {}
  }

  private let database: Database
  private let turn = Mutex(())

  /// Makes the file if it is missing, unless the connection is read-only.
  ///
  /// - Throws: `DatabaseError`, also for a file that is not a database; and errors of a preparation.
  public init(path: String, _ options: Options = Options()) throws {
    // No mutex of SQLite's: `turn` is one.
    let access = options.isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    let naming = options.isImmutable ? SQLITE_OPEN_URI : 0
    var handle: OpaquePointer?
    let name = options.isImmutable ? Self.immutable(path) : path
    let code = sqlite3_open_v2(name, &handle, access | naming | SQLITE_OPEN_NOMUTEX, nil)
    guard code == SQLITE_OK, let handle else {
      defer { sqlite3_close(handle) }
      throw DatabaseError(code, in: handle)
    }
    // Closes it where a preparation fails.
    database = Database(handle)
    sqlite3_extended_result_codes(handle, 1)
    let (seconds, attoseconds) = options.patience.components
    sqlite3_busy_timeout(handle, Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000))
    csqlite_forbid_quoted_texts(handle)
    try database.execute("PRAGMA foreign_keys = ON")
    for prepare in options.preparations { try prepare(database) }
    // SQLite looks at the file only now.
    _ = try database.value("SELECT 1 FROM sqlite_master LIMIT 1")
  }

  /// SQLite's URI of a file that does not change.
  private static func immutable(_ path: String) -> String {
    let special: Set<UInt8> = [UInt8(ascii: "%"), UInt8(ascii: "?"), UInt8(ascii: "#")]
    var bytes = Array("file:".utf8)
    for byte in path.utf8 { bytes += special.contains(byte) ? Array("%\(String(byte, radix: 16))".utf8) : [byte] }
    return String(decoding: bytes, as: UTF8.self) + "?immutable=1"
  }

  /// Without a transaction, unless `body` begins one.
  public func use<Value: Sendable>(_ body: (Database) throws -> Value) rethrows -> Value {
    try turn.withLock { _ in try body(database) }
  }

  /// In one transaction, so that all is read of the same moment.
  public func read<Value: Sendable>(_ body: (Database) throws -> Value) throws -> Value {
    try use { try $0.transaction(.deferred, body) }
  }

  /// As ``read(_:)``, for a database that may be damaged: after damage SQLite also refuses to commit a read.
  public func inspect<Value: Sendable>(_ body: (Database) throws -> Value) throws -> Value {
    try use { database in
      try database.begin(.deferred)
      defer { try? database.rollback() }
      return try body(database)
    }
  }

  /// In one transaction, which has the right to write from its beginning.
  public func write<Value: Sendable>(_ body: (Database) throws -> Value) throws -> Value {
    try use { try $0.transaction(.immediate, body) }
  }

  /// Ends an open transaction, and closes. If a statement is still read, it stays open.
  public func close() throws { try use { try $0.close() } }
}
