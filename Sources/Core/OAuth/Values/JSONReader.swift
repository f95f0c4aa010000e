/// Reads one JSON text (RFC 8259) strictly. Each method returns nil at the first byte that the grammar does not allow.
struct JSONReader {
  /// The maximum number of repeated member names to remember.
  private static let mostRepeated = 8

  private let bytes: [UInt8]
  /// Whether ``JSONValue/lenient(_:)`` is the caller.
  private let isLenient: Bool
  private var position = 0
  private var depth = 0
  private(set) var repeated: [String] = []

  init(bytes: [UInt8], isLenient: Bool = false) {
    self.bytes = bytes
    self.isLenient = isLenient
  }

  mutating func text() -> JSON? {
    // Some servers put a byte order mark before the text; RFC 8259 §8.1 lets a reader ignore it.
    if bytes.starts(with: [0xef, 0xbb, 0xbf]) { position = 3 }
    guard let value = value() else { return nil }
    skipSpace()
    return position == bytes.count ? value : nil
  }

  private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { position += 1 }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard next == UInt8(ascii: character) else { return false }
    position += 1
    return true
  }

  private mutating func value() -> JSON? {
    skipSpace()
    switch next {
    case UInt8(ascii: "{"): return nested { reader in reader.object() }
    case UInt8(ascii: "["): return nested { reader in reader.array() }
    case UInt8(ascii: "\""): return string().map(JSON.string)
    case UInt8(ascii: "t"): return word("true", .bool(true))
    case UInt8(ascii: "f"): return word("false", .bool(false))
    case UInt8(ascii: "n"): return word("null", .null)
    default: return number()
    }
  }

  private mutating func nested(_ read: (inout JSONReader) -> JSON?) -> JSON? {
    guard depth < JSON.maximumDepth else { return nil }
    depth += 1
    position += 1
    defer { depth -= 1 }
    return read(&self)
  }

  private mutating func word(_ word: String, _ value: JSON) -> JSON? {
    guard bytes[position...].starts(with: word.utf8) else { return nil }
    position += word.utf8.count
    return value
  }

  private mutating func array() -> JSON? {
    var values: [JSON] = []
    skipSpace()
    if take("]") { return .array(values) }
    repeat {
      guard let element = value() else { return nil }
      values.append(element)
      skipSpace()
    } while take(",")
    return take("]") ? .array(values) : nil
  }

  private mutating func object() -> JSON? {
    var members: [String: JSON] = [:]
    skipSpace()
    if take("}") { return .object(members) }
    repeat {
      skipSpace()
      guard let name = string() else { return nil }
      skipSpace()
      guard take(":"), let value = value() else { return nil }
      if members.updateValue(value, forKey: name) != nil {
        guard isLenient else { return nil }
        if repeated.count < Self.mostRepeated, !repeated.contains(name) { repeated.append(name) }
      }
      skipSpace()
    } while take(",")
    return take("}") ? .object(members) : nil
  }

  private mutating func digits() -> Int {
    let start = position
    while let byte = next, (0x30...0x39).contains(byte) { position += 1 }
    return position - start
  }

  private mutating func number() -> JSON? {
    let start = position
    _ = take("-")
    let leading = next
    let count = digits()
    guard count == 1 || (count > 1 && leading != 0x30) else { return nil }
    if take("."), digits() == 0 { return nil }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      if digits() == 0 { return nil }
    }
    return .number(String(decoding: bytes[start..<position], as: UTF8.self))
  }

  private mutating func string() -> String? {
    guard take("\"") else { return nil }
    var content: [UInt8] = []
    while let byte = next {
      position += 1
      switch byte {
      case UInt8(ascii: "\""):
        return isLenient ? String(decoding: content, as: UTF8.self) : String(validating: content, as: UTF8.self)
      case UInt8(ascii: "\\"):
        guard let scalar = escape() else { return nil }
        content.append(contentsOf: UTF8.encode(scalar)!)
      case 0..<0x20: return nil
      default: content.append(byte)
      }
    }
    return nil
  }

  private mutating func escape() -> Unicode.Scalar? {
    guard let byte = next else { return nil }
    position += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{08}"
    case UInt8(ascii: "f"): return "\u{0c}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): return unicodeEscape()
    default: return nil
    }
  }

  private mutating func unicodeEscape() -> Unicode.Scalar? {
    guard let unit = codeUnit() else { return nil }
    let unpaired: Unicode.Scalar? = isLenient ? "\u{FFFD}" : nil
    guard UTF16.isLeadSurrogate(unit) else { return Unicode.Scalar(unit) ?? unpaired }
    let next = position
    guard take("\\"), take("u"), let trail = codeUnit(), UTF16.isTrailSurrogate(trail) else {
      position = next
      return unpaired
    }
    return Unicode.Scalar(0x10000 + (UInt32(unit & 0x3ff) << 10) + UInt32(trail & 0x3ff))
  }

  private mutating func codeUnit() -> UInt16? {
    guard position + 4 <= bytes.count else { return nil }
    var unit: UInt16 = 0
    for byte in bytes[position..<position + 4] {
      guard let digit = hexDigit(byte) else { return nil }
      unit = unit << 4 | UInt16(digit)
    }
    position += 4
    return unit
  }
}

/// The value of a hexadecimal digit.
func hexDigit(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x41...0x46: byte - 0x41 + 10
  case 0x61...0x66: byte - 0x61 + 10
  default: nil
  }
}
