import Broker
import FoundationEssentials
import Glibc
import Grants
import OAuth
import SQLite
import Sealing
import StoreRows

/// How a store is opened: looked at without writing, then migrated.
struct Opening {
  /// How long a statement waits for another program that reads or copies the database.
  static let patience: Duration = .seconds(5)
  /// The size to which the log is cut after a checkpoint.
  static let logLimit = 4 << 20
  /// Bytes of a database that is read whole before anything is answered: some thousand accounts.
  static let verifiedAtOnce = 8 << 20
  private static let magic = Array("SQLite format 3\0".utf8)

  let folder: StateFolder
  let keyring: Keyring
  /// For tests of a full disk.
  let pageLimit: Int?
  let onWritePoint: (@Sendable (WritePoint) -> Void)?
  /// For the open database.
  let log = LogPages()
  /// Before each migration, with the version that it makes.
  var onStep: (@Sendable (Int) -> Void)?

  struct Opened {
    let database: SQLiteConnection
    let keys: Keyring.Settled
    /// Repaired damage.
    var damageNotices: [String] = []
  }

  enum Found {
    case nothing
    case store(Keyring.StoreKeyState, Damage)
  }

  /// What is wrong with a database whose key fits.
  struct Damage {
    /// SQLite's words; nil: its structure is sound.
    var structure: String?
    /// The note of its key cannot be read.
    var isNoteDamaged = false
    /// The schema version of the tables.
    var version = SQLiteSchema.version
    /// Nil: it is right.
    var header: SchemaHeader?
  }

  func database() throws(StoreError) -> Opened {
    // A rebuild that the end of the process interrupted.
    if folder.size(of: folder.successor) > 0 { try folder.installSuccessor() }
    folder.removeDraft()
    folder.removeWorkplaces()
    let found = try inspect()
    try folder.protect(folder.database)
    do {
      var notices: [String] = []
      if case .store(let under, let damage) = found, let structure = damage.structure {
        notices.append(try salvage(keyring.key(under), damage.version, because: structure))
      }
      let database = try SQLiteConnection(path: folder.database, writing)
      if case .store(_, let damage) = found, let header = damage.header {
        // A salvaged database has a new one.
        try header.correct(database)
        if let notice = header.notice(at: folder.database) { notices.append(notice) }
      }
      try SQLiteSchema.migrate(database, onStep: onStep, onWritePoint: onWritePoint)
      switch found {
      case .nothing:
        try database.write { try Self.putKeyNote(in: $0, keyring.key.sealer) }
        return Opened(database: database, keys: keyring.settledNew)
      case .store(let under, let damage):
        if damage.isNoteDamaged {
          try database.write { try Self.putKeyNote(in: $0, keyring.key(under).sealer) }
          notices.append("the note of the key in \(folder.database) was damaged, and was written again")
        }
        var opened = try settled(database, under)
        opened.damageNotices = notices
        return opened
      }
    } catch {
      throw .opening(error, at: folder.database)
    }
  }

  /// The database names the right key: an interrupted change of it is completed or undone.
  private func settled(_ database: SQLiteConnection, _ under: Keyring.StoreKeyState) throws -> Opened {
    if case .previous(let old) = under { try reseal(database, from: old.sealer, to: keyring.key.sealer) }
    if keyring.mayLeaveOldValues(under) { _ = try? cutLog(of: database) }
    return Opened(database: database, keys: keyring.finish(under))
  }

  /// Writes a database with this state beside the present one: whole, on disk and closed. Of an account that cannot
  /// be read, the secrets stay in the one that is put aside.
  func draft(
    _ state: StoredState, _ accounts: [any PackedAccount] = [], kept: [KeptRow] = [], under key: SealingKey,
    commits: Int64 = 0
  ) throws(StoreError) {
    folder.removeDraft()
    try folder.protect(folder.draft)
    do {
      try Self.write(state, accounts, kept: kept, under: key, to: folder.draft, writing, commits: commits)
    } catch {
      folder.removeDraft()
      throw .writing(error, at: folder.database)
    }
  }

