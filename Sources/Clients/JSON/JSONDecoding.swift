/// A value of a wrong type: its path, the expected type, the actual value.
public struct ParamsError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Such as `params.scopes[2]`.
  public var path: String
  public var message: String

  public init(path: String, message: String) {
    self.path = path
    self.message = message
  }

  public var description: String { "\(path): \(message)" }
}

extension JSON {
  /// The value as a type. `root` is the name of this value in error messages.
  public func decode<T: Decodable>(_ type: T.Type, root: String = "params") throws(ParamsError) -> T {
    do {
      return try JSONDecoding(value: self, codingPath: [], root: root).decode(type)
    } catch let error as ParamsError {
      throw error
    } catch let error as DecodingError {
      throw ParamsError(error, root: root)
    } catch {
      throw ParamsError(path: root, message: "\(error)")
    }
  }
}

extension ParamsError {
  fileprivate init(path: [any CodingKey], root: String, _ message: String) {
    let names = path.map { key in key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)" }
    self.init(path: root + names.joined(), message: message)
  }

  fileprivate init(_ error: DecodingError, root: String) {
    switch error {
    case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
      self.init(path: context.codingPath, root: root, context.debugDescription)
    case .keyNotFound(let key, let context):
      self.init(path: context.codingPath + [key], root: root, "missing")
    @unknown default:
      self.init(path: root, message: "unreadable")
    }
  }
}

/// The raw values of a closed set of strings; nil for any other type.
package func stringCases(of type: Any.Type) -> [String]? {
  func rawValues<C: CaseIterable>(_: C.Type) -> [String]? {
    let cases = C.allCases.map { ($0 as? any RawRepresentable)?.rawValue as? String }
    return cases.isEmpty || cases.contains(nil) ? nil : cases.compactMap(\.self)
  }
  return (type as? any CaseIterable.Type).flatMap { rawValues($0) }
}

private struct Index: CodingKey {
  var intValue: Int?
  var stringValue: String { "\(intValue ?? 0)" }
  init(_ index: Int) { intValue = index }
  init?(intValue: Int) { self.intValue = intValue }
  init?(stringValue: String) { nil }
}

extension JSON: Decodable {
  /// From a ``JSON`` only: another decoder loses the digits of numbers.
  public init(from decoder: any Decoder) throws {
    guard let decoding = decoder as? JSONDecoding else {
      throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "not from JSON"))
    }
    self = decoding.value
  }
}

/// Decodes a ``JSON`` without a detour through bytes: integers stay integers, and each error names its path.
private struct JSONDecoding: Decoder, SingleValueDecodingContainer {
  let value: JSON
  let codingPath: [any CodingKey]
  let root: String
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func mismatch(_ expected: String, got: String? = nil) -> ParamsError {
    ParamsError(path: codingPath, root: root, "expected \(expected), got \(got ?? value.kind)")
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    guard case .object(let members) = value else { throw mismatch("an object") }
    return KeyedDecodingContainer(KeyedJSON<Key>(members: members, decoding: self))
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    guard case .array(let elements) = value else { throw mismatch("an array") }
    return UnkeyedJSON(elements: elements, decoding: self)
  }

  func singleValueContainer() -> any SingleValueDecodingContainer { self }

  func decodeNil() -> Bool { value == .null }

  func decode<T: Decodable>(_ type: T.Type) throws -> T {
    let decoded: Any?
    switch type {
    case is JSON.Type: decoded = value
    case is Bool.Type:
      guard let bool = value.bool else { throw mismatch("a boolean") }
      decoded = bool
    case is String.Type:
      guard let string = value.string else { throw mismatch("a string") }
      decoded = string
    case is Double.Type: decoded = try number()
    case is Float.Type: decoded = Float(try number())
    case let integer as any FixedWidthInteger.Type: decoded = try self.integer(integer)
    default: decoded = nil
    }
    if let decoded, let result = decoded as? T { return result }
    if let cases = stringCases(of: type), let string = value.string, !cases.contains(string) {
      throw mismatch("one of " + cases.map { "\"\($0)\"" }.joined(separator: ", "), got: "\"\(string.prefix(40))\"")
    }
    return try T(from: self)
  }

  private func number() throws -> Double {
    guard case .number(let literal) = value else { throw mismatch("a number") }
    guard let number = value.double else { throw mismatch("a finite number", got: "\(literal.prefix(40))") }
    return number
  }

  private func integer<I: FixedWidthInteger>(_: I.Type) throws -> I {
    guard case .number(let literal) = value else { throw mismatch("an integer") }
    guard let integer = I(literal) else {
      let range = literal.contains { ".eE".contains($0) } ? "an integer" : "an integer of at most \(I.bitWidth) bits"
      throw mismatch(range, got: "\(literal.prefix(40))")
    }
    return integer
  }

  func below(_ key: any CodingKey, _ value: JSON) -> JSONDecoding {
    JSONDecoding(value: value, codingPath: codingPath + [key], root: root)
  }
}

private struct KeyedJSON<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let members: [JSON.Member]
  let decoding: JSONDecoding

  var codingPath: [any CodingKey] { decoding.codingPath }
  var allKeys: [Key] { members.compactMap { Key(stringValue: $0.name) } }

  private func child(_ key: any CodingKey) throws -> JSONDecoding {
    guard let value = members.first(where: { $0.name == key.stringValue })?.value else {
      throw ParamsError(path: codingPath + [key], root: decoding.root, "missing")
    }
    return decoding.below(key, value)
  }

  func contains(_ key: Key) -> Bool { members.contains { $0.name == key.stringValue } }
  func decodeNil(forKey key: Key) throws -> Bool { try child(key).decodeNil() }
  func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try child(key).decode(type) }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> { try child(key).container(keyedBy: type) }
  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try child(key).unkeyedContainer()
  }
  func superDecoder() throws -> any Decoder { decoding }
  func superDecoder(forKey key: Key) throws -> any Decoder { try child(key) }
}

private struct UnkeyedJSON: UnkeyedDecodingContainer {
  let elements: [JSON]
  let decoding: JSONDecoding
  var currentIndex = 0

  init(elements: [JSON], decoding: JSONDecoding) {
    self.elements = elements
    self.decoding = decoding
  }

  var codingPath: [any CodingKey] { decoding.codingPath }
  var count: Int? { elements.count }
  var isAtEnd: Bool { currentIndex == elements.count }

  private mutating func next() throws -> JSONDecoding {
    guard !isAtEnd else { throw decoding.mismatch("more than \(elements.count) elements", got: "the end") }
    defer { currentIndex += 1 }
    return decoding.below(Index(currentIndex), elements[currentIndex])
  }

  mutating func decodeNil() throws -> Bool {
    guard !isAtEnd, elements[currentIndex] == .null else { return false }
    currentIndex += 1
    return true
  }
  mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next().decode(type) }
  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type
  ) throws -> KeyedDecodingContainer<Nested> { try next().container(keyedBy: type) }
  mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }
  mutating func superDecoder() throws -> any Decoder { try next() }
}
