/// Why a text is no JSON, and where.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  /// The byte at which the text stops being JSON, counted from 0.
  public var offset: Int
  /// The bound that the text exceeds; nil: it is no JSON.
  public var exceeded: JSON.Bound?

  public init(_ message: String, at offset: Int, exceeded: JSON.Bound? = nil) {
    self.message = message
    self.offset = offset
    self.exceeded = exceeded
  }

  public var description: String { "\(message) at byte \(offset)" }
}

extension JSON {
  /// Arrays and objects may be nested this deep.
  public static let maximumDepth = 64

  /// The limits of building a text. A value takes many times its bytes: `[1,1,…]` of 256 KiB is 131,000 values.
  public struct Bounds: Sendable, Equatable {
    /// Values in the text, those inside of others too.
    public var values = Int.max
    /// Elements of the outermost array.
    public var elements = Int.max

    public init(values: Int = .max, elements: Int = .max) {
      self.values = values
      self.elements = elements
    }
  }

  public enum Bound: Sendable, Equatable {
    case values
    case elements
  }

  /// Parses one JSON text (RFC 8259), strictly: valid UTF-8, no byte order mark, no lone surrogates, no name twice in an
  /// object, at most ``maximumDepth`` levels, and nothing but white space around it.
  public static func parse(_ bytes: some Collection<UInt8>) throws(JSONError) -> JSON {
    var values = 0
    return try parse(bytes, within: Bounds(), values: &values)
  }

  /// The same; ends at the first value beyond the bounds.
  ///
  /// - Parameter values: how many were built.
  static func parse(
    _ bytes: some Collection<UInt8>, within bounds: Bounds, values: inout Int
  ) throws(JSONError) -> JSON {
    let (outcome, count) =
      bytes.withContiguousStorageIfAvailable { Self.outcome(of: $0, bounds) }
      ?? Array(bytes).withUnsafeBufferPointer { Self.outcome(of: $0, bounds) }
    values = count
    return try outcome.get()
  }

  private static func outcome(
    of buffer: UnsafeBufferPointer<UInt8>, _ bounds: Bounds
  ) -> (Result<JSON, JSONError>, values: Int) {
    if let offset = firstInvalidUTF8(buffer) { return (.failure(JSONError("invalid UTF-8", at: offset)), 0) }
    var parser = JSONParser(bytes: buffer, bounds: bounds)
    do throws(JSONError) {
      return (.success(try parser.text()), parser.values)
    } catch {
      return (.failure(error), parser.values)
    }
  }
}

