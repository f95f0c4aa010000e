import GRDB
import GRDBSQLite
import Synchronization

/// How many pages the open database's log has that are not in the database. With it the store takes the log in when it
/// says so, between two commits; SQLite no longer does by itself.
final class LogPages: Sendable {
  /// At how many the log is taken in: SQLite's own measure.
  static let limit = 1000

  private let count = Atomic<Int>(0)

  /// After the last commit.
  var pages: Int { count.load(ordering: .relaxed) }

  /// Counts on this connection, which keeps this value for as long as it is open.
  func watch(_ database: Database) {
    sqlite3_wal_hook(
      database.sqliteConnection,
      { pages, _, _, count in
        guard let pages else { return SQLITE_OK }
        Unmanaged<LogPages>.fromOpaque(pages).takeUnretainedValue().count.store(Int(count), ordering: .relaxed)
        return SQLITE_OK
      }, Unmanaged.passUnretained(self).toOpaque())
  }
}
