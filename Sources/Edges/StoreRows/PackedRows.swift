package import Broker
import FoundationEssentials
package import Grants
package import SQLite
package import Sealing

/// The rows of one account as the database has them, in one slot of memory. Secrets stay sealed until they are read.
package final class PackedRows: PackedAccount {
  package let account: AccountName
  /// The grant's row, the number of tokens and each of their rows, and the intent's where there is one.
  private let slot: PackedMemory.Slot
  package let sealer: Sealer

  package init(_ account: AccountName, _ bytes: [UInt8], _ sealer: Sealer, in memory: PackedMemory) throws {
    slot = try memory.store(bytes)
    self.account = account
    self.sealer = sealer
  }

  /// As the account's rows would be written.
  package convenience init(_ stored: StoredAccount, sealer: Sealer, in memory: PackedMemory) throws {
    var columns = PackedColumns()
    try columns.append(stored.grant, sealer)
    columns.append(count: stored.tokens.count)
    for token in stored.tokens { try columns.append(token, sealer) }
    if let intent = stored.intent { try columns.append(intent, sealer) }
    try self.init(stored.grant.account, columns.bytes, sealer, in: memory)
  }

  package var bytes: [UInt8] { slot.withBytes(Array.init) }

  package func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount {
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
      throw .unreadableAccount(account, detail: "unexpected: \(type(of: error))")
    }
  }
}

/// Columns of SQLite's types, one after the other: a byte for the type, then an integer's eight bytes, or a length and the
/// bytes of a text or a blob.
package struct PackedColumns {
  package enum Kind: UInt8, Sendable { case null, integer, text, blob }

  package private(set) var bytes: [UInt8]
  package private(set) var offset = 0

  package init(_ bytes: [UInt8] = []) { self.bytes = bytes }

  /// One row.
  package init(_ row: [ColumnValue]) {
    self.init()
    for value in row { append(value) }
  }

  package var isAtEnd: Bool { offset == bytes.count }

  package func between(_ start: Int, _ end: Int) -> PackedColumns { PackedColumns(Array(bytes[start..<end])) }

  // MARK: Writing

  package mutating func append(_ value: some StoredRow, _ sealer: Sealer) throws {
    for value in try value.values(sealer) { append(value) }
  }

  package mutating func append(count: Int) {
    // LEB128.
    var rest = UInt(count)
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }

  package mutating func append(_ value: ColumnValue) {
    switch value {
    case .null: append(nil as Int64?)
    // No column is of type REAL: it is damage, as text is in a column of integers.
    case .real: append(UnsafeRawBufferPointer(start: nil, count: 0), as: .blob)
    case .integer(let integer): append(integer)
    case .text(let text): Array(text.utf8).withUnsafeBytes { append($0, as: .text) }
    case .blob(let data): data.withUnsafeBytes { append($0, as: .blob) }
    }
  }

  package mutating func append(_ integer: Int64?) {
    guard let integer else { return bytes.append(Kind.null.rawValue) }
    bytes.append(Kind.integer.rawValue)
    withUnsafeBytes(of: integer) { bytes += $0 }
  }

  package mutating func append(_ data: UnsafeRawBufferPointer, as kind: Kind) {
    bytes.append(kind.rawValue)
    append(count: data.count)
    bytes += data
  }

  package mutating func append(_ other: PackedColumns) { bytes += other.bytes }

  package mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

  // MARK: Reading

  package mutating func next<Value: StoredRow>(_ depth: AccountDepth, _ sealer: Sealer) throws -> Value {
    var row = RowReader(self, of: Value.table, sealer: sealer, depth)
    let value = try Value(from: &row)
    try row.checkCode()
    offset = row.offset
    return value
  }

  /// The rows of one account. Tokens and an intent that cannot be read are left out, unless the grant is worth nothing
  /// without them.
  package mutating func account(_ depth: AccountDepth, _ sealer: Sealer) throws -> StoredAccount {
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

  package mutating func nextCount() -> Int {
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

  /// The next column.
  package mutating func next() -> ColumnValue {
    switch nextValue() {
    case .null: .null
    case .integer(let integer): .integer(integer)
    case .text(let range): .text(String(decoding: bytes[range], as: UTF8.self))
    case .blob(let range): .blob(Data(bytes[range]))
    }
  }

  /// False: it is NULL.
  package mutating func skip() -> Bool {
    if case .null = nextValue() { false } else { true }
  }

  private enum Value {
    case null
    case integer(Int64)
    case text(Range<Int>)
    case blob(Range<Int>)
  }

  private mutating func nextValue() -> Value {
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
