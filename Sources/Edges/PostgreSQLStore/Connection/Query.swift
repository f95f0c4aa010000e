import SQLite

/// One statement with its parameters, `$1` and so on. Each distinct text is prepared once for a session.
struct Query {
  var sql: String
  var values: [ColumnValue]

  init(_ sql: String, _ values: [ColumnValue] = []) {
    self.sql = sql
    self.values = values
  }
}

/// The rows of one statement.
struct Answer {
  var rows: [[ColumnValue]] = []

  /// The first column of the first row.
  var value: ColumnValue? { rows.first?.first }
}

/// Why the database did not do it.
enum SessionFailure: Error, Equatable {
  /// The connection does not exist or ended; the outcome of the statements is unknown.
  case lost(String)
  /// The server refused a statement: its SQLSTATE and message (PostgreSQL, "Error Codes").
  case refused(state: String, message: String)
  /// COMMIT returned before the standby had it.
  case unconfirmed

  /// Whether the transaction may have been done.
  var isUnknown: Bool { if case .refused = self { false } else { true } }

  /// Whether another commit of the same group may succeed.
  var mayConcernOneCommit: Bool {
    guard case .refused(let state, _) = self else { return false }
    // Invalid data, a violated constraint, a deadlock or a failed serialization.
    return ["22", "23", "40"].contains(state.prefix(2)) || state == "54000"
  }
}
