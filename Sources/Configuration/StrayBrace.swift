/// A `}` where a list wants a value or its end. No TOML has that, and the parser does not refuse it but ends the process
/// (an assertion of toml++ 3.4), which a reload must never do.
struct StrayBrace: Equatable {
  var line: Int
  var column: Int

  /// The first one outside of strings and comments; nil where there is none. Behind anything else that is no TOML it may
  /// be mistaken, but there the parser has stopped already.
  static func find(in text: String) -> StrayBrace? {
    let bytes = Array(text.utf8)
    var index = 0
    var line = 1
    var lineStart = 0
    /// The last byte that means something.
    var last: UInt8 = 0
    while index < bytes.count {
      let byte = bytes[index]
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): index += 1
      case UInt8(ascii: "\n"):
        index += 1
        (line, lineStart) = (line + 1, index)
      case UInt8(ascii: "#"): index = bytes[index...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        let start = index
        index = endOfString(bytes, at: start)
        for newline in start..<index where bytes[newline] == UInt8(ascii: "\n") {
          (line, lineStart) = (line + 1, newline + 1)
        }
        last = byte
      default:
        if byte == UInt8(ascii: "}"), last == UInt8(ascii: "[") || last == UInt8(ascii: ",") {
          return StrayBrace(line: line, column: index - lineStart + 1)
        }
        last = byte
        index += 1
      }
    }
    return nil
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
