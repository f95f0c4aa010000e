import Broker
import FoundationEssentials
import Grants
import SQLite
import Sealing
import StoreRows

extension StoredAccount {
  func put(in db: Database, sealer: Sealer) throws {
    try grant.put(in: db, sealer: sealer)
    for token in tokens { try token.put(in: db, sealer: sealer) }
    try intent?.put(in: db, sealer: sealer)
  }
}

// MARK: Reading pages

extension PackedRows {
  /// The next accounts in the order of their names.
  ///
  /// - Parameter unnamed: called with the name of each account whose name cannot be one.
  static func page(
    of db: Database, after account: AccountName?, most: Int, sealer: Sealer, in memory: PackedMemory,
    unnamed: (String) -> Void = { _ in }
  ) throws -> [PackedRows] {
    let first = account?.rawValue ?? ""
    var grants = try RowScan(SavedGrant.self, after: first, db)
    var tokens = try RowScan(SavedToken.self, after: first, db)
    var intents = try RowScan(RefreshIntent.self, after: first, db)
    var found: [PackedRows] = []
    var (columns, ofTokens) = (PackedColumns(), PackedColumns())
    var last = first
    while found.count < most, try grants.next() {
      guard let account = AccountName(rawValue: grants.account) else {
        unnamed(grants.account)
        continue
      }
      // The index is damaged: in another order, tokens would be taken for missing.
      guard account.rawValue > last else {
        throw DatabaseError(.corrupt, message: "the index of grants is not in order")
      }
      last = account.rawValue
      columns.removeAll()
      columns.append(grants)
      ofTokens.removeAll()
      var count = 0
      while try tokens.next(of: grants) {
        ofTokens.append(tokens)
        count += 1
      }
      columns.append(count: count)
      columns.append(ofTokens)
      if try intents.next(of: grants) { columns.append(intents) }
      found.append(try PackedRows(account, columns.bytes, sealer, in: memory))
    }
    return found
  }
}

/// The rows of one table in the order of their accounts. A row's columns are read where SQLite has them, as that is done
/// for each account at a start.
private struct RowScan {
  let types: [ColumnType]
  fileprivate let row: Cursor
  /// The cursor's row was not taken yet.
  private var isPending = false
  private var isAtEnd = false

  init<Value: StoredRow>(_ type: Value.Type, after account: String, _ db: Database) throws {
    types = Value.table.types
    let list = Value.table.columns.joined(separator: ", ")
    let statement = try db.statement("SELECT \(list) FROM \(Value.table.name) WHERE account > ? ORDER BY account")
    row = try Cursor(statement, [.text(account)])
  }

  /// The first column.
  var account: String { String(decoding: row.bytes(at: 0), as: UTF8.self) }

  mutating func next() throws -> Bool {
    guard !isAtEnd else { return false }
    isAtEnd = try !row.next()
    return !isAtEnd
  }

  /// The next row if it belongs to the same account.
  mutating func next(of other: RowScan) throws -> Bool {
    while true {
      if !isPending {
        guard try next() else { return false }
        isPending = true
      }
      let (own, wanted) = (row.bytes(at: 0), other.row.bytes(at: 0))
      if wanted.lexicographicallyPrecedes(own) { return false }
      isPending = false
      // One without a grant, which no foreign key lets be, is passed over.
      if own.elementsEqual(wanted) { return true }
    }
  }
}

extension PackedColumns {
  fileprivate mutating func append(_ scan: RowScan) {
    for (column, type) in scan.types.enumerated() {
      guard !scan.row.isNull(at: column) else {
        append(nil as Int64?)
        continue
      }
      // A value of another type than the column's is damage, which SQLite would convert.
      guard scan.row.has(type.sqlite, at: column) else {
        append(scan.row.value(at: column))
        continue
      }
      switch type {
      case .integer: append(scan.row.integer(at: column))
      case .text: append(scan.row.bytes(at: column), as: .text)
      case .blob: append(scan.row.bytes(at: column), as: .blob)
      }
    }
  }
}
