import Foundation

extension DemoServer {
  /// A JSON value: what the server answers, and what a test may put into its answers.
  public enum JSON: Sendable, Hashable {
    case null
    case bool(Bool)
    case int(Int)
    case double(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])
  }
}

extension DemoServer.JSON: Codable {
  public init(from decoder: any Decoder) throws {
    let value = try decoder.singleValueContainer()
    if value.decodeNil() {
      self = .null
    } else if let bool = try? value.decode(Bool.self) {
      self = .bool(bool)
    } else if let int = try? value.decode(Int.self) {
      self = .int(int)
    } else if let double = try? value.decode(Double.self) {
      self = .double(double)
    } else if let string = try? value.decode(String.self) {
      self = .string(string)
    } else if let array = try? value.decode([Self].self) {
      self = .array(array)
    } else {
      self = .object(try value.decode([String: Self].self))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    var value = encoder.singleValueContainer()
    switch self {
    case .null: try value.encodeNil()
    case .bool(let bool): try value.encode(bool)
    case .int(let int): try value.encode(int)
    case .double(let double): try value.encode(double)
    case .string(let string): try value.encode(string)
    case .array(let array): try value.encode(array)
    case .object(let object): try value.encode(object)
    }
  }
}

extension DemoServer.JSON {
  /// Nil where the text is not JSON.
  public init?(text: String) {
    guard let value = try? JSONDecoder().decode(Self.self, from: Data(text.utf8)) else { return nil }
    self = value
  }

  /// The JSON text, members sorted.
  public var text: String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // The only values that fail to encode are NaN and infinity, which no caller can write in JSON either.
    guard let data = try? encoder.encode(self) else { return "null" }
    return String(decoding: data, as: UTF8.self)
  }

  public subscript(member: String) -> Self? {
    guard case .object(let members) = self else { return nil }
    return members[member]
  }

  public var string: String? {
    guard case .string(let string) = self else { return nil }
    return string
  }

  public var int: Int? {
    guard case .int(let int) = self else { return nil }
    return int
  }

  public var bool: Bool? {
    guard case .bool(let bool) = self else { return nil }
    return bool
  }

  /// An integer or a fraction.
  public var number: Double? {
    switch self {
    case .int(let int): Double(int)
    case .double(let double): double
    case .null, .bool, .string, .array, .object: nil
    }
  }

  /// These members with `others` over them; a null removes the member.
  func overlaid(with others: [String: Self]) -> Self {
    guard case .object(var members) = self else { return self }
    for (name, value) in others {
      members[name] = value == .null ? nil : value
    }
    return .object(members)
  }
}

extension DemoServer.JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(integerLiteral value: Int) { self = .int(value) }
  public init(floatLiteral value: Double) { self = .double(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(arrayLiteral elements: Self...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, Self)...) {
    self = .object(Dictionary(elements, uniquingKeysWith: { _, last in last }))
  }
}