/// The offset of the first byte that is not well-formed UTF-8 (Unicode 15 table 3-7; no surrogates, no overlong forms),
/// or nil.
func firstInvalidUTF8(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
  var index = 0
  while index < bytes.count {
    let lead = bytes[index]
    if lead < 0x80 {
      index += 1
      continue
    }
    let second: ClosedRange<UInt8>
    let length: Int
    switch lead {
    case 0xC2...0xDF: (length, second) = (2, 0x80...0xBF)
    case 0xE0: (length, second) = (3, 0xA0...0xBF)
    case 0xED: (length, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: (length, second) = (3, 0x80...0xBF)
    case 0xF0: (length, second) = (4, 0x90...0xBF)
    case 0xF1...0xF3: (length, second) = (4, 0x80...0xBF)
    case 0xF4: (length, second) = (4, 0x80...0x8F)
    default: return index
    }
    guard index + length <= bytes.count, second.contains(bytes[index + 1]) else { return index }
    for next in bytes[(index + 2)..<(index + length)] where next & 0xC0 != 0x80 { return index }
    index += length
  }
  return nil
}

/// The names of an object, compared byte by byte (RFC 8259 §8.3); Swift's String would take canonical equivalents for equal.
private struct Names {
  /// Up to here a comparison with each takes less time than hashing.
  private static let few = 16
  private var hashed: Set<[UInt8]> = []

  /// False: the object has the name already.
  mutating func insert(_ name: String, after members: [JSON.Member]) -> Bool {
    if members.count < Self.few {
      return !members.contains { $0.name.utf8.count == name.utf8.count && $0.name.utf8.elementsEqual(name.utf8) }
    }
    if hashed.isEmpty { hashed = Set(members.map { Array($0.name.utf8) }) }
    return hashed.insert(Array(name.utf8)).inserted
  }
}

/// Recursive descent; the depth limit bounds the stack. The bytes are valid UTF-8.
private struct JSONParser {
  let bytes: UnsafeBufferPointer<UInt8>
  let bounds: JSON.Bounds
  var index = 0
  var depth = 0
  var values = 0

  init(bytes: UnsafeBufferPointer<UInt8>, bounds: JSON.Bounds) {
    self.bytes = bytes
    self.bounds = bounds
  }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  mutating func text() throws(JSONError) -> JSON {
    if bytes.count >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF {
      throw JSONError("byte order mark", at: 0)
    }
    skipSpace()
    let value = try value()
    skipSpace()
    guard index == bytes.count else { throw JSONError("text after the value", at: index) }
    return value
  }

  private mutating func skipSpace() {
    while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
  }

  private func unexpected(_ wanted: String) -> JSONError {
    guard let byte = current else { return JSONError("the text ends where \(wanted) is expected", at: index) }
    let found = byte > 0x20 && byte < 0x7F ? "'\(Character(Unicode.Scalar(byte)))'" : "byte 0x\(hex(byte))"
    return JSONError("unexpected \(found), expected \(wanted)", at: index)
  }

  private func hex(_ byte: UInt8) -> String {
    (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
  }

  private mutating func value() throws(JSONError) -> JSON {
    guard values < bounds.values else {
      throw JSONError("more than \(bounds.values) values", at: index, exceeded: .values)
    }
    values += 1
    switch current ?? 0 {
    case UInt8(ascii: "{"): return try nested { parser throws(JSONError) in try parser.object() }
    case UInt8(ascii: "["): return try nested { parser throws(JSONError) in try parser.array() }
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
    case UInt8(ascii: "t"): return try literal("true", .bool(true))
    case UInt8(ascii: "f"): return try literal("false", .bool(false))
    case UInt8(ascii: "n"): return try literal("null", .null)
    default: throw unexpected("a value")
    }
  }

  private mutating func nested(_ body: (inout JSONParser) throws(JSONError) -> JSON) throws(JSONError) -> JSON {
    guard depth < JSON.maximumDepth else {
      throw JSONError("nested deeper than \(JSON.maximumDepth) levels", at: index)
    }
    depth += 1
    let value = try body(&self)
    depth -= 1
    return value
  }

  private mutating func literal(_ text: StaticString, _ value: JSON) throws(JSONError) -> JSON {
    let count = text.utf8CodeUnitCount
    guard index + count <= bytes.count, (0..<count).allSatisfy({ bytes[index + $0] == text.utf8Start[$0] }) else {
      throw unexpected("\(text)")
    }
    index += count
    return value
  }

  private mutating func array() throws(JSONError) -> JSON {
    index += 1
    var elements: [JSON] = []
    skipSpace()
    if current == UInt8(ascii: "]") {
      index += 1
      return .array(elements)
    }
    while true {
      skipSpace()
      guard depth > 1 || elements.count < bounds.elements else {
        throw JSONError("more than \(bounds.elements) elements", at: index, exceeded: .elements)
      }
      elements.append(try value())
      skipSpace()
      switch current {
      case UInt8(ascii: ","): index += 1
      case UInt8(ascii: "]"):
        index += 1
        return .array(elements)
      default: throw unexpected("',' or ']'")
      }
    }
  }

  private mutating func object() throws(JSONError) -> JSON {
    index += 1
    var members: [JSON.Member] = []
    var names = Names()
    skipSpace()
    if current == UInt8(ascii: "}") {
      index += 1
      return .object(members)
    }
    while true {
      skipSpace()
      let start = index
      guard current == UInt8(ascii: "\"") else { throw unexpected("a member's name") }
      let name = try string()
      guard names.insert(name, after: members) else { throw JSONError("the same member twice", at: start) }
      skipSpace()
      guard current == UInt8(ascii: ":") else { throw unexpected("':'") }
      index += 1
      skipSpace()
      members.append(JSON.Member(name: name, value: try value()))
      skipSpace()
      switch current {
      case UInt8(ascii: ","): index += 1
      case UInt8(ascii: "}"):
        index += 1
        return .object(members)
      default: throw unexpected("',' or '}'")
      }
    }
  }

  private mutating func number() throws(JSONError) -> String {
    let start = index
    if current == UInt8(ascii: "-") { index += 1 }
    if current == UInt8(ascii: "0") { index += 1 } else { try digits() }
    if current == UInt8(ascii: ".") {
      index += 1
      try digits()
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      index += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { index += 1 }
      try digits()
    }
    return String(decoding: bytes[start..<index], as: UTF8.self)
  }

  private mutating func digits() throws(JSONError) {
    let start = index
    while let byte = current, byte >= 0x30, byte <= 0x39 { index += 1 }
    if index == start { throw unexpected("a digit") }
  }

  private mutating func string() throws(JSONError) -> String {
    index += 1
    let start = index
    while let byte = current, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\"), byte >= 0x20 { index += 1 }
    var text = bytes[start..<index]
    if current == UInt8(ascii: "\"") {
      index += 1
      return String(decoding: text, as: UTF8.self)
    }
    var unescaped = Array(text)
    while let byte = current {
      switch byte {
      case UInt8(ascii: "\""):
        index += 1
        return String(decoding: unescaped, as: UTF8.self)
      case UInt8(ascii: "\\"): try escape(into: &unescaped)
      case 0..<0x20: throw JSONError("raw control character 0x\(hex(byte)) in a string", at: index)
      default:
        let start = index
        while let byte = current, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\"), byte >= 0x20 { index += 1 }
        text = bytes[start..<index]
        unescaped.append(contentsOf: text)
      }
    }
    throw JSONError("the text ends within a string", at: index)
  }

  private mutating func escape(into unescaped: inout [UInt8]) throws(JSONError) {
    let start = index
    index += 1
    switch current {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(bytes[index])
    case UInt8(ascii: "b"): unescaped.append(0x08)
    case UInt8(ascii: "f"): unescaped.append(0x0C)
    case UInt8(ascii: "n"): unescaped.append(0x0A)
    case UInt8(ascii: "r"): unescaped.append(0x0D)
    case UInt8(ascii: "t"): unescaped.append(0x09)
    case UInt8(ascii: "u"):
      index += 1
      unescaped.append(contentsOf: String(Character(try scalar(escapedAt: start))).utf8)
      return
    default: throw unexpected("an escape")
    }
    index += 1
  }

  /// Behind `\u`: four digits, or a surrogate pair (RFC 8259 §7).
  private mutating func scalar(escapedAt start: Int) throws(JSONError) -> Unicode.Scalar {
    let high = try fourHexDigits()
    if let scalar = Unicode.Scalar(high) { return scalar }
    guard high < 0xDC00, index + 1 < bytes.count, bytes[index] == UInt8(ascii: "\\"),
      bytes[index + 1] == UInt8(ascii: "u")
    else { throw JSONError("lone surrogate", at: start) }
    index += 2
    let low = try fourHexDigits()
    guard (0xDC00...0xDFFF).contains(low),
      let scalar = Unicode.Scalar(0x10000 + (UInt32(high) - 0xD800) << 10 + (UInt32(low) - 0xDC00))
    else { throw JSONError("lone surrogate", at: start) }
    return scalar
  }

  private mutating func fourHexDigits() throws(JSONError) -> UInt16 {
    var value: UInt16 = 0
    for _ in 0..<4 {
      guard let byte = current, let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else {
        throw unexpected("a hexadecimal digit")
      }
      value = value << 4 | UInt16(digit)
      index += 1
    }
    return value
  }
}
