import Broker
import Foundation
import GRDB
import Glibc
import Grants
import OAuth
import Sealing

/// How a store is opened: looked at without writing, then migrated.
struct Opening {
  /// How long a statement waits for another program that reads or copies the database.
  static let busyTimeout: TimeInterval = 5
  /// What the WAL is cut to after a checkpoint.
  static let logLimit = 4 << 20
  /// Bytes of a database that is read whole before anything is answered: some thousand accounts.
  static let verifiedAtOnce = 8 << 20
  /// Accounts that are in memory at a time while they are sealed anew.
  private static let resealed = 1024
  private static let magic = Data("SQLite format 3\0".utf8)

  let folder: StateFolder
  let keyring: Keyring
  /// For tests of a full disk.
  let pageLimit: Int?
  let onWritePoint: (@Sendable (WritePoint) -> Void)?
  /// Of the database that is open.
  let log = LogPages()
  /// Before each migration, with the version that it makes.
  var onStep: (@Sendable (Int) -> Void)?

  struct Opened {
    let database: DatabaseQueue
    let keys: Keyring.Settled
  }

  private enum Found {
    case nothing
    case store(Keyring.Under)
  }

  func database() throws(StoreError) -> Opened {
    // A rebuild that the end of the process interrupted.
    if folder.size(of: folder.successor) > 0 { try folder.installSuccessor() }
    folder.removeDraft()
    folder.removeWorkplaces()
    let found = try look()
    try folder.protect(folder.database)
    do {
      let database = try DatabaseQueue(path: folder.database, configuration: writing)
      try Schema.migrate(database, onStep: onStep, onWritePoint: onWritePoint)
      switch found {
      case .nothing:
        try database.inTransaction(.immediate) { try Self.putKeyNote(in: $0, keyring.key.sealer) }
        return Opened(database: database, keys: keyring.settledNew)
      case .store(let under):
        return try settled(database, under)
      }
    } catch {
      throw .opening(error, at: folder.database)
    }
  }

  /// The database says which key is the right one: what is left of a change to it is done, or taken back.
  private func settled(_ database: DatabaseQueue, _ under: Keyring.Under) throws -> Opened {
    if case .previous(let old) = under {
      do {
        try reseal(database, from: old.sealer, to: keyring.key.sealer)
      } catch let error as StoreError where error.isOfOneAccount {
        return Opened(database: database, keys: keyring.stay(under: old, because: "\(error.message): \(error.hint)"))
      }
    }
    if keyring.mayLeaveOldValues(under) { _ = try? cutLog(of: database) }
    return Opened(database: database, keys: keyring.settle(under))
  }

  /// Writes a database with this state beside the one that is there: whole, on disk and closed. Of an account that cannot
  /// be read, the secrets stay in the one that is put aside.
  func draft(
    _ state: StoredState, _ accounts: [any PackedAccount] = [], under key: SealingKey
  ) throws(StoreError) {
    folder.removeDraft()
    try folder.protect(folder.draft)
    do {
      try Self.write(state, accounts, under: key, to: folder.draft, writing)
    } catch {
      folder.removeDraft()
      throw .writing(error, at: folder.database)
    }
  }

  /// Writes a new database into a file that is there and empty.
  static func write(
    _ state: StoredState, _ accounts: [any PackedAccount], under key: SealingKey, to path: String,
    _ configuration: Configuration
  ) throws {
    let sealer = key.sealer
    var status = stat()
    // The file was made just now.
    let now = Timestamp(seconds: stat(path, &status) == 0 ? Int64(status.st_mtim.tv_sec) : 0)
    let database = try DatabaseQueue(path: path, configuration: configuration)
    try Schema.migrate(database)
    try database.inTransaction(.immediate) { db in
      for change in state.changes { try change.apply(to: db, sealer: sealer) }
      for account in accounts { try readable(account, at: now).put(in: db, sealer: sealer) }
      return try putKeyNote(in: db, sealer)
    }
    _ = try database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
    try database.close()
  }

  private static func readable(_ account: any PackedAccount, at now: Timestamp) throws -> StoredAccount {
    do throws(StoreError) {
      return try account.read(.whole)
    } catch {
      let rest = try (try? account.read(.facts)) ?? account.read(.moments)
      return StoredAccount(grant: rest.grant.unreadable(error.message, at: now), tokens: [], intent: nil)
    }
  }

  /// Opens what a rebuild put in place.
  func reopened() throws(StoreError) -> DatabaseQueue {
    do {
      return try DatabaseQueue(path: folder.database, configuration: writing)
    } catch {
      throw .writing(error, at: folder.database)
    }
  }

  // MARK: Looking

  /// What is there. Writes nothing to the database, but for what a journal says must be taken back.
  private func look() throws(StoreError) -> Found {
    guard folder.size(of: folder.database) > 0 else {
      // SQLite would take the empty database for a new one, and delete the log.
      guard folder.size(of: folder.log) == 0 else {
        throw .corrupt(path: folder.database, detail: "it is missing or empty, and its log (grantd.db-wal) is not")
      }
      return .nothing
    }
    try checkHeader()
    do {
      var configuration = Self.looking
      // The first start ended while it turned the log on: SQLite reads nothing before that is taken back.
      configuration.readonly = folder.size(of: folder.database + "-journal") == 0
      let database = try DatabaseQueue(path: folder.database, configuration: configuration)
      defer { try? database.close() }
      return try database.read { try look(in: $0) }
    } catch {
      throw .opening(error, at: folder.database)
    }
  }

