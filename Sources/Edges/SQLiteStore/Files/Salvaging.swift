import Broker
import Dispatch
import FoundationEssentials
import Grants
import SQLite
import Sealing
import StoreRows
import Synchronization

// A database with a damaged structure that SQLite can still open: every readable row is copied unchanged into a new
// one. The damaged one is moved aside.
extension Opening {
  /// - Returns: the result as a sentence without a full stop.
  func salvage(_ key: SealingKey, _ version: Int, because detail: String) throws -> String {
    let count = try draftSalvaged(key, version, because: detail)
    try folder.announceDraft()
    try folder.installSuccessor()
    return Self.notice(folder, count, detail)
  }

  static func notice(_ folder: StateFolder, _ count: SalvagedCount, _ detail: String) -> String {
    let aside = folder.putAside.last ?? folder.path
    return
      "\(folder.database) was damaged (\(detail)): it was put aside as \(aside), and a new one has \(count.whole) rows "
      + "of it; \(count.damaged) more are damaged or lost, which `grantctl repair` lists"
  }

  /// Writes the draft of a database with the readable rows of the present one.
  func draftSalvaged(_ key: SealingKey, _ version: Int, because detail: String) throws -> SalvagedCount {
    folder.removeDraft()
    try folder.protect(folder.draft)
    do {
      let damaged = try SQLiteConnection(path: folder.database, Self.looking)
      defer { try? damaged.close() }
      var options = Self.writing
      // What refers to a lost row is dropped afterwards.
      options.preparations.append { try $0.execute("PRAGMA foreign_keys = OFF") }
      let new = try SQLiteConnection(path: folder.draft, options)
      try SQLiteSchema.migrate(new, to: version)
      let count = try damaged.inspect { from in
        try new.write { try Salvage(from: from, to: $0, sealer: key.sealer).run() }
      }
      guard count.isWorthIt else { throw StoreError.corrupt(path: folder.database, detail: detail) }
      try new.write { db in
        for table in ["tokens", "refresh_intents"] {
          try db.execute("DELETE FROM \(table) WHERE account NOT IN (SELECT account FROM grants)")
        }
        try Self.putKeyNote(in: db, key.sealer)
      }
      try new.use { try $0.checkpoint(.truncate) }
      try new.close()
      return count
    } catch {
      folder.removeDraft()
      throw error
    }
  }
}

struct SalvagedCount: Sendable {
  /// Rows as they were.
  var whole = 0
  /// Rows of which a part is missing, and rows of which only the account's name was found.
  var damaged = 0
  /// The table of accounts was damaged, and nothing of it was found.
  var hasLostAllAccounts = false

  var isWorthIt: Bool { !hasLostAllAccounts }
}

/// Copies rows out of a damaged database.
struct Salvage {
  private struct Column {
    let name: String
    let type: ColumnType
    let isRequired: Bool
  }

  /// A value that the row's reader refuses, by table: it marks a row of which a part is missing.
  private static let marks: [String: (column: String, value: ColumnValue)] = [
    "grants": ("standing", .text("unreadable")), "tokens": ("access_token", .blob(Data())),
    "logins": ("state", .blob(Data())), "revocations": ("token", .blob(Data())),
    "registrations": ("detail", .blob(Data())),
  ]

  private let from: Database
  private let to: Database
  private let sealer: Sealer

  init(from: Database, to: Database, sealer: Sealer) {
    self.from = from
    self.to = to
    self.sealer = sealer
  }

