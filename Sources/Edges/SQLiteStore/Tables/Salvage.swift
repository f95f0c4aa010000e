public import Broker
public import Grants
import SQLite
import Sealing
import StoreRows
import Synchronization

// Damaged rows: reading their readable columns, and removing them.
extension PackedRows {
  /// Writes the grant's row unchanged, or sealed under another key, without tokens. False: it does not fit.
  func putUnchanged(in db: Database, _ sealer: Sealer) throws -> Bool {
    var columns = PackedColumns(bytes)
    let values = SavedGrant.table.columns.map { _ in columns.next() }
    do {
      try db.statement(SavedGrant.table.put).run(SavedGrant.table.resealed(values, from: self.sealer, to: sealer))
      return true
    } catch let error as DatabaseError where error.code == .constraint {
      return false
    }
  }
}

extension SQLiteStore {
  public func salvage(_ account: AccountName) async throws(StoreError) -> SavedGrant? {
    try await reading { db, sealer in
      guard let row = try Self.row(of: account, in: db) else { return nil }
      let remains = SavedGrant.remains(of: account, row, sealer)
      return remains.isRenewable && remains.provider != SavedGrant.unreadableProvider ? remains : nil
    }
  }

  private static func row(of account: AccountName, in db: Database) throws -> [String: ColumnValue]? {
    let columns = SavedGrant.table.columns
    let row = try db.rows(
      "SELECT \(columns.joined(separator: ", ")) FROM grants WHERE account = ?", [.text(account.rawValue)]
    ).first
    return row.map { row in Dictionary(columns.enumerated().map { ($1, row[$0]) }) { $1 } }
  }

  public func discard(_ row: RowName) async throws(StoreError) -> Bool {
    guard case .row(let table, let number) = row, StoredState.types.contains(where: { $0.table.name == table }) else {
      return false
    }
    let isRemoved = Mutex(false)
    // In one transaction: since then the row may have been replaced by one that can be read.
    try await commit([]) { db, sealer in
      let isDamaged = try StoredState.setAside(table, in: db, sealer).contains { $0.number == number }
      if isDamaged { try db.statement("DELETE FROM \(table) WHERE rowid = ?").run([.integer(number)]) }
      isRemoved.withLock { $0 = isDamaged }
    }
    guard isRemoved.withLock({ $0 }) else { return false }
    removeSetAside { $0.table == table && $0.number == number }
    return true
  }
}
