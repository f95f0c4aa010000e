/// An answer to `token.get` with an access token that the full program would print, as the broker writes it: known members,
/// and printable ASCII without escapes.
struct TokenAnswer: Equatable {
  let token: String
  let type: String

  /// Nil for anything else: an error, a session, a member of another type than the method's result has.
  init?(_ line: [UInt8]) {
    var scanner = AnswerScanner(line: line)
    guard scanner.envelope() else { return nil }
    token = scanner.token
    type = scanner.type ?? "Bearer"
  }

  /// With its newline.
  func text(isHeader: Bool) -> String { isHeader ? "Authorization: \(type) \(token)\n" : token + "\n" }
}

/// Each step returns false, or nil, if the line is not plain. It accepts JSON (RFC 8259).
private struct AnswerScanner {
  /// So that an Int64 loses no digit.
  private static let longestNumber = 18

  let line: [UInt8]
  var index = 0
  var token = ""
  var type: String?
  /// A bit for each member of the result.
  private var seen: UInt16 = 0

  init(line: [UInt8]) { self.line = line }

  /// The byte at the index; 0, which is in no plain line, behind the end.
  private var current: UInt8 { index < line.count ? line[index] : 0 }

  private mutating func skipSpace() {
    while current == 0x20 || current == 0x0A || current == 0x0D || current == 0x09 { index += 1 }
  }

  private mutating func consume(_ byte: UInt8) -> Bool {
    guard current == byte else { return false }
    index += 1
    return true
  }

  private mutating func string() -> String? {
    guard consume(UInt8(ascii: "\"")) else { return nil }
    let start = index
    while current >= 0x20, current < 0x7F, current != UInt8(ascii: "\""), current != UInt8(ascii: "\\") { index += 1 }
    let end = index
    guard consume(UInt8(ascii: "\"")) else { return nil }
    return line.withUnsafeBufferPointer { bytes in
      String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<end]), as: UTF8.self)
    }
  }

  /// Without a fraction, an exponent or a leading zero.
  private mutating func integer() -> Bool {
    _ = consume(UInt8(ascii: "-"))
    let start = index
    while current >= 0x30, current <= 0x39 { index += 1 }
    let count = index - start
    return count > 0 && count <= Self.longestNumber && (count == 1 || line[start] != 0x30)
  }

  /// A member's name and the colon, with the white space around them.
  private mutating func name() -> String? {
    skipSpace()
    guard let name = string() else { return nil }
    skipSpace()
    guard consume(UInt8(ascii: ":")) else { return nil }
    skipSpace()
    return name
  }

  /// After a value: true if another follows, false at the end, nil otherwise.
  private mutating func another(_ end: UInt8) -> Bool? {
    skipSpace()
    if consume(UInt8(ascii: ",")) { return true }
    return consume(end) ? false : nil
  }

  mutating func envelope() -> Bool {
    skipSpace()
    guard consume(UInt8(ascii: "{")) else { return false }
    var (isVersioned, isIdentified, hasResult) = (false, false, false)
    while true {
      switch name() {
      case "jsonrpc":
        guard !isVersioned, string() == "2.0" else { return false }
        isVersioned = true
      case "id":
        guard !isIdentified, consume(UInt8(ascii: "1")) else { return false }
        isIdentified = true
      case "result":
        guard !hasResult, result() else { return false }
        hasResult = true
      default: return false
      }
      guard let more = another(UInt8(ascii: "}")) else { return false }
      if !more { break }
    }
    skipSpace()
    return isVersioned && isIdentified && hasResult && index == line.count
  }

  private mutating func result() -> Bool {
    guard consume(UInt8(ascii: "{")) else { return false }
    while true {
      guard let name = name(), member(name) else { return false }
      guard let more = another(UInt8(ascii: "}")) else { return false }
      if !more { break }
    }
    return seen & Self.required == Self.required
  }

  /// The bits of `access_token`, `scope`, `account`, `provider` and `generation`.
  private static let required: UInt16 = 0b1_1111

  private mutating func member(_ name: String) -> Bool {
    switch name {
    case "access_token":
      guard mark(0), let text = string(), !text.isEmpty else { return false }
      token = text
      return true
    case "token_type":
      guard mark(5), let text = string(), !text.isEmpty else { return false }
      type = text
      return true
    case "scope": return mark(1) && texts()
    case "account": return mark(2) && string() != nil
    case "provider": return mark(3) && string() != nil
    case "generation": return mark(4) && integer()
    case "expires_at": return mark(6) && integer()
    case "expires_in": return mark(7) && integer()
    case "issuer": return mark(8) && string() != nil
    case "kind": return mark(9) && string() != nil
    case "cookie": return mark(10) && string() != nil
    case "dpop_thumbprint": return mark(11) && string() != nil
    default: return false
    }
  }

  /// False for a duplicate member.
  private mutating func mark(_ bit: UInt16) -> Bool {
    defer { seen |= 1 << bit }
    return seen & (1 << bit) == 0
  }

  private mutating func texts() -> Bool {
    guard consume(UInt8(ascii: "[")) else { return false }
    skipSpace()
    if consume(UInt8(ascii: "]")) { return true }
    while true {
      skipSpace()
      guard string() != nil, let more = another(UInt8(ascii: "]")) else { return false }
      if !more { return true }
    }
  }
}
