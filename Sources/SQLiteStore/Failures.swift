import Broker
import GRDB

extension StoreError {
  static func opening(_ error: any Error, at path: String) -> StoreError {
    translated(error, at: path) { .unreadable(path: path, detail: $0) }
  }

  static func reading(_ error: any Error, at path: String) -> StoreError {
    translated(error, at: path) { .unreadable(path: path, detail: $0) }
  }

  static func writing(_ error: any Error, at path: String) -> StoreError {
    translated(error, at: path) { .unwritable(path: path, detail: $0) }
  }

  private static func translated(
    _ error: any Error, at path: String, otherwise: (String) -> StoreError
  ) -> StoreError {
    switch error {
    case let error as StoreError: error
    case let error as DamagedRow: .corrupt(path: path, detail: error.detail)
    case let error as DatabaseError: translated(error, at: path, otherwise: otherwise)
    default: otherwise("unexpected: \(type(of: error))")
    }
  }

  private static func translated(
    _ error: DatabaseError, at path: String, otherwise: (String) -> StoreError
  ) -> StoreError {
    switch error.resultCode {
    case .SQLITE_CORRUPT, .SQLITE_NOTADB: .corrupt(path: path, detail: error.detail)
    case .SQLITE_FULL: otherwise("the disk is full")
    case .SQLITE_IOERR: otherwise("an input/output error (SQLite \(error.extendedResultCode.rawValue))")
    case .SQLITE_READONLY: otherwise("the file, its folder or the file system is read-only")
    case .SQLITE_BUSY, .SQLITE_LOCKED: otherwise("another program has kept the database locked for too long")
    case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_AUTH: otherwise("a file cannot be opened: \(error.detail)")
    case .SQLITE_CONSTRAINT: otherwise("the change does not fit what is there: \(error.detail)")
    default: otherwise(error.detail)
    }
  }
}

extension DatabaseError {
  /// SQLite's message has names of tables and columns, but no values.
  fileprivate var detail: String { message ?? "SQLite \(extendedResultCode.rawValue)" }
}

extension DamagedRow {
  fileprivate var detail: String {
    isForeign
      ? "a row of table \(table) is sealed under another key than the rest (column \(column))"
      : "a row of table \(table) is damaged or was moved (column \(column))"
  }
}

extension Error {
  /// Whether another commit may still be written after this. Damage and failing hardware concern all.
  var mayConcernOneCommit: Bool {
    guard let error = self as? DatabaseError else { return true }
    return switch error.resultCode {
    case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_IOERR, .SQLITE_READONLY, .SQLITE_BUSY, .SQLITE_CANTOPEN: false
    default: true
    }
  }
}