  private func checkHeader() throws(StoreError) {
    guard let file = FileHandle(forReadingAtPath: folder.database) else {
      throw .unreadable(path: folder.database, detail: systemError(errno))
    }
    defer { try? file.close() }
    guard (try? file.read(upToCount: Self.magic.count)) == Self.magic else {
      throw .corrupt(path: folder.database, detail: "it is no SQLite database")
    }
  }

  private func look(in db: Database) throws -> Found {
    let ofMigrations = "SELECT count(*) FROM sqlite_master WHERE tbl_name <> 'grdb_migrations'"
    let tables = try Int.fetchOne(db, sql: ofMigrations) ?? 0
    let application = try Int32.fetchOne(db, sql: "PRAGMA application_id")
    // The first start ended after the file, or GRDB's list of migrations, was made and before the tables were.
    if tables == 0, application == 0 { return .nothing }
    guard application == Schema.applicationID else {
      throw StoreError.corrupt(path: folder.database, detail: "it is another program's database")
    }
    let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    guard version <= Schema.version else {
      throw StoreError.newer(path: folder.database, found: version, known: Schema.version)
    }
    // A larger one is read whole behind the first answers: ``verify()``.
    if folder.size(of: folder.database) <= Self.verifiedAtOnce { try verify(db) }
    return try checkKey(in: db)
  }

  /// Reads all of the database on a connection of its own.
  func verify() throws(StoreError) {
    do {
      let database = try DatabaseQueue(path: folder.database, configuration: Self.looking)
      defer { try? database.close() }
      try database.read(verify)
    } catch {
      throw .reading(error, at: folder.database)
    }
  }

  private func verify(_ db: Database) throws {
    let check = try String.fetchOne(db, sql: "PRAGMA quick_check(1)")
    guard check == "ok" else {
      throw StoreError.corrupt(path: folder.database, detail: check ?? "its structure cannot be checked")
    }
  }

  private func checkKey(in db: Database) throws -> Found {
    let sql = "SELECT value FROM meta WHERE name = ?"
    guard let note = try Data.fetchOne(db, sql: sql, arguments: [Keyring.noteName]) else {
      // The first start ended after the tables were made and before the key was noted; else it was removed.
      if try Schema.isEmpty(db) { return .nothing }
      throw StoreError.corrupt(path: folder.database, detail: "it does not say what key it is sealed under")
    }
    do throws(Sealer.Failure) {
      return .store(try keyring.find(note))
    } catch .otherKey {
      throw StoreError.wrongKey(path: folder.database, keySource: keyring.key.source)
    } catch .damaged {
      throw StoreError.corrupt(path: folder.database, detail: "the note of its key is damaged")
    }
  }

  // MARK: Writing

  private static func putKeyNote(in db: Database, _ sealer: Sealer) throws -> Database.TransactionCompletion {
    try db.execute(
      sql: "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)",
      arguments: [Keyring.noteName, Keyring.note(under: sealer)])
    return .commit
  }

  /// All at once, so that the store is always under one key.
  func reseal(
    _ database: DatabaseQueue, from old: Sealer, to new: Sealer, beforeCommit: () -> Void = {}
  ) throws {
    try database.inTransaction(.immediate) { db in
      for change in try StoredState.readRest(db, sealer: old).changes { try change.apply(to: db, sealer: new) }
      let memory = PackedMemory()
      var page = try PackedRows.page(of: db, after: nil, most: Self.resealed, sealer: old, in: memory)
      while let last = page.last {
        for account in page { try account.read(.whole).put(in: db, sealer: new) }
        page = try PackedRows.page(of: db, after: last.account, most: Self.resealed, sealer: old, in: memory)
      }
      let completion = try Self.putKeyNote(in: db, new)
      beforeCommit()
      return completion
    }
  }

  /// Takes the log in and empties it, so that nothing of before stays in it. False: somebody reads the database.
  func cutLog(of database: DatabaseQueue) throws -> Bool {
    _ = try database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
    return folder.size(of: folder.log) == 0
  }

  // MARK: Connections

  static var looking: Configuration {
    var configuration = Configuration()
    configuration.readonly = true
    configuration.busyMode = .timeout(busyTimeout)
    configuration.prepareDatabase { try $0.execute(sql: "PRAGMA trusted_schema = OFF") }
    return configuration
  }

  private var writing: Configuration {
    var configuration = Self.writing("grantd.store", more: pageLimit.map { "PRAGMA max_page_count = \($0)" })
    configuration.prepareDatabase { [log] in log.watch($0) }
    return configuration
  }

  /// How each database of ours is written: whole transactions, on disk when they are answered.
  static func writing(_ label: String, more: String? = nil) -> Configuration {
    var configuration = Configuration()
    configuration.label = label
    configuration.busyMode = .timeout(busyTimeout)
    configuration.foreignKeysEnabled = true
    configuration.prepareDatabase { db in
      try db.execute(
        sql: """
          PRAGMA trusted_schema = OFF;
          PRAGMA cell_size_check = ON;
          PRAGMA secure_delete = ON;
          PRAGMA temp_store = MEMORY;
          PRAGMA synchronous = FULL;
          PRAGMA journal_size_limit = \(logLimit);
          """)
      if let more { try db.execute(sql: more) }
      guard try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL") == "wal" else {
        throw DatabaseError(resultCode: .SQLITE_CANTOPEN, message: "this file system has no shared memory for a WAL")
      }
    }
    return configuration
  }
}
