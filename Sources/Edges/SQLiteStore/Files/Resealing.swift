import Broker
import Grants
import SQLite
import Sealing
import StoreRows

// The whole store under another key.
extension Opening {
  /// The number of accounts in memory at a time while they are sealed again.
  private static let resealed = 1024

  /// All at once, so that the store is always under one key. Rows that cannot be read are kept.
  ///
  /// - Returns: how many accounts and other rows cannot be read.
  @discardableResult
  func reseal(
    _ database: SQLiteConnection, from old: Sealer, to new: Sealer, beforeCommit: () -> Void = {}
  ) throws -> Int {
    try database.write { db in
      let rest = try StoredState.readRest(db, sealer: old)
      for change in rest.changes { try change.apply(to: db, sealer: new) }
      var setAside = rest.setAside
      var count = 0
      var hasUnnamed = false
      let memory = PackedMemory()
      func page(after account: AccountName?) throws -> [PackedRows] {
        try PackedRows.page(of: db, after: account, most: Self.resealed, sealer: old, in: memory) { _ in
          hasUnnamed = true
        }
      }
      var accounts = try page(after: nil)
      while let last = accounts.last {
        for account in accounts where try !reseal(account, in: db, to: new) { count += 1 }
        accounts = try page(after: last.account)
      }
      if hasUnnamed { setAside += try StoredState.setAside("grants", in: db, old).filter { $0.account == nil } }
      for row in setAside { try KeptRow(row, in: db, old)?.reseal(in: db, to: new) }
      try Self.putKeyNote(in: db, new)
      beforeCommit()
      return count + setAside.count
    }
  }

  /// False: it cannot be read, and is kept.
  private func reseal(_ account: PackedRows, in db: Database, to new: Sealer) throws -> Bool {
    let stored = try? account.read(.whole)
    if stored == nil || stored?.leftOut.isEmpty == false {
      for row in try KeptRow.all(of: account.account, in: db, account.sealer) { try row.reseal(in: db, to: new) }
    }
    try stored?.put(in: db, sealer: new)
    return stored != nil
  }
}
