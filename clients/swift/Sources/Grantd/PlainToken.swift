import BrokerAPI

/// The usual answer of `token.get`, without the steps of JSON in general: the broker answers a cached token in
/// microseconds, and those steps take as long. Each other text, valid or not, is left to ``JSON``.
///
/// It has no white space, and its strings have only ASCII without escapes.
struct PlainToken {
  private let bytes: UnsafeBufferPointer<UInt8>
  private var index = 0
  private var members = Token.Members()

  /// Nil: another text.
  static func parse(_ bytes: UnsafeBufferPointer<UInt8>, answering id: Int64) -> Token? {
    var plain = PlainToken(bytes: bytes)
    guard plain.skip(#"{"jsonrpc":"2.0","id":"#), plain.integer() == id, plain.skip(#","result":{"#) else { return nil }
    repeat {
      guard let name = plain.word(), plain.skip(":"), plain.member(name) else { return nil }
    } while plain.skip(",")
    guard plain.skip("}}\n"), plain.index == bytes.count else { return nil }
    return try? Token(plain.members)
  }

  private init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  private mutating func member(_ name: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
    if isName(name, "access_token") { return string(into: \.access) }
    if isName(name, "token_type") { return string(into: \.type) }
    if isName(name, "account") { return string(into: \.account) }
    if isName(name, "provider") { return string(into: \.provider) }
    if isName(name, "issuer") { return string(into: \.issuer) }
    if isName(name, "generation") { return integer(into: \.generation) }
    if isName(name, "expires_at") { return integer(into: \.expiresAt) }
    if isName(name, "expires_in") { return integer() != nil }
    return isName(name, "scope") && strings()
  }

  private func isName(_ found: Slice<UnsafeBufferPointer<UInt8>>, _ name: StaticString) -> Bool {
    guard found.count == name.utf8CodeUnitCount else { return false }
    for index in 0..<found.count where found[found.startIndex + index] != name.utf8Start[index] { return false }
    return true
  }

  /// False also for a member that the object has already.
  private mutating func string(into member: WritableKeyPath<Token.Members, String?>) -> Bool {
    guard members[keyPath: member] == nil, let word = word() else { return false }
    members[keyPath: member] = String(decoding: word, as: UTF8.self)
    return true
  }

  private mutating func integer(into member: WritableKeyPath<Token.Members, Int64?>) -> Bool {
    guard members[keyPath: member] == nil, let value = integer() else { return false }
    members[keyPath: member] = value
    return true
  }

  private mutating func strings() -> Bool {
    guard members.scope == nil, skip("[") else { return false }
    var found: [String] = []
    if !skip("]") {
      repeat {
        guard let word = word() else { return false }
        found.append(String(decoding: word, as: UTF8.self))
      } while skip(",")
      guard skip("]") else { return false }
    }
    members.scope = found
    return true
  }

  private mutating func skip(_ text: StaticString) -> Bool {
    let count = text.utf8CodeUnitCount
    guard index + count <= bytes.count else { return false }
    for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] { return false }
    index += count
    return true
  }

  private mutating func word() -> Slice<UnsafeBufferPointer<UInt8>>? {
    guard skip("\"") else { return nil }
    let start = index
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "\""):
        index += 1
        return bytes[start..<(index - 1)]
      case UInt8(ascii: "\\"), 0..<0x20, 0x7F...: return nil
      default: index += 1
      }
    }
    return nil
  }

  private static let mostDigits = 18

  /// A number that is whole and not negative.
  private mutating func integer() -> Int64? {
    let start = index
    var value: Int64 = 0
    while index < bytes.count, case let digit = bytes[index] &- 0x30, digit <= 9 {
      guard index - start < Self.mostDigits else { return nil }
      value = value * 10 + Int64(digit)
      index += 1
    }
    return index > start && (bytes[start] != 0x30 || index == start + 1) ? value : nil
  }
}
