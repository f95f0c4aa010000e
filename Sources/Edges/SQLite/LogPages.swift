import CSQLite
import Synchronization

/// The pages of a database's log that are not in the database. On a watched connection SQLite does no automatic
/// checkpoints.
public final class LogPages: Sendable {
  private let count = Atomic<Int>(0)

  public init() {}

  /// After the last commit.
  public var pages: Int { count.load(ordering: .relaxed) }

  /// Counts on this connection, which keeps this value while it is open.
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
