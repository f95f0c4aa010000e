extension JSON {
  /// The value as JSON: members in their encoding order, omitted if nil. Numbers that are not finite become null. A
  /// type whose `encode(to:)` throws is a bug and traps.
  public init(encoding value: some Encodable) {
    do {
      let node = EncodingNode()
      try node.encode(value)
      self = node.json
    } catch {
      preconditionFailure("\(type(of: value)) cannot be encoded: \(error)")
    }
  }
}

extension JSON: Encodable {
  /// To a ``JSON`` only.
  public func encode(to encoder: any Encoder) throws {
    guard let node = encoder as? EncodingNode else {
      throw EncodingError.invalidValue(self, .init(codingPath: encoder.codingPath, debugDescription: "not to JSON"))
    }
    try node.encode(self)
  }
}

/// An unfinished value: a reference, because an encoder returns containers that outlive the call.
private final class EncodingNode: Encoder, SingleValueEncodingContainer {
  private enum Form {
    case value(JSON)
    case object
    case array
  }

  /// Beside its members and elements, which grow in place.
  private var form = Form.object
  private var members: [(name: String, node: EncodingNode)] = []
  /// The positions of ``members`` by name, if they are many.
  private var positions: [String: Int] = [:]
  private var elements: [EncodingNode] = []
  let codingPath: [any CodingKey] = []
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  var json: JSON {
    switch form {
    case .value(let value): value
    case .object: .object(members.map { JSON.Member(name: $0.name, value: $0.node.json) })
    case .array: .array(elements.map(\.json))
    }
  }

  var count: Int { elements.count }

  /// A member of that name that there was is replaced.
  func member(_ name: String) -> EncodingNode {
    form = .object
    let node = EncodingNode()
    if let position = position(of: name) {
      members[position].node = node
    } else {
      if members.count >= MemberNames.few { positions[name] = members.count }
      members.append((name, node))
    }
    return node
  }

  private func position(of name: String) -> Int? {
    guard members.count >= MemberNames.few else { return members.firstIndex { $0.name == name } }
    if positions.isEmpty { for (index, member) in members.enumerated() { positions[member.name] = index } }
    return positions[name]
  }

  func element() -> EncodingNode {
    let node = EncodingNode()
    elements.append(node)
    return node
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    KeyedEncodingContainer(KeyedNode<Key>(node: self))
  }
  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    form = .array
    return UnkeyedNode(node: self)
  }
  func singleValueContainer() -> any SingleValueEncodingContainer { self }

  func encodeNil() { form = .value(.null) }

  func encode<T: Encodable>(_ value: T) throws {
    switch value {
    case let value as JSON: form = .value(value)
    case let value as Bool: form = .value(.bool(value))
    case let value as String: form = .value(.string(value))
    case let value as Double: form = .value(.double(value))
    case let value as Float: form = .value(.double(Double(value)))
    case let value as any BinaryInteger: form = .value(.number("\(value)"))
    case let value as [String: any Encodable]:
      form = .object
      // A dictionary has no order; it is sorted, so equal values are equal texts.
      for (name, element) in value.sorted(by: { $0.key < $1.key }) { try member(name).encode(element) }
    default: try value.encode(to: self)
    }
  }
}

private struct KeyedNode<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let node: EncodingNode
  var codingPath: [any CodingKey] { [] }

  mutating func encodeNil(forKey key: Key) { node.member(key.stringValue).encodeNil() }
  mutating func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
    try node.member(key.stringValue).encode(value)
  }
  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> { node.member(key.stringValue).container(keyedBy: type) }
  mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    node.member(key.stringValue).unkeyedContainer()
  }
  mutating func superEncoder() -> any Encoder { node.member("super") }
  mutating func superEncoder(forKey key: Key) -> any Encoder { node.member(key.stringValue) }
}

private struct UnkeyedNode: UnkeyedEncodingContainer {
  let node: EncodingNode
  var codingPath: [any CodingKey] { [] }
  var count: Int { node.count }

  mutating func encodeNil() { node.element().encodeNil() }
  mutating func encode<T: Encodable>(_ value: T) throws { try node.element().encode(value) }
  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type
  ) -> KeyedEncodingContainer<Nested> { node.element().container(keyedBy: type) }
  mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { node.element().unkeyedContainer() }
  mutating func superEncoder() -> any Encoder { node.element() }
}
