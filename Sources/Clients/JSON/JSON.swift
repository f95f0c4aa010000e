// Links the C library's mathematics, which an exact conversion of a Double calls in debug builds.
import Glibc

/// A JSON text as a value (RFC 8259). Members keep their order, and numbers the digits that were written, so that an
/// integer never passes through a floating-point number.
public enum JSON: Sendable, Hashable {
  case null
  case bool(Bool)
  /// The literal as written, such as `-1.50e3`.
  case number(String)
  case string(String)
  case array([JSON])
  /// No two members have the same name.
  case object([Member])

  public struct Member: Sendable, Hashable {
    public var name: String
    public var value: JSON

    public init(name: String, value: JSON) {
      self.name = name
      self.value = value
    }
  }
}

extension JSON {
  public static func integer(_ value: some BinaryInteger) -> JSON { .number("\(value)") }

  /// Null where the number is not finite: JSON has no literal for it. Whole numbers are written without a fraction.
  public static func double(_ value: Double) -> JSON {
    guard value.isFinite else { return .null }
    return Int64(exactly: value).map { .number("\($0)") } ?? .number("\(value)")
  }

  /// An object with sorted names.
  public static func object(_ members: [String: JSON]) -> JSON {
    .object(members.sorted { $0.key < $1.key }.map { Member(name: $0.key, value: $0.value) })
  }

  /// The member's value; nil if it is missing or this is not an object.
  public subscript(_ name: String) -> JSON? {
    guard case .object(let members) = self else { return nil }
    return members.first { $0.name == name }?.value
  }

  public var string: String? {
    if case .string(let text) = self { text } else { nil }
  }

  /// The number where it is written as an integer that fits.
  public var integer: Int64? {
    if case .number(let literal) = self { Int64(literal) } else { nil }
  }

  /// The number, if it is finite.
  public var double: Double? {
    guard case .number(let literal) = self, let value = Double(literal), value.isFinite else { return nil }
    return value
  }

  public var bool: Bool? {
    if case .bool(let value) = self { value } else { nil }
  }

  public var array: [JSON]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  public var members: [Member]? {
    if case .object(let members) = self { members } else { nil }
  }

  /// The members by name: the last of those whose names Unicode takes for the same.
  public var dictionary: [String: JSON]? {
    members.map { Dictionary($0.map { ($0.name, $0.value) }) { $1 } }
  }

  /// What kind of value this is, with its article, for error messages: `a string`.
  public var kind: String {
    switch self {
    case .null: "null"
    case .bool: "a boolean"
    case .number: "a number"
    case .string: "a string"
    case .array: "an array"
    case .object: "an object"
    }
  }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(integerLiteral value: Int64) { self = .integer(value) }
  public init(arrayLiteral elements: JSON...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(elements.map { Member(name: $0.0, value: $0.1) })
  }
}

extension JSON {
  /// One line of UTF-8 without white space: control characters are escaped, so there is never a raw newline.
  ///
  /// - Parameter sorted: sorts the names of each object, so that equal values give equal bytes.
  public func serialized(sorted: Bool = false) -> [UInt8] {
    var bytes: [UInt8] = []
    write(to: &bytes, sorted)
    return bytes
  }

  /// The same as a text.
  public func text(sorted: Bool = false) -> String { String(decoding: serialized(sorted: sorted), as: UTF8.self) }

  /// The same, ended by a newline.
  public func serializedLine() -> [UInt8] {
    var bytes: [UInt8] = []
    write(to: &bytes, false)
    bytes.append(0x0A)
    return bytes
  }

  private func write(to bytes: inout [UInt8], _ sorted: Bool) {
    switch self {
    case .null: bytes.append(contentsOf: "null".utf8)
    case .bool(let value): bytes.append(contentsOf: (value ? "true" : "false").utf8)
    case .number(let literal): bytes.append(contentsOf: literal.utf8)
    case .string(let text): Self.write(text, to: &bytes)
    case .array(let elements):
      bytes.append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        element.write(to: &bytes, sorted)
      }
      bytes.append(UInt8(ascii: "]"))
    case .object(let members):
      bytes.append(UInt8(ascii: "{"))
      for (index, member) in (sorted ? members.sorted { $0.name < $1.name } : members).enumerated() {
        if index > 0 { bytes.append(UInt8(ascii: ",")) }
        Self.write(member.name, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        member.value.write(to: &bytes, sorted)
      }
      bytes.append(UInt8(ascii: "}"))
    }
  }

  private static func write(_ text: String, to bytes: inout [UInt8]) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
      case 0x0A: bytes.append(contentsOf: "\\n".utf8)
      case 0x0D: bytes.append(contentsOf: "\\r".utf8)
      case 0x09: bytes.append(contentsOf: "\\t".utf8)
      case 0..<0x20:
        bytes.append(contentsOf: "\\u00".utf8)
        for digit in [byte >> 4, byte & 15] { bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }
}
