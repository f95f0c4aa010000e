public import Broker
public import Grants
import SQLite
import Sealing
import StoreRows
import Synchronization

// The reads of the store.
extension SQLiteStore {
  public func load() async throws(StoreError) -> StoredState {
    if home.withLock({ !$0.emergencySaves.isEmpty }) { try await commit([]) }
    guard inbox.withLock({ $0.isOpen }) else { throw .closed }
    // On a separate connection: decrypting the secrets of many accounts takes seconds, and commits continue during this
    // time.
    let snapshot = try await queues.commits.run { () throws(StoreError) in
      try Snapshot(self.opening.folder.database, self.sealer)
    }
    return try await queues.packing.run { () throws(StoreError) in try snapshot.read(StoredState.read) }
  }

  /// A snapshot of the database, with its sealer.
  private final class Snapshot: Sendable {
    private let path: String
    private let database: SQLiteConnection
    private let sealer: Sealer

    init(_ path: String, _ sealer: Sealer) throws(StoreError) {
      self.path = path
      self.sealer = sealer
      do {
        database = try SQLiteConnection(path: path, Opening.looking)
        // The transaction that begins here is read in, and ends, elsewhere.
        try database.use { db in
          try db.begin(.deferred)
          _ = try db.value("SELECT count(*) FROM sqlite_master")
        }
      } catch {
        throw .reading(error, at: path)
      }
    }

    func read<Value: Sendable>(_ body: @Sendable (Database, Sealer) throws -> Value) throws(StoreError) -> Value {
      defer {
        try? database.use { try $0.rollback() }
        try? database.close()
      }
      do {
        return try database.use { try body($0, sealer) }
      } catch {
        throw .reading(error, at: path)
      }
    }
  }

  public func loadRest() async throws(StoreError) -> StoredState {
    var state = try await salvaging { () throws(StoreError) in try await self.reading(StoredState.readRest) }
    await keepNote(of: state.setAside)
    for one in home.withLock({ $0.emergencySaves }) { state.merge(one.rest) }
    return state
  }

  public func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let (page, unnamed) = try await salvaging { () throws(StoreError) in
      try await self.page(after: account, most: most)
    }
    await keepNote(of: unnamed)
    return withEmergencySaves(page, after: account, most: most)
  }

  private func page(
    after account: AccountName?, most: Int
  ) async throws(StoreError) -> (page: [PackedRows], unnamed: [SetAsideRow]) {
    try await reading { [memory] db, sealer in
      var hasUnnamed = false
      let page = try PackedRows.page(of: db, after: account, most: most, sealer: sealer, in: memory) { _ in
        hasUnnamed = true
      }
      let unnamed = hasUnnamed ? try StoredState.setAside("grants", in: db, sealer).filter { $0.account == nil } : []
      return (page, unnamed)
    }
  }

  public var setAside: [SetAsideRow] { unreadable.withLock { Array($0.found.values) } }

  private func keepNote(of rows: [SetAsideRow]) async {
    guard !rows.isEmpty else { return }
    unreadable.withLock { unreadable in for row in rows { unreadable.found[row.name] = row } }
    // Without them a new database lacks the rows, and the one that is put aside has them.
    let new = try? await reading { db, sealer in
      try rows.reduce(into: [RowName: KeptRow]()) { $0[$1.name] = try KeptRow($1, in: db, sealer) }
    }
    unreadable.withLock { unreadable in
      var size = unreadable.kept.values.reduce(0) { $0 + $1.size }
      for (name, row) in new ?? [:] where size + row.size <= KeptRow.mostBytes {
        unreadable.kept[name] = row
        size += row.size
      }
    }
  }

  func removeSetAside(_ isMeant: (SetAsideRow) -> Bool) {
    unreadable.withLock { rows in
      for name in rows.found.filter({ isMeant($0.value) }).keys {
        rows.found[name] = nil
        rows.kept[name] = nil
      }
    }
  }

  public func countAccounts() async throws(StoreError) -> Int {
    try await reading { db, _ in try db.number("SELECT count(*) FROM grants") }
  }

  /// Bytes of the database's pages that are in use.
  func databaseBytes() async throws(StoreError) -> Int {
    try await reading { db, _ in
      func number(_ name: String) throws -> Int { try db.number("PRAGMA \(name)") }
      return try (number("page_count") - number("freelist_count")) * number("page_size")
    }
  }

  public func pack(_ account: StoredAccount) -> any PackedAccount {
    guard let packed = try? PackedRows(account, sealer: sealer, in: memory) else { return UnpackedAccount(account) }
    return packed
  }

  public func verify() async throws(StoreError) {
    guard inbox.withLock({ $0.isOpen }) else { throw .closed }
    // On a separate connection, which reads a snapshot.
    try await queues.packing.run { () throws(StoreError) in try self.opening.verify() }
    do throws(StoreError) {
      try await bindRows()
    } catch  where !error.isOfDamage {
      // Rows without a code are read all the same; the next start binds them.
    }
  }

  func reading<Value: Sendable>(
    _ body: @escaping @Sendable (Database, Sealer) throws -> Value
  ) async throws(StoreError) -> Value {
    guard inbox.withLock({ $0.isOpen }) else { throw .closed }
    return try await queues.commits.run { () throws(StoreError) in
      let database = try self.database()
      do {
        let sealer = self.sealer
        return try database.read { try body($0, sealer) }
      } catch {
        throw .reading(error, at: self.location)
      }
    }
  }
}
