package import Broker
package import FoundationEssentials
import Glibc
package import Grants
package import OAuth
import SQLite
package import Sealing

/// A row that differs from the one that was written.
package struct DamagedRow: Error, Equatable {
  package let table: String
  package let column: String
  /// Sealed under another key than the store's: from another database.
  package let isForeign: Bool

  package init(table: String, column: String, isForeign: Bool = false) {
    self.table = table
    self.column = column
    self.isForeign = isForeign
  }
}

extension DamagedRow {
  /// For people, without a full stop.
  package var detail: String {
    isForeign
      ? "a row of table \(table) is sealed under another key than the rest (column \(column))"
      : "a row of table \(table) is damaged or was moved (column \(column))"
  }
}

/// SQLite's texts end at the first NUL here: it is shown instead, as in a terminal (U+2400).
package func plain(_ text: String) -> String {
  guard text.utf8.contains(0) else { return text }
  return String(decoding: text.utf8.flatMap { $0 == 0 ? Array("\u{2400}".utf8) : [$0] }, as: UTF8.self)
}

/// Scopes are joined by a space (RFC 6749 §3.3). Bytes that a scope must not contain, but a server may still send, are
/// escaped. Bytes, because to Swift a space with a combining mark is another character.
package enum ScopeText {
  private static let escapes: [(byte: UInt8, text: [UInt8])] = [
    (0, Array("%00".utf8)), (0x20, Array("%20".utf8)), (0x25, Array("%25".utf8)),
  ]

  package static func join(_ scopes: [String]) -> String {
    scopes.map { scope in
      if scope.isEmpty { return "%" }
      guard scope.utf8.contains(where: { $0 == 0x20 || $0 == 0x25 || $0 == 0 }) else { return scope }
      let escaped = scope.utf8.flatMap { byte in escapes.first { $0.byte == byte }?.text ?? [byte] }
      return String(decoding: escaped, as: UTF8.self)
    }.joined(separator: " ")
  }

  package static func split(_ text: String) -> [String] {
    let scopes = text.utf8.split(separator: 0x20).map { String(Substring($0)) }
    guard text.utf8.contains(0x25) else { return scopes }
    return scopes.map { $0 == "%" ? "" : unescaped($0) }
  }

  private static func unescaped(_ scope: String) -> String {
    var (bytes, rest): ([UInt8], Substring.UTF8View) = ([], scope.utf8[...])
    while let first = rest.first {
      let escape = escapes.first { rest.starts(with: $0.text) }
      bytes.append(escape?.byte ?? first)
      rest = rest.dropFirst(escape?.text.count ?? 1)
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// Writes the columns of one row, in the table's order.
package struct RowWriter {
  private(set) var values: [ColumnValue] = []
  private let table: Table
  private let place: Place
  private let sealer: Sealer

  package init(table: Table, boundTo parts: [String], sealer: Sealer) {
    self.table = table
    self.place = Place(table: table.name, row: parts.map(plain))
    self.sealer = sealer
    values.reserveCapacity(table.columns.count)
  }

  package mutating func text(_ value: String?) { values.append(ColumnValue(value.map(plain))) }
  package mutating func scopes(_ value: [String]) { values.append(.text(ScopeText.join(value))) }
  package mutating func integer(_ value: Int64?) { values.append(ColumnValue(value)) }
  package mutating func time(_ value: Timestamp?) { integer(value?.milliseconds) }

  package mutating func json(_ value: (some Encodable)?) {
    values.append(ColumnValue(value.map { JSON(encoding: $0).text(sorted: true) }))
  }

  package mutating func sealedJSON(_ value: (some Encodable)?) throws {
    try sealed(value.map { Data(JSON(encoding: $0).serialized(sorted: true)) })
  }

  /// Exposed here and nowhere else in the store, to be sealed.
  package mutating func sealed(_ value: Secret?) throws {
    let column = table.columns[values.count]
    let sealed = try value?.withExposedBytes { try sealer.seal($0, at: place, column: column) }
    values.append(ColumnValue(sealed))
  }

  package mutating func sealed(_ value: Data?) throws {
    let column = table.columns[values.count]
    values.append(ColumnValue(try value.map { try sealer.seal($0, at: place, column: column) }))
  }
}

/// Reads the columns of one row, in the table's order.
package struct RowReader {
  private var columns: PackedColumns
  private let table: Table
  private let sealer: Sealer
  private let depth: AccountDepth
  private var place: [String] = []
  private var index = 0
  /// The offset of the row in packed columns.
  private let start: Int

  package init(_ columns: PackedColumns, of table: Table, sealer: Sealer, _ depth: AccountDepth = .whole) {
    self.columns = columns
    self.table = table
    self.sealer = sealer
    self.depth = depth
    start = columns.offset
  }

  /// How far the columns were read.
  package var offset: Int { columns.offset }

  /// Compares the code in the last column with the other columns. The moments of many accounts are read at a start; they
  /// are checked when the account is used.
  package mutating func checkCode() throws {
    guard depth != .moments else {
      _ = skip()
      return
    }
    let row = columns.between(start, columns.offset)
    guard let code = try next(\.blob) else { return }
    guard code == sealer.code(of: row.bytes, in: table.name) else {
      throw DamagedRow(table: table.name, column: Table.code)
    }
  }

  /// The values that the following columns were sealed with.
  package mutating func bind(to parts: [String]) { place = parts }

  package mutating func text() throws -> String { try required(optionalText()) }
  package mutating func integer() throws -> Int64 { try required(optionalInteger()) }
  package mutating func time() throws -> Timestamp { Timestamp(milliseconds: try integer()) }
  package mutating func optionalTime() throws -> Timestamp? { try optionalInteger().map(Timestamp.init(milliseconds:)) }

  package mutating func scopes() throws -> [String] {
    guard depth == .moments else { return ScopeText.split(try text()) }
    _ = try required(skip() ? true : nil)
    return []
  }

  /// Only the subject if the rest is left out.
  package mutating func identity() throws -> Identity? {
    guard depth == .moments else { return try optionalJSON(Identity.self) }
    guard let text = try optionalText() else { return nil }
    if let subject = SubjectText.find(in: Array(text.utf8)[...]) { return Identity(subject: subject) }
    return try required(try? JSON.parse(text.utf8).decode(Identity.self))
  }
  package mutating func sealed() throws -> Secret { try required(optionalSealed()) }

  package mutating func name<Name: RawRepresentable>(_: Name.Type) throws -> Name where Name.RawValue == String {
    try required(Name(rawValue: text()))
  }

  package mutating func small<Number: FixedWidthInteger>(_: Number.Type) throws -> Number {
    try required(Number(exactly: integer()))
  }

  package mutating func optionalText() throws -> String? { try next(\.text) }
  package mutating func optionalInteger() throws -> Int64? { try next(\.integer) }

  package mutating func optionalJSON<Value: Decodable>(_: Value.Type) throws -> Value? {
    guard let text = try optionalText() else { return nil }
    return try required(try? JSON.parse(text.utf8).decode(Value.self))
  }

  package mutating func optionalSealedJSON<Value: Decodable>(_: Value.Type) throws -> Value? {
    guard let data = try optionalSealedData() else { return nil }
    return try required(try? JSON.parse(data).decode(Value.self))
  }

  /// Stands for a secret that is left out.
  static let leftOut = Secret("")

  package mutating func optionalSealed() throws -> Secret? {
    guard depth == .whole else { return skip() ? Self.leftOut : nil }
    return try optionalSealedData().map { Secret(String(decoding: $0, as: UTF8.self)) }
  }

  package mutating func optionalSealedData() throws -> Data? {
    guard depth == .whole else { return skip() ? Data() : nil }
    guard let sealed = try next(\.blob) else { return nil }
    let column = table.columns[index - 1]
    do throws(Sealer.Failure) {
      return try sealer.open(sealed, at: Place(table: table.name, row: place), column: column)
    } catch {
      throw DamagedRow(table: table.name, column: column, isForeign: error == .otherKey)
    }
  }

  /// Nil is NULL; another type than the column's is damage.
  private mutating func next<Value>(_ convert: (ColumnValue) -> Value?) throws -> Value? {
    let value = nextValue()
    return value.isNull ? nil : try required(convert(value))
  }

  private mutating func nextValue() -> ColumnValue {
    defer { index += 1 }
    return columns.next()
  }

  /// False: it is NULL.
  private mutating func skip() -> Bool {
    index += 1
    return columns.skip()
  }

  /// Nil: the column read last is damaged.
  package func required<Value>(_ value: Value?) throws -> Value {
    guard let value else { throw DamagedRow(table: table.name, column: table.columns[max(0, index - 1)]) }
    return value
  }
}

/// The `subject` of an identity's JSON without reading the rest.
enum SubjectText {
  private static let member = Array("\"subject\":\"".utf8)

  /// Nil: it has to be read whole.
  static func find(in text: some RandomAccessCollection<UInt8>) -> String? {
    guard let start = text.withContiguousStorageIfAvailable({ end(of: member, in: $0) }) ?? nil else { return nil }
    let rest = text.dropFirst(start)
    guard let end = rest.firstIndex(where: { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }),
      rest[end] == UInt8(ascii: "\"")
    else { return nil }
    return String(decoding: rest[..<end], as: UTF8.self)
  }

  /// The beginning of the member's value. Behind a comma or a brace it can only be the member: a quotation mark within a text
  /// follows a backslash.
  private static func end(of member: [UInt8], in text: UnsafeBufferPointer<UInt8>) -> Int? {
    guard text.count > member.count else { return nil }
    for start in 1...(text.count - member.count) where text[start] == member[0] {
      let before = text[start - 1]
      guard before == UInt8(ascii: ",") || before == UInt8(ascii: "{") else { continue }
      if memcmp(text.baseAddress! + start, member, member.count) == 0 { return start + member.count }
    }
    return nil
  }
}
