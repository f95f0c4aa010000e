/// Recursive descent; the depth limit bounds the stack.
struct JSONParser {
  private let bytes: UnsafeBufferPointer<UInt8>
  private let options: JSON.Options
  private var index = 0
  private var depth = 0
  private(set) var values = 0
  private(set) var repeated: [String] = []

  init(bytes: UnsafeBufferPointer<UInt8>, options: JSON.Options) {
    self.bytes = bytes
    self.options = options
  }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  mutating func text() throws(JSONError) -> JSON {
    if bytes.count >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF {
      guard options.takesMark else { throw JSONError("byte order mark", at: 0) }
      index = 3
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
    guard values < options.values else {
      throw JSONError("more than \(options.values) values", at: index, exceeded: .values)
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
    guard depth < options.depth else {
      throw JSONError("nested deeper than \(options.depth) levels", at: index)
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
      guard depth > 1 || elements.count < options.elements else {
        throw JSONError("more than \(options.elements) elements", at: index, exceeded: .elements)
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
    var names = MemberNames(options.repeated)
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
      let same = names.insert(name, behind: members)
      guard same == nil || options.repeated == .last else { throw JSONError("the same member twice", at: start) }
      skipSpace()
      guard current == UInt8(ascii: ":") else { throw unexpected("':'") }
      index += 1
      skipSpace()
      let member = JSON.Member(name: name, value: try value())
      if let same {
        members[same] = member
        record(repeated: name)
      } else {
        members.append(member)
      }
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

  private mutating func record(repeated name: String) {
    if repeated.count < JSON.Reading.mostRepeated, !repeated.contains(name) { repeated.append(name) }
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
    let behind = index
    if UTF16.isLeadSurrogate(high), index + 1 < bytes.count, bytes[index] == UInt8(ascii: "\\"),
      bytes[index + 1] == UInt8(ascii: "u")
    {
      index += 2
      let low = try fourHexDigits()
      let value = 0x10000 + (UInt32(high) & 0x3FF) << 10 + UInt32(low) & 0x3FF
      if UTF16.isTrailSurrogate(low), let scalar = Unicode.Scalar(value) { return scalar }
    }
    guard options.repairsText else { throw JSONError("lone surrogate", at: start) }
    index = behind
    return "\u{FFFD}"
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
