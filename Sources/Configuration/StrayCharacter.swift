/// A character that no TOML has in its place: a control character, one beyond ASCII outside of strings and comments, a
/// `}` where a list wants a value or its end, or what cannot begin a table's name. The parser (toml++ 3.4) does not refuse some of these but ends the process
/// with an assertion, which a reload must never do.
struct StrayCharacter: Equatable {
  /// For people: "unexpected }".
  var message: String
  var line: Int
  var column: Int

  /// The first one; nil where there is none. Behind anything else that is no TOML it may be mistaken, but there the
  /// parser would have stopped too.
  static func find(in text: String) -> StrayCharacter? {
    let bytes = Array(text.utf8)
    var index = 0
    var line = 1
    var lineStart = 0
    /// The last byte that means something.
    var last = UInt8(ascii: "\n")
    /// Of lists and inline tables.
    var depth = 0
    func stray(_ what: String, at index: Int) -> StrayCharacter {
      StrayCharacter(message: "unexpected \(what)", line: line, column: index - lineStart + 1)
    }
    while index < bytes.count {
      let byte = bytes[index]
      if let control = control(bytes, at: index) { return stray(control, at: index) }
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): index += 1
      case UInt8(ascii: "\n"):
        index += 1
        (line, lineStart) = (line + 1, index)
        if depth == 0 { last = byte }
      case UInt8(ascii: "#"):
        while index < bytes.count, bytes[index] != UInt8(ascii: "\n") {
          if let control = control(bytes, at: index) { return stray(control, at: index) }
          index += 1
        }
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        let start = index
        index = endOfString(bytes, at: start)
        for position in start..<index {
          if let control = control(bytes, at: position) { return stray(control, at: position) }
          if bytes[position] == UInt8(ascii: "\n") { (line, lineStart) = (line + 1, position + 1) }
        }
        last = byte
      default:
        if byte == UInt8(ascii: "}"), last == UInt8(ascii: "[") || last == UInt8(ascii: ",") {
          return stray("}", at: index)
        }
        if byte == UInt8(ascii: "["), last == UInt8(ascii: "\n"), let found = notAName(bytes, behind: index) {
          return stray(control(bytes, at: found) ?? name(of: bytes[found]), at: found)
        }
        switch byte {
        case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
        case UInt8(ascii: "]"), UInt8(ascii: "}"): depth = max(0, depth - 1)
        default: break
        }
        if byte >= 0x80 { return stray("character beyond ASCII: put it in quotes", at: index) }
        last = byte
        index += 1
      }
    }
    return nil
  }

  /// Where a table's header has something else than a name behind its brackets.
  private static func notAName(_ bytes: [UInt8], behind bracket: Int) -> Int? {
    var index = bracket + 1
    if index < bytes.count, bytes[index] == UInt8(ascii: "[") { index += 1 }
    while index < bytes.count, bytes[index] == UInt8(ascii: " ") || bytes[index] == UInt8(ascii: "\t") { index += 1 }
    guard index < bytes.count else { return nil }
    switch bytes[index] {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "\""),
      UInt8(ascii: "'"):
      return nil
    default: return index
    }
  }

  private static func name(of byte: UInt8) -> String {
    switch byte {
    case UInt8(ascii: "\n"), UInt8(ascii: "\r"): "end of the line"
    case 0x21..<0x7F: String(UnicodeScalar(byte))
    default: "character beyond ASCII: put it in quotes"
    }
  }

  /// TOML 1.0: a tab, and line ends. The name of anything else, as `U+0002`.
  private static func control(_ bytes: [UInt8], at index: Int) -> String? {
    let byte = bytes[index]
    guard byte < 0x20 || byte == 0x7F else { return nil }
    switch byte {
    case UInt8(ascii: "\t"), UInt8(ascii: "\n"): return nil
    case UInt8(ascii: "\r") where bytes[(index + 1)...].first == UInt8(ascii: "\n"): return nil
    default:
      let digits = String(byte, radix: 16, uppercase: true)
      return "control character U+" + String(repeating: "0", count: 4 - digits.count) + digits
    }
  }

  /// Behind the closing quotes; one that is not closed ends before its line's end, or with the text.
  private static func endOfString(_ bytes: [UInt8], at start: Int) -> Int {
    let quote = bytes[start]
    let isLong = bytes[start...].prefix(3).count == 3 && bytes[start..<start + 3].allSatisfy { $0 == quote }
    var index = start + (isLong ? 3 : 1)
    while index < bytes.count {
      let run = bytes[index...].prefix { $0 == quote }.count
      if isLong ? run >= 3 : run >= 1 { return index + (isLong ? run : 1) }
      if !isLong, bytes[index] == UInt8(ascii: "\n") { return index }
      let isEscape = quote == UInt8(ascii: "\"") && bytes[index] == UInt8(ascii: "\\")
      index += max(run, isEscape ? 2 : 1)
    }
    return bytes.count
  }
}
