import PlainText

/// Text of others, made harmless for a terminal.
enum SafeText {
  /// Control characters, line separators and invisible format characters (bidirectional overrides among them) become
  /// visible escapes, so that the text can neither control the terminal nor look like another text.
  static func line(_ text: String) -> String {
    guard !text.unicodeScalars.allSatisfy(\.isSafe) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      case _ where !scalar.isSafe: result += "\\u{" + hexadecimal(scalar.value) + "}"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  /// The same for a line of a file, whose tabs are part of its format.
  static func indented(_ text: String) -> String {
    text.split(separator: "\t", omittingEmptySubsequences: false).map { line(String($0)) }.joined(separator: "\t")
  }

  /// The lines of a text, each escaped.
  static func lines(_ text: String) -> [String] {
    text.split(separator: "\n", omittingEmptySubsequences: true).map { line(String($0)) }
  }

  /// JSON text with the same characters escaped as JSON escapes them (RFC 8259 §7): only strings can contain them.
  static func json(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: { $0 != "\n" && !$0.isSafe }) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      if scalar != "\n", !scalar.isSafe {
        for unit in String(scalar).utf16 {
          let digits = hexadecimal(UInt32(unit))
          result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  private static func hexadecimal(_ value: UInt32) -> String { String(value, radix: 16, uppercase: true) }

  /// How many columns the text takes.
  static func width(_ text: String) -> Int {
    text.reduce(0) { $0 + width($1) }
  }

  /// The text in at most so many columns; what is cut off leaves an ellipsis.
  static func fitted(_ text: String, columns: Int) -> String {
    guard width(text) > columns else { return text }
    var result = ""
    var used = 0
    for character in text {
      let next = width(character)
      guard used + next <= columns - 1 else { break }
      result.append(character)
      used += next
    }
    return result + "…"
  }

  /// The same, cut in the middle: names differ at their ends.
  static func shortened(_ text: String, columns: Int) -> String {
    guard width(text) > columns, columns > 2 else { return fitted(text, columns: columns) }
    let room = columns - 1
    let head = fitting(text, columns: (room + 1) / 2)
    let tail = fitting(String(text.reversed()), columns: room / 2)
    return head + "…" + String(tail.reversed())
  }

  private static func fitting(_ text: String, columns: Int) -> String {
    var result = ""
    var used = 0
    for character in text {
      used += width(character)
      guard used <= columns else { break }
      result.append(character)
    }
    return result
  }

  /// Blocks of Unicode's East Asian wide characters (UAX #11), roughly: terminals give them two columns.
  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
    0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F900...0x1F9FF, 0x20000...0x3FFFD,
  ]

  private static func width(_ character: Character) -> Int {
    guard let first = character.unicodeScalars.first else { return 0 }
    return first.value >= 0x1100 && wide.contains { $0.contains(first.value) } ? 2 : 1
  }

  /// Lines of at most so many columns, broken at spaces; a command in backticks stays whole where it fits on a line.
  static func wrapped(_ text: String, columns: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in words(of: text, columns: columns) {
      if line.isEmpty {
        line = word
      } else if width(line) + 1 + width(word) <= columns {
        line += " " + word
      } else {
        lines.append(line)
        line = word
      }
    }
    return line.isEmpty ? lines : lines + [line]
  }

  /// What is between two backticks is one word, unless it is too long for a line.
  private static func words(of text: String, columns: Int) -> [String] {
    var words: [String] = []
    var command: [String] = []
    for word in text.split(separator: " ").map(String.init) {
      let turns = word.count { $0 == "`" } % 2 == 1
      guard turns || !command.isEmpty else {
        words.append(word)
        continue
      }
      let isEnd = turns && !command.isEmpty
      command.append(word)
      guard isEnd else { continue }
      let whole = command.joined(separator: " ")
      words += width(whole) <= columns ? [whole] : command
      command = []
    }
    return words + command
  }
}
