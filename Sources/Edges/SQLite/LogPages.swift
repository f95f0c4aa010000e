import CSQLite
import Synchronization

/// How many pages a database's log has that are not in the database. On a watched connection SQLite does not take the log
/// in by itself.
public final class LogPages: Sendable {
  private let count = Atomic<Int>(0)

  public init() {}

  /// After the last commit.
  public var pages: Int { count.load(ordering: .relaxed) }

  /// Counts on this connection, which keeps this value for as long as it is open.
  public func watch(_ database: Database) throws {
    database.watcher = self
    sqlite3_wal_hook(
      try database.handle,
      { pages, _, _, count in
        guard let pages else { return SQLITE_OK }
        Unmanaged<LogPages>.fromOpaque(pages).takeUnretainedValue().count.store(Int(count), ordering: .relaxed)
        return SQLITE_OK
      }, Unmanaged.passUnretained(self).toOpaque())
  }
}