  func run() throws -> SalvagedCount {
    var count = SalvagedCount()
    for row in try to.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") {
      if let name = row[0].text, !name.hasPrefix("sqlite_") { try copy(name, &count) }
    }
    return count
  }

  private func copy(_ table: String, _ count: inout SalvagedCount) throws {
    let columns = try columns(of: table)
    let list = columns.map(\.name).joined(separator: ", ")
    let select = "SELECT rowid, \(list) FROM \(table)"
    let indexed = try names(of: table, columns[0].name)
    var found: Set<Int64> = []
    func salvageRow(_ values: [ColumnValue]) throws {
      guard let number = values[0].integer, found.insert(number).inserted else { return }
      let isWhole = try put(Array(values.dropFirst()), number, indexed[number], columns, into: table)
      count.whole += isWhole ? 1 : 0
      count.damaged += isWhole ? 0 : 1
    }
    var isDamaged = false
    // From both ends up to the damage; then the rows that only an index leads to.
    for order in ["ASC", "DESC"] {
      let isEnd = try each("\(select) NOT INDEXED ORDER BY rowid \(order)", columns.count + 1, salvageRow)
      if isEnd { break }
      isDamaged = true
    }
    for number in indexed.keys.sorted() where !found.contains(number) {
      _ = try each("\(select) NOT INDEXED WHERE rowid = \(number)", columns.count + 1, salvageRow)
      if !found.contains(number), table == "grants", let name = indexed[number] {
        isDamaged = true
        found.insert(number)
        count.damaged += 1
        // The name may be damaged, and be that of another row.
        do {
          try insert(sanitized([.text(name)], columns, table), number, columns, into: table)
        } catch let error as DatabaseError where error.code == .constraint {}
      }
    }
    if table == "grants", isDamaged, found.isEmpty { count.hasLostAllAccounts = true }
  }

  /// False: it stopped at damage.
  private func each(_ sql: String, _ width: Int, _ handle: ([ColumnValue]) throws -> Void) throws -> Bool {
    guard let cursor = try DatabaseError.readable({ try Cursor(from.statement(sql)) }) else { return false }
    while true {
      guard let isRow = try DatabaseError.readable({ try cursor.next() }) else { return false }
      guard isRow else { return true }
      try handle((0..<width).map(cursor.value(at:)))
    }
  }

  /// The first column of each row, as the table's index has it.
  private func names(of table: String, _ column: String) throws -> [Int64: String] {
    var names: [Int64: String] = [:]
    for order in ["ASC", "DESC"] {
      let sql =
        "SELECT rowid, \(column) FROM \(table) INDEXED BY sqlite_autoindex_\(table)_1 ORDER BY \(column) \(order)"
      let isEnd = try each(sql, 2) { if let number = $0[0].integer, let name = $0[1].text { names[number] = name } }
      if isEnd { break }
    }
    return names
  }

  private func columns(of table: String) throws -> [Column] {
    try to.rows("PRAGMA table_info(\(table))").map { row in
      let type: ColumnType =
        switch row["type"].text {
        case "INTEGER": .integer
        case "BLOB": .blob
        default: .text
        }
      return Column(name: row["name"].text ?? "", type: type, isRequired: row["notnull"].integer == 1)
    }
  }

  /// False: a part of it is missing.
  private func put(
    _ values: [ColumnValue], _ number: Int64, _ indexed: String?, _ columns: [Column], into table: String
  ) throws -> Bool {
    var row = values
    // The row and the index may have different names: its secrets open under the right one.
    if let indexed, columns[0].name == "account", row[0].text != indexed {
      let asIndexed = [.text(indexed)] + row.dropFirst()
      let opens = { SealedSample(table, columns.map(\.name), $0)?.opens(under: self.sealer) ?? false }
      if opens(asIndexed) || !opens(row) { row = asIndexed }
    }
    let isWhole = zip(row, columns).allSatisfy { Self.fits($0, $1) }
    if !isWhole, Self.marks[table] == nil { return false }
    do {
      try insert(isWhole ? row : sanitized(row, columns, table), number, columns, into: table)
      return isWhole
    } catch let error as DatabaseError where error.code == .constraint {
      // Another row has its key already.
      return false
    }
  }

  private static func fits(_ value: ColumnValue, _ column: Column) -> Bool {
    switch value {
    case .null: !column.isRequired
    case .integer: column.type == .integer
    case .text: column.type == .text
    case .blob: column.type == .blob
    case .real: false
    }
  }

  /// With a default for each value that does not fit, and the mark.
  private func sanitized(_ values: [ColumnValue], _ columns: [Column], _ table: String) -> [ColumnValue] {
    columns.enumerated().map { index, column in
      if let mark = Self.marks[table], mark.column == column.name { return mark.value }
      if index < values.count, Self.fits(values[index], column) { return values[index] }
      guard column.isRequired else { return .null }
      return switch column.type {
      case .integer: .integer(0)
      case .text: .text("")
      case .blob: .blob(Data())
      }
    }
  }

  private func insert(_ row: [ColumnValue], _ number: Int64, _ columns: [Column], into table: String) throws {
    let list = columns.map(\.name).joined(separator: ", ")
    let places = columns.map { _ in ", ?" }.joined()
    try to.statement("INSERT INTO \(table) (rowid, \(list)) VALUES (?\(places))").run([.integer(number)] + row)
  }
}