  /// Writes a new database into an empty file.
  static func write(
    _ state: StoredState, _ accounts: [any PackedAccount], kept: [KeptRow] = [], under key: SealingKey,
    to path: String, _ options: SQLiteConnection.Options, commits: Int64 = 0
  ) throws {
    let sealer = key.sealer
    var status = stat()
    // The file was made just now.
    let now = Timestamp(seconds: stat(path, &status) == 0 ? Int64(status.st_mtim.tv_sec) : 0)
    let database = try SQLiteConnection(path: path, options)
    try SQLiteSchema.migrate(database)
    try database.write { db in
      for row in kept { try row.put(in: db, sealer) }
      for change in state.changes { try change.apply(to: db, sealer: sealer) }
      for account in accounts { try put(account, in: db, sealer, at: now) }
      try putKeyNote(in: db, sealer)
      try CommitCount.put(commits, in: db)
    }
    try database.use { try $0.checkpoint(.truncate) }
    try database.close()
  }

  /// An unreadable account stays unchanged, if it is sealed under the same key.
  private static func put(_ account: any PackedAccount, in db: Database, _ sealer: Sealer, at now: Timestamp) throws {
    let stored: StoredAccount
    do throws(StoreError) {
      stored = try account.read(.whole)
    } catch {
      if let rows = account as? PackedRows, try rows.putUnchanged(in: db, sealer) { return }
      let rest = try account.read(.remains).grant.unreadable(error.message, at: now)
      stored = StoredAccount(grant: rest, tokens: [], intent: nil)
    }
    try stored.put(in: db, sealer: sealer)
  }

  /// Opens the result of a rebuild.
  func reopened() throws(StoreError) -> SQLiteConnection {
    do {
      return try SQLiteConnection(path: folder.database, writing)
    } catch {
      throw .writing(error, at: folder.database)
    }
  }

  // MARK: Looking

  /// The existing database. Writes nothing to it, except the rollback that a journal requires.
  func inspect() throws(StoreError) -> Found {
    guard folder.size(of: folder.database) > 0 else {
      // SQLite would take the empty database for a new one, and delete the log.
      guard folder.size(of: folder.log) == 0 else {
        throw .corrupt(path: folder.database, detail: "it is missing or empty, and its log (grantd.db-wal) is not")
      }
      return .nothing
    }
    try checkHeader()
    do {
      var options = reading
      // The first start ended while it turned the log on: SQLite reads nothing before that is taken back.
      options.isReadOnly = folder.size(of: folder.database + "-journal") == 0
      let database = try SQLiteConnection(path: folder.database, options)
      defer { try? database.close() }
      return try database.inspect { try inspect(in: $0) }
    } catch {
      throw .opening(error, at: folder.database)
    }
  }

  private func checkHeader() throws(StoreError) {
    let descriptor = Glibc.open(folder.database, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .unreadable(path: folder.database, detail: systemError(errno)) }
    defer { Glibc.close(descriptor) }
    var start = [UInt8](repeating: 0, count: Self.magic.count)
    guard Glibc.read(descriptor, &start, start.count) == start.count, start == Self.magic else {
      throw .corrupt(path: folder.database, detail: "it is not an SQLite database")
    }
  }

  private func inspect(in db: Database) throws -> Found {
    let ofMigrations = "SELECT count(*) FROM sqlite_master WHERE tbl_name <> 'grdb_migrations'"
    let tables = try db.number(ofMigrations)
    let application = try db.number("PRAGMA application_id")
    // The first start ended after the file, or the list of migrations that earlier versions kept, was made and before the
    // tables were.
    if tables == 0, application == 0 { return .nothing }
    let header = try SchemaHeader(of: db, at: folder.database)
    guard case .store(let under, var damage) = try checkKey(in: db) else { return .nothing }
    damage.version = header.version
    damage.header = header.damage == nil ? nil : header
    // A larger one is read whole behind the first answers: ``verify()``.
    if folder.size(of: folder.database) <= Self.verifiedAtOnce { damage.structure = try Self.damage(of: db) }
    return .store(under, damage)
  }

  /// SQLite's description of damage to the structure, the order of the indexes included; nil: none.
  ///
  /// - Throws: a failure that is not damage, such as a read error: the rows may be readable later.
  private static func damage(of db: Database) throws -> String? {
    do {
      let check = try db.value("PRAGMA integrity_check(1)")?.text
      return check == "ok" ? nil : check ?? "its structure cannot be checked"
    } catch let error as DatabaseError where error.isDamage {
      return error.message ?? "SQLite \(error.extendedCode.rawValue)"
    }
  }

