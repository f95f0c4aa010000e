import CSQLite
import FoundationEssentials

/// A compiled statement.
public final class Statement {
  fileprivate let handle: OpaquePointer

  /// Nil where there is nothing but white space and comments.
  ///
  /// - Parameter rest: where the next statement begins.
  init?(_ sql: UnsafePointer<CChar>, in database: OpaquePointer, rest: inout UnsafePointer<CChar>?) throws {
    var handle: OpaquePointer?
    let code = sqlite3_prepare_v2(database, sql, -1, &handle, &rest)
    guard code == SQLITE_OK else { throw DatabaseError(code, in: database) }
    guard let handle else { return nil }
    self.handle = handle
  }

  deinit { sqlite3_finalize(handle) }

  /// From its binding to its reset: bound or read values must not be mixed with others.
  fileprivate(set) var isTaken = false

  /// Runs it to its end.
  public func run(_ arguments: [ColumnValue] = []) throws {
    isTaken = true
    defer { reset() }
    try bind(arguments)
    while try step() {}
  }

  /// - Throws: also for fewer arguments than parameters: SQLite would use NULL for the others.
  fileprivate func bind(_ arguments: [ColumnValue]) throws {
    let count = Int(sqlite3_bind_parameter_count(handle))
    guard arguments.count == count else {
      throw DatabaseError(.misuse, message: "\(arguments.count) arguments for \(count) parameters")
    }
    for (offset, argument) in arguments.enumerated() {
      let index = Int32(offset + 1)
      let code =
        switch argument {
        case .null: sqlite3_bind_null(handle, index)
        case .integer(let value): sqlite3_bind_int64(handle, index, value)
        case .real(let value): sqlite3_bind_double(handle, index, value)
        case .text(let value): csqlite_bind_text(handle, index, value)
        case .blob(let value):
          value.withUnsafeBytes { bytes in
            guard let length = Int32(exactly: bytes.count) else { return SQLITE_TOOBIG }
            return csqlite_bind_blob(handle, index, bytes.baseAddress, length)
          }
        }
      guard code == SQLITE_OK else { throw failure(code) }
    }
  }

  /// False: it has ended.
  fileprivate func step() throws -> Bool {
    switch sqlite3_step(handle) {
    case SQLITE_ROW: true
    case SQLITE_DONE: false
    case let code: throw failure(code)
    }
  }

  /// Ready for the next time, without a secret of this one.
  fileprivate func reset() {
    sqlite3_reset(handle)
    sqlite3_clear_bindings(handle)
    isTaken = false
  }

  private func failure(_ code: Int32) -> DatabaseError { DatabaseError(code, in: sqlite3_db_handle(handle)) }
}

/// The rows of a statement, one after the other. A row is gone with the next one.
public final class Cursor {
  private let statement: Statement

  public init(_ statement: Statement, _ arguments: [ColumnValue] = []) throws {
    self.statement = statement
    statement.isTaken = true
    try statement.bind(arguments)
  }

  /// Ends its read, which would block a checkpoint.
  deinit { statement.reset() }

  /// False: there are no more.
  public func next() throws -> Bool { try statement.step() }

  public func isNull(at column: Int) -> Bool { sqlite3_column_type(statement.handle, Int32(column)) == SQLITE_NULL }

  /// Which type the value has, as the database has it.
  public enum Kind: Sendable { case integer, text, blob }

  public func has(_ kind: Kind, at column: Int) -> Bool {
    let found = sqlite3_column_type(statement.handle, Int32(column))
    return switch kind {
    case .integer: found == SQLITE_INTEGER
    case .text: found == SQLITE_TEXT
    case .blob: found == SQLITE_BLOB
    }
  }

  public func integer(at column: Int) -> Int64 { sqlite3_column_int64(statement.handle, Int32(column)) }

  /// A text or a blob, until the next row.
  public func bytes(at column: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(
      start: sqlite3_column_blob(statement.handle, Int32(column)),
      count: Int(sqlite3_column_bytes(statement.handle, Int32(column))))
  }

  public func value(at column: Int) -> ColumnValue {
    switch sqlite3_column_type(statement.handle, Int32(column)) {
    case SQLITE_INTEGER: .integer(integer(at: column))
    case SQLITE_FLOAT: .real(sqlite3_column_double(statement.handle, Int32(column)))
    case SQLITE_TEXT: .text(String(decoding: bytes(at: column), as: UTF8.self))
    case SQLITE_BLOB: .blob(Data(bytes(at: column)))
    default: .null
    }
  }

  /// Known from the first row on: a kept statement is compiled again there, if the schema has changed.
  var columnCount: Int { Int(sqlite3_column_count(statement.handle)) }

  /// As ``columnCount``.
  var names: [String: Int] {
    var names: [String: Int] = [:]
    for column in 0..<sqlite3_column_count(statement.handle) {
      guard let name = sqlite3_column_name(statement.handle, column) else { continue }
      names[String(cString: name)] = Int(column)
    }
    return names
  }
}
