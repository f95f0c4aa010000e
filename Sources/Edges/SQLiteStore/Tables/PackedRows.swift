import Broker
import FoundationEssentials
import Grants
import SQLite
import Sealing

/// The rows of one account as the database has them, in one slot of memory. Secrets stay sealed until they are read.
final class PackedRows: PackedAccount {
  let account: AccountName
  /// The grant's row, the number of tokens and each of their rows, and the intent's where there is one.
  private let slot: PackedMemory.Slot
  let sealer: Sealer

  init(_ account: AccountName, _ bytes: [UInt8], _ sealer: Sealer, in memory: PackedMemory) throws {
    slot = try memory.store(bytes)
    self.account = account
    self.sealer = sealer
  }

  /// As the account's rows would be written.
  convenience init(_ stored: StoredAccount, sealer: Sealer, in memory: PackedMemory) throws {
    var columns = PackedColumns()
    try columns.append(stored.grant, sealer)
    columns.append(count: stored.tokens.count)
    for token in stored.tokens { try columns.append(token, sealer) }
    if let intent = stored.intent { try columns.append(intent, sealer) }
    try self.init(stored.grant.account, columns.bytes, sealer, in: memory)
  }

  var bytes: [UInt8] { slot.withBytes(Array.init) }

  func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount {
    if depth == .moments, let stored = slot.withBytes({ MomentsReader.read(account, $0) }) { return stored }
    var columns = PackedColumns(bytes)
    do {
      if depth == .remains {
        let grant = SavedGrant.remains(of: account, columns.values(of: SavedGrant.table), nil)
        return StoredAccount(grant: grant, tokens: [], intent: nil)
      }
      return try columns.account(depth, sealer)
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

  func between(_ start: Int, _ end: Int) -> PackedColumns { PackedColumns(Array(bytes[start..<end])) }

  // MARK: Writing

  mutating func append(_ value: some StoredRow, _ sealer: Sealer) throws {
    for value in try value.values(sealer) { append(value) }
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

  mutating func append(_ value: ColumnValue) {
    switch value {
    case .null: append(nil as Int64?)
    // No column is of type REAL: it is damage, as text is in a column of integers.
    case .real: append(UnsafeRawBufferPointer(start: nil, count: 0), as: .blob)
    case .integer(let integer): append(integer)
    case .text(let text): Array(text.utf8).withUnsafeBytes { append($0, as: .text) }
    case .blob(let data): data.withUnsafeBytes { append($0, as: .blob) }
    }
  }

  private mutating func append(_ integer: Int64?) {
    guard let integer else { return bytes.append(Kind.null.rawValue) }
    bytes.append(Kind.integer.rawValue)
    withUnsafeBytes(of: integer) { bytes += $0 }
  }

  private mutating func append(_ data: UnsafeRawBufferPointer, as kind: Kind) {
    bytes.append(kind.rawValue)
    append(count: data.count)
    bytes += data
  }

  // MARK: Reading

  mutating func next<Value: StoredRow>(_ depth: AccountDepth, _ sealer: Sealer) throws -> Value {
    var row = RowReader(self, of: Value.table, sealer: sealer, depth)
    let value = try Value(from: &row)
    try row.checkCode()
    offset = row.offset
    return value
  }

  /// The rows of one account. Tokens and an intent that cannot be read are left out, unless the grant is worth nothing
  /// without them.
  mutating func account(_ depth: AccountDepth, _ sealer: Sealer) throws -> StoredAccount {
    var account = StoredAccount(grant: try next(depth, sealer), tokens: [], intent: nil)
    for _ in 0..<nextCount() {
      do {
        account.tokens.append(try nextWhole(depth, sealer))
      } catch let error as DamagedRow where account.grant.isRenewable {
        account.leftOut.append(error.detail)
      }
    }
    guard !isAtEnd else { return account }
    do {
      account.intent = try nextWhole(depth, sealer)
    } catch let error as DamagedRow {
      account.leftOut.append(error.detail)
    }
    return account
  }

  /// The next row. One that cannot be read is passed over.
  private mutating func nextWhole<Value: StoredRow>(_ depth: AccountDepth, _ sealer: Sealer) throws -> Value {
    let start = offset
    do {
      return try next(depth, sealer)
    } catch {
      offset = start
      for _ in Value.table.columns { _ = skip() }
      throw error
    }
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
  mutating func next() -> ColumnValue {
    switch take() {
    case .null: .null
    case .integer(let integer): .integer(integer)
    case .text(let range): .text(String(decoding: bytes[range], as: UTF8.self))
    case .blob(let range): .blob(Data(bytes[range]))
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

  /// The next row, where it is of the same account.
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
  fileprivate mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

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

  fileprivate mutating func append(_ other: PackedColumns) { bytes += other.bytes }
}
