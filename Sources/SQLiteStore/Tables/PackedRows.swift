import Broker
import Foundation
import GRDB
import Grants
import Sealing

/// The rows of one account as the database has them, in one piece of memory. Secrets stay sealed until they are read.
final class PackedRows: PackedAccount {
  let account: AccountName
  /// The grant's row, the number of tokens and each of their rows, and the intent's where there is one.
  private let bytes: [UInt8]
  private let sealer: Sealer

  init(_ account: AccountName, _ bytes: [UInt8], _ sealer: Sealer) {
    self.account = account
    // Without the room that it had to grow.
    self.bytes = bytes.withUnsafeBytes { Array($0) }
    self.sealer = sealer
  }

  /// As the account's rows would be written.
  convenience init(_ stored: StoredAccount, sealer: Sealer) throws {
    var columns = PackedColumns()
    try columns.append(stored.grant, sealer)
    columns.append(count: stored.tokens.count)
    for token in stored.tokens { try columns.append(token, sealer) }
    if let intent = stored.intent { try columns.append(intent, sealer) }
    self.init(stored.grant.account, columns.bytes, sealer)
  }

  func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount {
    if depth == .moments, let stored = MomentsReader.read(account, bytes) { return stored }
    do {
      var columns = PackedColumns(bytes)
      let grant: SavedGrant = try columns.next(depth, sealer)
      let tokens = try (0..<columns.nextCount()).map { _ -> SavedToken in try columns.next(depth, sealer) }
      let intent: RefreshIntent? = columns.isAtEnd ? nil : try columns.next(depth, sealer)
      return StoredAccount(grant: grant, tokens: tokens, intent: intent)
    } catch let error as DamagedRow {
      throw .unreadableAccount(account, detail: error.detail)
    } catch {
      throw .reading(error, at: "account \(account)")
    }
  }
}

/// Columns of SQLite's types, one after the other: a byte for the type, then an integer's eight bytes, or a length and the
/// bytes of a text or a blob.
struct PackedColumns {
  private enum Kind: UInt8 { case null, integer, text, blob }

  private(set) var bytes: [UInt8]
  private(set) var offset = 0

  init(_ bytes: [UInt8] = []) { self.bytes = bytes }

  var isAtEnd: Bool { offset == bytes.count }

  // MARK: Writing

  mutating func append(_ value: some StoredRow, _ sealer: Sealer) throws {
    var row = RowWriter(table: type(of: value).table, boundTo: value.sealedWith, sealer: sealer)
    try value.write(to: &row)
    for value in row.values { append(value) }
  }

  mutating func append(count: Int) {
    // LEB128.
    var rest = UInt(count)
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }

  mutating func append(_ value: DatabaseValue) {
    switch value.storage {
    // No column of a STRICT table is of type REAL here.
    case .null, .double: append(nil as Int64?)
    case .int64(let integer): append(integer)
    case .string(let text): append(Data(text.utf8), as: .text)
    case .blob(let data): append(data, as: .blob)
    }
  }

  private mutating func append(_ integer: Int64?) {
    guard let integer else { return bytes.append(Kind.null.rawValue) }
    bytes.append(Kind.integer.rawValue)
    withUnsafeBytes(of: integer) { bytes += $0 }
  }

  private mutating func append(_ data: Data?, as kind: Kind) {
    guard let data else { return bytes.append(Kind.null.rawValue) }
    bytes.append(kind.rawValue)
    append(count: data.count)
    data.withUnsafeBytes { bytes += $0 }
  }

  // MARK: Reading

  mutating func next<Value: StoredRow>(_ depth: AccountDepth, _ sealer: Sealer) throws -> Value {
    var row = RowReader(self, of: Value.table, sealer: sealer, depth)
    let value = try Value(from: &row)
    offset = row.offset
    return value
  }

