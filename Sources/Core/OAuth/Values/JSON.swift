// The members of messages are JSON values, which each user of this room names.
@_exported public import JSON

extension JSON {
  /// The limits of a provider's message. Two members with one name are refused: RFC 7519 §4 requires the last or an
  /// error.
  static let messageOptions = {
    var options = Options()
    options.bytes = 1 << 20
    options.depth = 32
    options.values = 1 << 17
    options.repeated = .refused
    options.takesMark = true
    return options
  }()

  /// Nil if the bytes are not JSON text, exceed the limits of a provider's message, or repeat a member name.
  public init?(message bytes: some Collection<UInt8>) {
    guard let value = try? JSON.parse(bytes, Self.messageOptions) else { return nil }
    self = value
  }

  /// Parses a response that must not be lost because of its format, in the way of most programs: the last of repeated
  /// members is used, and half a surrogate pair or invalid UTF-8 becomes U+FFFD. Returns the names of the repeated
  /// members.
  public static func lenient(_ bytes: some Collection<UInt8>) -> (value: JSON, repeated: [String])? {
    var options = messageOptions
    options.repeated = .last
    options.repairsText = true
    let reading = read(bytes, options)
    return (try? reading.outcome.get()).map { ($0, reading.repeated) }
  }
}

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
      guard case .number(let digits)? = JSON(message: text.utf8) else {
        throw WrongMember(name: name, wanted: "a number")
      }
      return Double(digits)
    default: throw WrongMember(name: name, wanted: "a number")
    }
  }
}
