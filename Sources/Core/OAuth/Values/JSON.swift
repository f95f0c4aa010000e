/// JSON text as a value (RFC 8259). Foundation's decoder is not used for messages: it keeps the first of two members
/// with one name, although RFC 7519 §4 requires the last or an error (here: an error), and it drops the text of
/// numbers, so that a huge or fractional one cannot be checked. The same bytes give the same result on every platform.
///
/// Its public name differs because the socket's own values are called `JSON`.
public enum JSONValue: Sendable, Hashable {
  case null
  case bool(Bool)
  /// The number as written, after a grammar check.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  static let maximumDepth = 32
  static let maximumBytes = 1 << 20

  /// Nil if the bytes are not JSON text, exceed the size or depth limits, or repeat a member name.
  public init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count <= Self.maximumBytes else { return nil }
    var reader = JSONReader(bytes: Array(bytes))
    guard let value = reader.text() else { return nil }
    self = value
  }

  /// Parses a response that must not be lost because of its format, in the way of most programs where RFC 8259
  /// leaves the choice: the last of repeated members is used (§4), and half a surrogate pair or invalid UTF-8 becomes
  /// U+FFFD (§8). Returns the names of the repeated members.
  public static func lenient(_ bytes: some Collection<UInt8>) -> (value: JSONValue, repeated: [String])? {
    guard bytes.count <= maximumBytes else { return nil }
    var reader = JSONReader(bytes: Array(bytes), isLenient: true)
    return reader.text().map { ($0, reader.repeated) }
  }

  /// The members if this is an object.
  public var members: [String: JSONValue]? {
    if case .object(let members) = self { members } else { nil }
  }

  /// The elements if this is an array.
  public var elements: [JSONValue]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  /// Compact text with sorted names, so that equal values give equal bytes.
  public var serialized: String {
    switch self {
    case .null: "null"
    case .bool(let value): value ? "true" : "false"
    case .number(let text): text
    case .string(let text): Self.quoted(text)
    case .array(let values): "[" + values.map(\.serialized).joined(separator: ",") + "]"
    case .object(let members):
      "{"
        + members.sorted { $0.key < $1.key }.map { Self.quoted($0.key) + ":" + $0.value.serialized }
        .joined(separator: ",") + "}"
    }
  }

  private static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}

/// The name within this module.
typealias JSON = JSONValue

/// A member whose type differs from its specification.
struct WrongMember: Error, Equatable {
  var name: String
  var wanted: String
}

extension [String: JSON] {
  /// A string member; nil if it is absent or null.
  func text(_ name: String) throws(WrongMember) -> String? {
    switch self[name] {
    case nil, .null: return nil
    case .string(let text): return text
    default: throw WrongMember(name: name, wanted: "a string")
    }
  }

  /// A string member that must not be empty.
  func requiredText(_ name: String) throws(WrongMember) -> String {
    guard let text = try text(name), !text.isEmpty else { throw WrongMember(name: name, wanted: "a non-empty string") }
    return text
  }

  /// An array of strings; nil if it is absent or null.
  func texts(_ name: String) throws(WrongMember) -> [String]? {
    switch self[name] {
    case nil, .null: return nil
    case .array(let values):
      var texts: [String] = []
      for value in values {
        guard case .string(let text) = value else { throw WrongMember(name: name, wanted: "an array of strings") }
        texts.append(text)
      }
      return texts
    default: throw WrongMember(name: name, wanted: "an array of strings")
    }
  }

  /// A Boolean member; false if it is absent or null.
  func flag(_ name: String) throws(WrongMember) -> Bool {
    switch self[name] {
    case nil, .null: return false
    case .bool(let value): return value
    default: throw WrongMember(name: name, wanted: "true or false")
    }
  }

  /// A number; nil if it is absent or null. JSON's `true` is not accepted as a number.
  func number(_ name: String, orText: Bool = false) throws(WrongMember) -> Double? {
    switch self[name] {
    case nil, .null: return nil
    case .number(let text): return Double(text)
    case .string(let text) where orText:
      var reader = JSONReader(bytes: Array(text.utf8))
      guard case .number(let digits) = reader.text() else { throw WrongMember(name: name, wanted: "a number") }
      return Double(digits)
    default: throw WrongMember(name: name, wanted: "a number")
    }
  }
}
