import Broker
import Grants
import SQLite
import Sealing
import StoreRows

/// A row that cannot be read, as it is on disk. A new database, and one under a new key, keep it for `grantctl repair`.
struct KeptRow: Sendable {
  /// Bytes of all kept rows in memory. Further ones are only in the database that is put aside.
  static let mostBytes = 4 << 20

  private let type: any StoredRow.Type
  private let number: Int64
  private let values: [ColumnValue]
  /// The key of its values.
  private let sealer: Sealer

  /// Nil: there is no such row, or it has no number.
  init?(_ row: SetAsideRow, in db: Database, _ sealer: Sealer) throws {
    guard let number = row.number else { return nil }
    try self.init(row.table, number: number, in: db, sealer)
  }

  private init?(_ name: String, number: Int64, in db: Database, _ sealer: Sealer) throws {
    guard let type = StoredState.types.first(where: { $0.table.name == name }) else { return nil }
    let table = type.table
    let list = table.columns.joined(separator: ", ")
    let rows = try Cursor(db.statement("SELECT \(list) FROM \(name) WHERE rowid = ?"), [.integer(number)])
    guard try rows.next() else { return nil }
    values = table.columns.indices.map(rows.value(at:))
    (self.type, self.number, self.sealer) = (type, number, sealer)
  }

  private var table: Table { type.table }
  var size: Int { PackedColumns(values).bytes.count }

  /// Into a new database, with its number, which `grantctl repair` names. It must be empty: later rows get other numbers.
  func put(in db: Database, _ sealer: Sealer) throws {
    let places = table.columns.map { _ in ", ?" }.joined()
    let list = table.columns.joined(separator: ", ")
    let insert = try db.statement("INSERT OR IGNORE INTO \(table.name) (rowid, \(list)) VALUES (?\(places))")
    try Self.ignoringTypes {
      try insert.run([.integer(number)] + table.resealed(values, from: self.sealer, to: sealer))
    }
  }

  /// Within its database, under another key. A row that can be read, such as a token of an account that cannot, is sealed
  /// as a whole.
  func reseal(in db: Database, to sealer: Sealer) throws {
    let list = table.columns.map { "\($0) = ?" }.joined(separator: ", ")
    let update = try db.statement("UPDATE \(table.name) SET \(list) WHERE rowid = ?")
    try Self.ignoringTypes {
      try update.run(type.resealed(values, from: self.sealer, to: sealer) + [.integer(number)])
    }
  }

  /// The tables are strict: a row with a value of a wrong type, by damage, cannot be written. It is only in the database
  /// that is put aside, or stays as it is.
  private static func ignoringTypes(_ body: () throws -> Void) throws {
    do {
      try body()
    } catch let error as DatabaseError where error.code == .constraint {}
  }

  /// The rows of an account.
  static func all(of account: AccountName, in db: Database, _ sealer: Sealer) throws -> [KeptRow] {
    var rows: [KeptRow] = []
    for name in [SavedGrant.table.name, SavedToken.table.name] {
      for row in try db.rows("SELECT rowid FROM \(name) WHERE account = ?", [.text(account.rawValue)]) {
        if let number = row[0].integer, let row = try KeptRow(name, number: number, in: db, sealer) { rows.append(row) }
      }
    }
    return rows
  }
}

extension StoredRow {
  fileprivate static func resealed(_ values: [ColumnValue], from old: Sealer, to new: Sealer) throws -> [ColumnValue] {
    var reader = RowReader(PackedColumns(values), of: table, sealer: old)
    guard let row = try? Self(from: &reader), (try? reader.checkCode()) != nil else {
      return try table.resealed(values, from: old, to: new)
    }
    return try row.values(new)
  }
}
