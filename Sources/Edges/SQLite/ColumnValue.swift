public import FoundationEssentials

/// A value of one of SQLite's types (SQLite, "Datatypes in SQLite").
public enum ColumnValue: Sendable, Equatable {
  case null
  case integer(Int64)
  case real(Double)
  /// It ends at its first NUL where it is bound.
  case text(String)
  case blob(Data)

  public init(_ value: Int64?) { self = value.map(Self.integer) ?? .null }
  public init(_ value: String?) { self = value.map(Self.text) ?? .null }
  public init(_ value: Data?) { self = value.map(Self.blob) ?? .null }

  public var isNull: Bool { self == .null }
  /// Nil where it is of another type; no type is converted.
  public var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
  public var text: String? { if case .text(let value) = self { value } else { nil } }
  public var blob: Data? { if case .blob(let value) = self { value } else { nil } }
}

/// One row of an answer.
public struct Row: Sendable {
  private let names: [String: Int]
  private let values: [ColumnValue]

  init(_ names: [String: Int], _ values: [ColumnValue]) {
    self.names = names
    self.values = values
  }

  public subscript(index: Int) -> ColumnValue { values[index] }
  /// NULL where there is no such column.
  public subscript(name: String) -> ColumnValue { names[name].map { values[$0] } ?? .null }
}
