/// The first character of a text that no TOML has in its place: a control character, one beyond ASCII outside of
/// strings and comments, a bracket that closes nothing, a value that is neither number nor boolean nor in quotes (dates
/// and times too: no setting is one). The parser (toml++ 3.4) does not refuse some of these but ends the process with an
/// assertion, which a reload must never do: so it only sees what begins well.
struct StrayCharacter: Equatable {
  /// For people: "unexpected }".
  var message: String
  var line: Int
  var column: Int

  /// Nil where there is none; the parser may still find the text wrong.
  static func find(in text: String) -> StrayCharacter? {
    var scan = Scan(bytes: Array(text.utf8))
    return scan.firstStray()
  }
}

/// A walk over a TOML document that knows no more than what may come next.
private struct Scan {
  let bytes: [UInt8]
  private var index = 0
  private var line = 1
  private var lineStart = 0
  private var before = Before.lineStart
  private var open: [Container] = []

  /// What was read last, white space and comments aside.
  private enum Before { case lineStart, name, dot, equals, opening, comma, value }

  private enum Container: Equatable {
    case array, table
    /// Of one or two brackets.
    case header(Int)
  }

  init(bytes: [UInt8]) { self.bytes = bytes }

  mutating func firstStray() -> StrayCharacter? {
    while index < bytes.count {
      if let stray = control(at: index) ?? next() { return stray }
    }
    return nil
  }

  private var wantsValue: Bool {
    before == .equals || open.last == .array && (before == .opening || before == .comma)
  }

  private var wantsName: Bool {
    switch open.last {
    case nil: before == .lineStart || before == .dot
    case .array: false
    case .table: before == .opening || before == .comma || before == .dot
    case .header: before == .opening || before == .dot
    }
  }

  private mutating func next() -> StrayCharacter? {
    let byte = bytes[index]
    switch byte {
    case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): index += 1
    case UInt8(ascii: "\n"): return endLine()
    case UInt8(ascii: "#"):
      while index < bytes.count, bytes[index] != UInt8(ascii: "\n") {
        if let control = control(at: index) { return control }
        index += 1
      }
    case UInt8(ascii: "\""), UInt8(ascii: "'"): return string()
    case UInt8(ascii: "["):
      if wantsValue { return take(.opening, opening: .array) }
      guard open.isEmpty, before == .lineStart else { return stray() }
      let width = index + 1 < bytes.count && bytes[index + 1] == byte ? 2 : 1
      return take(.opening, opening: .header(width), length: width)
    case UInt8(ascii: "{"): return wantsValue ? take(.opening, opening: .table) : stray()
    case UInt8(ascii: "]"), UInt8(ascii: "}"): return close()
    case UInt8(ascii: ","):
      guard before == .value, open.last == .array || open.last == .table else { return stray() }
      return take(.comma)
    case UInt8(ascii: "."): return before == .name ? take(.dot) : stray()
    case UInt8(ascii: "="):
      guard before == .name, open.last == nil || open.last == .table else { return stray() }
      return take(.equals)
    default: return word()
    }
    return nil
  }

  private mutating func take(_ what: Before, opening: Container? = nil, length: Int = 1) -> StrayCharacter? {
    index += length
    before = what
    if let opening { open.append(opening) }
    return nil
  }

  private mutating func endLine() -> StrayCharacter? {
    switch open.last {
    case nil where before == .lineStart || before == .value: before = .lineStart
    case .array where before != .equals: break
    default: return stray()
    }
    index += 1
    (line, lineStart) = (line + 1, index)
    return nil
  }

  /// `]` and `}`: an array may end behind a comma, an inline table may not (TOML 1.0).
  private mutating func close() -> StrayCharacter? {
    let bracket = bytes[index]
    var length = 1
    switch open.last {
    case .array where bracket == UInt8(ascii: "]"): break
    case .table where bracket == UInt8(ascii: "}") && (before == .opening || before == .value): break
    case .header(let width) where before == .name:
      guard bytes[index...].prefix(width).elementsEqual(repeatElement(UInt8(ascii: "]"), count: width)) else {
        return stray()
      }
      length = width
    default: return stray()
    }
    open.removeLast()
    return take(.value, length: length)
  }

  /// A name without quotes, a number or a boolean.
  private mutating func word() -> StrayCharacter? {
    let rest = bytes[index...]
    if wantsName {
      let name = rest.prefix(while: Self.isOfName)
      return name.isEmpty ? stray() : take(.name, length: name.count)
    }
    guard wantsValue else { return stray() }
    let value = rest.prefix { !" \t\r\n,]}#".utf8.contains($0) }
    if let odd = value.indices.first(where: { bytes[$0] >= 0x80 || control(at: $0) != nil }) {
      if let control = control(at: odd) { return control }
      index = odd
      return stray()
    }
    let text = String(decoding: value, as: UTF8.self)
    guard ["true", "false"].contains(text) || text.wholeMatch(of: Self.number) != nil else {
      return stray("unexpected value: texts and dates need quotes")
    }
    return take(.value, length: value.count)
  }

  private mutating func string() -> StrayCharacter? {
    let isValue = wantsValue
    guard isValue || wantsName else { return stray() }
    let quote = bytes[index]
    let isLong = bytes[index...].prefix(3).elementsEqual(repeatElement(quote, count: 3))
    if isLong, !isValue { return stray() }
    var end = index + (isLong ? 3 : 1)
    while end < bytes.count {
      if let control = control(at: end) { return control }
      let run = bytes[end...].prefix { $0 == quote }.count
      if isLong ? run >= 3 : run >= 1 {
        end += isLong ? run : 1
        break
      }
      if bytes[end] == UInt8(ascii: "\n") {
        guard isLong else { break }
        (line, lineStart) = (line + 1, end + 1)
      }
      let isEscape = quote == UInt8(ascii: "\"") && bytes[end] == UInt8(ascii: "\\") && control(at: end + 1) == nil
      end += isEscape && end + 1 < bytes.count && bytes[end + 1] != UInt8(ascii: "\n") ? 2 : max(run, 1)
    }
    return take(isValue ? .value : .name, length: end - index)
  }

  private func stray(_ message: String? = nil) -> StrayCharacter {
    let byte = bytes[index]
    let what =
      switch byte {
      case UInt8(ascii: "\n"): "end of the line"
      case 0x21..<0x7F: String(UnicodeScalar(byte))
      default: "character beyond ASCII: put it in quotes"
      }
    return StrayCharacter(message: message ?? "unexpected \(what)", line: line, column: index - lineStart + 1)
  }

  /// TOML 1.0: a tab, and line ends. Of anything else the code, as `U+0002`.
  private func control(at position: Int) -> StrayCharacter? {
    guard position < bytes.count, bytes[position] < 0x20 || bytes[position] == 0x7F else { return nil }
    switch bytes[position] {
    case UInt8(ascii: "\t"), UInt8(ascii: "\n"): return nil
    case UInt8(ascii: "\r") where bytes[(position + 1)...].first == UInt8(ascii: "\n"): return nil
    default:
      let digits = String(bytes[position], radix: 16, uppercase: true)
      let code = "U+" + String(repeating: "0", count: 4 - digits.count) + digits
      return StrayCharacter(
        message: "unexpected control character \(code)", line: line, column: position - lineStart + 1)
    }
  }

  private static func isOfName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
      true
    default: false
    }
  }

  /// An integer, one in hexadecimal, a float.
  private static var number: Regex<Substring> {
    /[+\-]?(?:inf|nan|[0-9](?:_?[0-9])*(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+\-]?[0-9](?:_?[0-9])*)?)|0x[0-9A-Fa-f]+/
  }
}