  mutating func nextCount() -> Int {
    var count: UInt = 0
    var shift: UInt = 0
    while offset < bytes.count {
      let byte = bytes[offset]
      offset += 1
      count |= UInt(byte & 0x7f) << shift
      guard byte & 0x80 != 0, shift < 56 else { break }
      shift += 7
    }
    return Int(count)
  }

  /// What was packed here can be read here.
  mutating func next() -> DatabaseValue {
    switch take() {
    case .null: .null
    case .integer(let integer): integer.databaseValue
    case .text(let range): String(decoding: bytes[range], as: UTF8.self).databaseValue
    case .blob(let range): Data(bytes[range]).databaseValue
    }
  }

  /// False: it is NULL.
  mutating func skip() -> Bool {
    if case .null = take() { false } else { true }
  }

  private enum Value {
    case null
    case integer(Int64)
    case text(Range<Int>)
    case blob(Range<Int>)
  }

  private mutating func take() -> Value {
    guard offset < bytes.count, let kind = Kind(rawValue: bytes[offset]) else { return .null }
    offset += 1
    switch kind {
    case .null: return .null
    case .integer:
      guard bytes.count - offset >= 8 else { return .null }
      defer { offset += 8 }
      return .integer(bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Int64.self) })
    case .text, .blob:
      let count = nextCount()
      guard count <= bytes.count - offset else { return .null }
      let range = offset..<(offset + count)
      offset += count
      return kind == .text ? .text(range) : .blob(range)
    }
  }
}

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
  static func page(
    of db: Database, after account: AccountName?, most: Int, sealer: Sealer
  ) throws -> [PackedRows] {
    var found: [(account: AccountName, columns: PackedColumns)] = []
    found.reserveCapacity(most)
    let first = account?.rawValue ?? ""
    try each(SavedGrant.self, "account > ? ORDER BY account LIMIT \(most)", [first], db) { name, columns in
      guard let account = AccountName(rawValue: name) else { throw DamagedRow(table: "grants", column: "account") }
      found.append((account, columns))
    }
    guard let last = found.last?.account.rawValue else { return [] }
    let range = "account > ? AND account <= ? ORDER BY account"
    var tokens: [String: [PackedColumns]] = [:]
    tokens.reserveCapacity(found.count)
    try each(SavedToken.self, range, [first, last], db) { tokens[$0, default: []].append($1) }
    var intents: [String: PackedColumns] = [:]
    try each(RefreshIntent.self, range, [first, last], db) { intents[$0] = $1 }
    return found.map { account, columns in
      let own = tokens[account.rawValue] ?? []
      var columns = columns
      columns.append(count: own.count)
      for token in own { columns.append(token) }
      if let intent = intents[account.rawValue] { columns.append(intent) }
      return PackedRows(account, columns.bytes, sealer)
    }
  }

  private static func each<Value: StoredRow>(
    _ type: Value.Type, _ condition: String, _ arguments: StatementArguments, _ db: Database,
    _ visit: (String, PackedColumns) throws -> Void
  ) throws {
    let list = Value.table.columns.joined(separator: ", ")
    let sql = "SELECT \(list) FROM \(Value.table.name) WHERE \(condition)"
    let cursor = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: arguments)
    while let row = try cursor.next() {
      var columns = PackedColumns()
      try columns.append(row, Value.table.types)
      try visit(row[0], columns)
    }
  }
}

extension PackedColumns {
  /// By the columns' types, without a value of GRDB's for each.
  fileprivate mutating func append(_ row: Row, _ types: [ColumnType]) throws {
    bytes.reserveCapacity(1536)
    for (index, type) in types.enumerated() {
      switch type {
      case .integer: append(row[index] as Int64?)
      case .text: try row.withUnsafeData(atIndex: index) { append($0, as: .text) }
      case .blob: try row.withUnsafeData(atIndex: index) { append($0, as: .blob) }
      }
    }
  }

  fileprivate mutating func append(_ other: PackedColumns) { bytes += other.bytes }
}