  /// Reads all of the database on a separate connection.
  func verify() throws(StoreError) {
    do {
      let database = try SQLiteConnection(path: folder.database, reading)
      defer { try? database.close() }
      try database.read(verify)
    } catch {
      throw .reading(error, at: folder.database)
    }
  }

  private func verify(_ db: Database) throws {
    let check = try db.value("PRAGMA quick_check(1)")?.text
    guard check == "ok" else {
      throw StoreError.corrupt(path: folder.database, detail: check ?? "its structure cannot be checked")
    }
  }

  private func checkKey(in db: Database) throws -> Found {
    let sql = "SELECT value FROM meta WHERE name = ?"
    // Damage to it concerns no account.
    guard let note = try DatabaseError.readable({ try db.value(sql, [.text(Keyring.noteName)])?.blob }) else {
      // The first start ended after the tables were made and before the key was noted; else it was removed.
      if (try? SQLiteSchema.isEmpty(db)) == true { return .nothing }
      return try keyWithoutNote(db, .damaged)
    }
    do throws(Sealer.Failure) {
      return .store(try keyring.find(note), Damage())
    } catch {
      return try keyWithoutNote(db, error)
    }
  }

  /// The key that opens values of the database, if its note cannot be read.
  private func keyWithoutNote(_ db: Database, _ failure: Sealer.Failure) throws -> Found {
    let samples = SealedSample.some(of: db)
    if let under = keyring.find(where: { sealer in samples.contains { $0.opens(under: sealer) } }) {
      return .store(under, Damage(isNoteDamaged: true))
    }
    throw failure == .otherKey
      ? StoreError.wrongKey(path: folder.database, keySource: keyring.key.source)
      : StoreError.corrupt(
        path: folder.database,
        detail: "the note of its key is damaged, and the key in \(keyring.key.source) opens nothing")
  }

  // MARK: Writing

  static func putKeyNote(in db: Database, _ sealer: Sealer) throws {
    try db.execute(
      "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)",
      [.text(Keyring.noteName), .blob(Keyring.note(under: sealer))])
  }

  /// Checkpoints the log and empties it, so that no older data stay in it. False: the database is being read.
  func cutLog(of database: SQLiteConnection) throws -> Bool {
    try database.use { try $0.checkpoint(.truncate) }
    return folder.size(of: folder.log) == 0
  }

  // MARK: Connections

  /// For a look at the folder's database.
  var reading: SQLiteConnection.Options {
    var options = Self.looking
    options.isImmutable = folder.isReadOnly && folder.size(of: folder.log) == 0
    return options
  }

  static var looking: SQLiteConnection.Options {
    var options = SQLiteConnection.Options()
    options.isReadOnly = true
    options.patience = patience
    options.preparations = [{ try $0.execute("PRAGMA trusted_schema = OFF") }]
    return options
  }

  private var writing: SQLiteConnection.Options {
    var options = Self.writing
    if let pageLimit { options.preparations.append { try $0.execute("PRAGMA max_page_count = \(pageLimit)") } }
    options.preparations.append { [log] in try log.watch($0) }
    return options
  }

  /// How each database of ours is written: whole transactions, on disk when they are answered.
  static var writing: SQLiteConnection.Options {
    var options = SQLiteConnection.Options()
    options.patience = patience
    options.preparations = [
      { db in
        try db.execute(
          """
          PRAGMA trusted_schema = OFF;
          PRAGMA cell_size_check = ON;
          PRAGMA secure_delete = ON;
          PRAGMA temp_store = MEMORY;
          PRAGMA synchronous = FULL;
          PRAGMA journal_size_limit = \(logLimit);
          """)
        guard try db.value("PRAGMA journal_mode = WAL")?.text == "wal" else {
          throw DatabaseError(.cannotOpen, message: "this file system has no shared memory for a WAL")
        }
      }
    ]
    return options
  }
}

extension Database {
  /// The first column of the first row; 0 where there is none.
  func number(_ sql: String) throws -> Int { Int(try value(sql)?.integer ?? 0) }
}
