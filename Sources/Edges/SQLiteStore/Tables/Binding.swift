import Broker
import FoundationEssentials
import SQLite
import Sealing
import StoreRows

// Rows that an earlier version wrote have no authentication code. They get one behind the first answers, in pages.
extension SQLiteStore {
  /// Rows that one commit binds.
  private static let boundAtOnce: Int64 = 256
  /// The row of `meta` that says that no row is without a code.
  private static let mark = "codes"

  /// Gives each readable row without a code its code.
  func bindRows() async throws(StoreError) {
    guard try await looking({ try $0.value("SELECT 1 FROM meta WHERE name = ?", [.text(Self.mark)]) }) == nil else {
      return
    }
    for type in StoredState.types {
      var last: Int64? = .min
      while let after = last { last = try await bindPage(type, after) }
    }
    try await commit([]) { db, _ in
      try db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", [.text(Self.mark), .blob(Data([1]))])
    }
  }

  /// The number of the last row of the page; nil: there are no more.
  private func bindPage(_ type: any StoredRow.Type, _ after: Int64) async throws(StoreError) -> Int64? {
    let table = type.table.name
    let rows = try await looking { db in
      let sql = "SELECT rowid FROM \(table) WHERE rowid > ? AND code IS NULL ORDER BY rowid LIMIT \(Self.boundAtOnce)"
      return try db.rows(sql, [.integer(after)]).compactMap { $0[0].integer }
    }
    guard let last = rows.last else { return nil }
    try await commit([]) { db, sealer in
      for number in rows { try type.bind(number, in: db, sealer) }
    }
    return last
  }

  /// Reads on a separate connection, as a large table is read whole: commits continue.
  private func looking<Value: Sendable>(
    _ body: @escaping @Sendable (Database) throws -> Value
  ) async throws(StoreError) -> Value {
    try await queues.packing.run { () throws(StoreError) in
      do {
        let database = try SQLiteConnection(path: self.location, Opening.looking)
        defer { try? database.close() }
        return try database.read(body)
      } catch {
        throw .reading(error, at: self.location)
      }
    }
  }
}

extension StoredRow {
  /// A row that was replaced since, or cannot be read, stays unchanged.
  fileprivate static func bind(_ number: Int64, in db: Database, _ sealer: Sealer) throws {
    let list = table.columns.joined(separator: ", ")
    let row = try Cursor(
      db.statement("SELECT \(list) FROM \(table.name) WHERE rowid = ? AND code IS NULL"), [.integer(number)])
    guard try row.next() else { return }
    var reader = RowReader(PackedColumns(row, of: table), of: table, sealer: sealer)
    guard (try? Self(from: &reader)) != nil else { return }
    let values = (0..<table.columns.count - 1).map(row.value(at:))
    try db.statement("UPDATE \(table.name) SET code = ? WHERE rowid = ?")
      .run([.blob(code(of: values, sealer)), .integer(number)])
  }
}
