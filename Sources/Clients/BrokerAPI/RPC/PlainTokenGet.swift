/// The most frequent request, recognised without building a value: a single `token.get` of an account, perhaps with
/// `min_ttl`, written without escapes. All others are nil, and ``Incoming/parse(_:)`` decides; it accepts each request
/// accepted here with the same meaning.
public struct PlainTokenGet: Sendable, Equatable {
  /// The id's position in the line, as written: a string with its quotes, repeated unchanged.
  public var id: Range<Int>
  /// The position of the account's name in the line, without its quotes.
  public var account: Range<Int>
  /// Seconds; absent: the caller did not say.
  public var minTTL: Int64?
  /// The position of the array of `scopes` in the line, with its brackets; absent: not given.
  public var scopes: Range<Int>?
  /// Seconds. A cached token needs no time; absent: not given.
  public var timeout: Int64?

  static let maximumID = 64
  static let maximumAccount = 128
  /// So that neither an `Int64` nor a floating-point number can lose a digit.
  static let maximumDigits = 15
  static let maximumScopes = 32
  /// The array's, as written.
  static let maximumScopeBytes = 2048

  /// One pass, without allocation. The line may end with its newline.
  public static func scan(_ line: UnsafeRawBufferPointer) -> PlainTokenGet? {
    var scanner = Scanner(line: line)
    guard scanner.envelope() else { return nil }
    return PlainTokenGet(
      id: scanner.id, account: scanner.account, minTTL: scanner.minTTL, scopes: scanner.scopes,
      timeout: scanner.timeout)
  }
}

/// Each step returns false if the line is not plain.
private struct Scanner {
  let line: UnsafeRawBufferPointer
  var index = 0
  var id = 0..<0
  var account = 0..<0
  var minTTL: Int64?
  var scopes: Range<Int>?
  var timeout: Int64?

  init(line: UnsafeRawBufferPointer) {
    self.line = line
  }

  /// The byte at the index; 0, which is in no plain line, behind the end.
  @inline(__always)
  private var current: UInt8 { index < line.count ? line[index] : 0 }

  @inline(__always)
  private mutating func skipSpace() {
    while current == 0x20 || current == 0x0A || current == 0x0D || current == 0x09 { index += 1 }
  }

  @inline(__always)
  private mutating func consume(_ byte: UInt8) -> Bool {
    guard current == byte else { return false }
    index += 1
    return true
  }

  @inline(__always)
  private func holds(_ range: Range<Int>, _ text: StaticString) -> Bool {
    guard range.count == text.utf8CodeUnitCount else { return false }
    for offset in 0..<range.count where line[range.lowerBound + offset] != text.utf8Start[offset] { return false }
    return true
  }

  /// A string of printable ASCII without escapes; the range is without the quotes.
  @inline(__always)
  private mutating func string() -> Range<Int>? {
    guard consume(UInt8(ascii: "\"")) else { return nil }
    let start = index
    while current >= 0x20, current < 0x7F, current != UInt8(ascii: "\""), current != UInt8(ascii: "\\") { index += 1 }
    let end = index
    return consume(UInt8(ascii: "\"")) ? start..<end : nil
  }

  /// A member's name and the colon, with the white space around them.
  @inline(__always)
  private mutating func name() -> Range<Int>? {
    skipSpace()
    guard let name = string() else { return nil }
    skipSpace()
    guard consume(UInt8(ascii: ":")) else { return nil }
    skipSpace()
    return name
  }

  /// After a value: true if another member follows, false at the object's end, nil otherwise.
  @inline(__always)
  private mutating func another() -> Bool? {
    skipSpace()
    if consume(UInt8(ascii: ",")) { return true }
    return consume(UInt8(ascii: "}")) ? false : nil
  }

  mutating func envelope() -> Bool {
    skipSpace()
    guard consume(UInt8(ascii: "{")) else { return false }
    var seen = 0
    while true {
      guard let name = name(), let bit = envelopeMember(name), seen & bit == 0 else { return false }
      seen |= bit
      guard let more = another() else { return false }
      if !more { break }
    }
    skipSpace()
    return seen == 0b1111 && index == line.count
  }

  private mutating func envelopeMember(_ name: Range<Int>) -> Int? {
    if holds(name, "jsonrpc") {
      guard let version = string(), holds(version, "2.0") else { return nil }
      return 0b0001
    }
    if holds(name, "method") {
      guard let method = string(), holds(method, "token.get") else { return nil }
      return 0b0010
    }
    if holds(name, "params") { return params() ? 0b0100 : nil }
    if holds(name, "id") { return identifier() ? 0b1000 : nil }
    return nil
  }

  private mutating func identifier() -> Bool {
    let start = index
    if current == UInt8(ascii: "\"") {
      guard let text = string(), text.count <= PlainTokenGet.maximumID else { return false }
    } else {
      if current == UInt8(ascii: "-") { index += 1 }
      guard let digits = digits(), digits.count <= PlainTokenGet.maximumID else { return false }
    }
    id = start..<index
    return true
  }

  /// Digits without a leading zero and with no fraction or exponent behind them.
  @inline(__always)
  private mutating func digits() -> Range<Int>? {
    let start = index
    while current >= 0x30, current <= 0x39 { index += 1 }
    guard index > start, index == start + 1 || line[start] != 0x30 else { return nil }
    return start..<index
  }

  private mutating func params() -> Bool {
    guard consume(UInt8(ascii: "{")) else { return false }
    var seen = 0
    while true {
      guard let name = name() else { return false }
      let bit: Int
      if holds(name, "account") {
        guard accountName() else { return false }
        bit = 0b0001
      } else if holds(name, "min_ttl") {
        guard let seconds = seconds() else { return false }
        minTTL = seconds
        bit = 0b0010
      } else if holds(name, "timeout") {
        guard let seconds = seconds() else { return false }
        timeout = seconds
        bit = 0b0100
      } else if holds(name, "scopes") {
        guard scopeList() else { return false }
        bit = 0b1000
      } else {
        return false
      }
      guard seen & bit == 0 else { return false }
      seen |= bit
      guard let more = another() else { return false }
      if !more { break }
    }
    return seen & 0b0001 != 0
  }

  private mutating func accountName() -> Bool {
    guard let text = string(), !text.isEmpty, text.count <= PlainTokenGet.maximumAccount else { return false }
    for index in text {
      switch line[index] {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): continue
      case UInt8(ascii: "0")...UInt8(ascii: "9"): continue
      case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"), UInt8(ascii: "+"), UInt8(ascii: "-"): continue
      default: return false
      }
    }
    account = text
    return true
  }

  private mutating func seconds() -> Int64? {
    guard let digits = digits(), digits.count <= PlainTokenGet.maximumDigits else { return nil }
    var value: Int64 = 0
    for index in digits { value = value * 10 + Int64(line[index] - 0x30) }
    return value
  }

  /// An array of texts without spaces (RFC 6749 §3.3).
  private mutating func scopeList() -> Bool {
    let start = index
    guard consume(UInt8(ascii: "[")) else { return false }
    skipSpace()
    var count = 0
    while !consume(UInt8(ascii: "]")) {
      if count > 0 {
        guard consume(UInt8(ascii: ",")) else { return false }
        skipSpace()
      }
      guard let text = string(), !text.isEmpty, count < PlainTokenGet.maximumScopes else { return false }
      for index in text where line[index] == 0x20 { return false }
      count += 1
      skipSpace()
    }
    // Kept keys have a maximum length, including spaces.
    guard index - start <= PlainTokenGet.maximumScopeBytes else { return false }
    scopes = start..<index
    return true
  }
}