/// A sealed value of a possibly damaged row, and its binding.
struct SealedSample {
  /// The sealed columns of each table, and their binding.
  private static let sealed: [String: (boundTo: [String], columns: [String])] = [
    "grants": (["account", "provider"], ["refresh_token", "id_token", "previous_refresh_token", "dpop_key", "extra"]),
    "tokens": (["account", "scope", "resource"], ["access_token"]),
  ]
  /// Rows that are tried.
  private static let most = 64

  private let place: Place
  private let values: [(column: String, sealed: Data)]

  /// Nil: the table has no such values.
  init?(_ table: String, _ columns: [String], _ row: [ColumnValue]) {
    guard let (boundTo, names) = Self.sealed[table] else { return nil }
    func value(_ name: String) -> ColumnValue { columns.firstIndex(of: name).map { row[$0] } ?? .null }
    place = Place(table: table, row: boundTo.map { value($0).text ?? "" })
    values = names.compactMap { name in value(name).blob.map { (name, $0) } }
  }

  func opens(under sealer: Sealer) -> Bool {
    values.contains { (try? sealer.open($0.sealed, at: place, column: $0.column)) != nil }
  }

  /// As far as they can be read.
  static func some(of db: Database) -> [SealedSample] {
    sealed.keys.sorted().flatMap { table -> [SealedSample] in
      let (boundTo, names) = sealed[table] ?? ([], [])
      let columns = boundTo + names
      // An old database does not have all columns.
      let existing = (try? db.rows("PRAGMA table_info(\(table))").compactMap { $0["name"].text }) ?? []
      let list = columns.filter(existing.contains)
      guard !list.isEmpty,
        let cursor = try? Cursor(
          db.statement("SELECT \(list.joined(separator: ", ")) FROM \(table) LIMIT \(most)"))
      else { return [] }
      var samples: [SealedSample] = []
      while (try? cursor.next()) == true {
        if let sample = SealedSample(table, list, list.indices.map(cursor.value(at:))) { samples.append(sample) }
      }
      return samples
    }
  }
}

extension SQLiteStore {
  /// Reads. If the structure is damaged, a new database with the readable rows replaces it, once.
  func salvaging<Value: Sendable>(
    _ read: () async throws(StoreError) -> Value
  ) async throws(StoreError) -> Value {
    do throws(StoreError) {
      return try await read()
    } catch {
      guard case .corrupt(_, let detail) = error, repaired.withLock({ !$0.isSalvaged }) else { throw error }
      repaired.withLock { $0.isSalvaged = true }
      do throws(StoreError) {
        try await alone(for: .rebuild) { () throws(StoreError) in try self.replaceBySalvage(detail) }.get()
      } catch let failure {
        throw failure.isOfDamage ? error : failure
      }
      return try await read()
    }
  }

  // MARK: On the queue

  private func replaceBySalvage(_ detail: String) throws(StoreError) {
    let key = home.withLock { $0.key }
    do {
      let count = try opening.draftSalvaged(key, SQLiteSchema.version, because: detail)
      try installDraft { _ in }
      repaired.withLock { $0.notices.append(Opening.notice(opening.folder, count, detail)) }
    } catch {
      throw .writing(error, at: location)
    }
  }
}

extension StoreError {
  var isOfDamage: Bool { if case .corrupt = self { true } else { false } }
}

extension DatabaseError {
  /// SQLite found damage. A read error, or too little memory, is not damage: the rows may be readable later, and a new
  /// database without them would lose them.
  var isDamage: Bool { [.corrupt, .notADatabase].contains(code) }

  /// Nil: it is damaged, or has no such table or index.
  static func readable<Value>(_ read: () throws -> Value?) throws -> Value? {
    do {
      return try read()
    } catch let error as DatabaseError where error.isDamage || error.code == .error {
      return nil
    }
  }
}
