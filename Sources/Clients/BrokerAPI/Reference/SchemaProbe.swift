extension JSONSchema {
  /// Asks the type itself: a decoder that has no data notes which members the type wants and of which types.
  /// A type that cannot be made from zeros, empty strings and absent members is a bug of ours and traps.
  public init<T: Decodable>(of type: T.Type, docs: [String: String]? = nil) {
    do {
      (self, _) = try probe(type, docs: docs)
    } catch {
      preconditionFailure("\(type) cannot be described: \(error)")
    }
  }
}

private func probe<T: Decodable>(_ type: T.Type, docs: [String: String]? = nil) throws -> (JSONSchema, T) {
  let found: (JSONSchema, Any)? =
    switch type {
    case is JSON.Type: (.any, JSON.null)
    case is Bool.Type: (.boolean, false)
    case is String.Type: (.string, "")
    case is Double.Type: (.number, 0.0)
    case let integer as any FixedWidthInteger.Type: (.integer, zero(integer))
    case let list as any ProbedList.Type: (.array(try list.probeElement()), list.init())
    case let map as any ProbedMap.Type: (.map(try map.probeValue()), map.init())
    default: nil
    }
  if let (schema, value) = found, let value = value as? T { return (schema, value) }
  let name = String(describing: type)
  if let cases = stringCases(of: type), let value = firstCase(of: type) {
    return (.enumeration(name: name, cases: cases), value)
  }
  let decoder = ProbingDecoder(docs: docs ?? (type as? any Documented.Type)?.docs ?? [:])
  let value = try T(from: decoder)
  return (decoder.single ?? .object(ObjectSchema(name: name, members: decoder.members)), value)
}

private func zero<I: FixedWidthInteger>(_: I.Type) -> I { .zero }

private func firstCase<T>(of type: T.Type) -> T? {
  func first<C: CaseIterable>(_: C.Type) -> T? { C.allCases.first as? T }
  return (type as? any CaseIterable.Type).flatMap { first($0) }
}

private protocol ProbedList {
  init()
  static func probeElement() throws -> JSONSchema
}
extension Array: ProbedList where Element: Decodable {
  static func probeElement() throws -> JSONSchema { try probe(Element.self).0 }
}

private protocol ProbedMap {
  init()
  static func probeValue() throws -> JSONSchema
}
extension Dictionary: ProbedMap where Key == String, Value: Decodable {
  static func probeValue() throws -> JSONSchema { try probe(Value.self).0 }
}

private final class ProbingDecoder: Decoder, SingleValueDecodingContainer {
  let docs: [String: String]
  let codingPath: [any CodingKey] = []
  var userInfo: [CodingUserInfoKey: Any] { [:] }
  var members: [ObjectSchema.Member] = []
  /// Names that the type asked for before it decoded them: it can do without.
  var optional: Set<String> = []
  /// Set where the type is a single value and no object.
  var single: JSONSchema?

  init(docs: [String: String]) {
    self.docs = docs
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
    KeyedDecodingContainer(KeyedProbe<Key>(decoder: self))
  }
  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    throw DecodingError.dataCorrupted(.init(codingPath: [], debugDescription: "a mixed list has no description"))
  }
  func singleValueContainer() -> any SingleValueDecodingContainer { self }
  func decodeNil() -> Bool { false }
  func decode<T: Decodable>(_ type: T.Type) throws -> T {
    let (schema, value) = try probe(type)
    single = schema
    return value
  }
}

private struct KeyedProbe<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let decoder: ProbingDecoder
  var codingPath: [any CodingKey] { [] }
  var allKeys: [Key] { [] }

  /// `decodeIfPresent` asks this first.
  func contains(_ key: Key) -> Bool {
    decoder.optional.insert(key.stringValue)
    return true
  }
  func decodeNil(forKey key: Key) -> Bool { false }

  func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
    let (schema, value) = try probe(type)
    let name = key.stringValue
    decoder.members.append(
      ObjectSchema.Member(
        name: name, schema: schema, required: !decoder.optional.contains(name), meaning: decoder.docs[name] ?? ""))
    return value
  }

  private var noNesting: DecodingError {
    .dataCorrupted(.init(codingPath: [], debugDescription: "a nested container has no description"))
  }
  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> { throw noNesting }
  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw noNesting }
  func superDecoder() throws -> any Decoder { throw noNesting }
  func superDecoder(forKey key: Key) throws -> any Decoder { throw noNesting }
}
