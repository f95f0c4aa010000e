import CToml
import OAuth

/// Why a text has no tree. Its words quote keys and single characters of the text and no more: a value may be a secret.
enum SyntaxError: Error {
  case escapedNUL(line: Int)
  /// A duplicate key or table. The position is where toml++ noticed it.
  case repeated(key: String, line: Int, column: Int)
  /// Without a message where an assertion of toml++ failed; without a position where it is unknown.
  case unexpected(message: String?, isInValue: Bool, line: Int, column: Int)
}

extension SyntaxError {
  /// Where toml++ says it is when it meets a text without quotes.
  private static let values: Set<Substring> = [
    "value", "boolean", "floating-point", "hexadecimal floating-point", "decimal integer", "hexadecimal integer",
    "octal integer", "binary integer", "date", "time", "date-time", "date-time offset",
  ]

  init(_ error: ctoml_error) {
    let (line, column) = (Int(error.line), Int(error.column))
    // "Error while parsing string: unknown escape sequence"
    let parts = error.message.string.split(separator: ": ", maxSplits: 1)
    guard let message = parts.last else {
      self = .unexpected(message: nil, isInValue: false, line: line, column: column)
      return
    }
    // The quoted part, from the first quote to the last.
    let quoted = message.split(separator: "'", maxSplits: 1).dropFirst().first ?? ""
    if message.hasPrefix("cannot redefine ") || message.hasPrefix("cannot insert "), let end = quoted.lastIndex(of: "'")
    {
      self = .repeated(key: String(quoted[..<end]), line: line, column: column)
      return
    }
    let place = parts[0].dropFirst("Error while parsing ".count)
    self = .unexpected(
      message: String(message), isInValue: Self.values.contains(place), line: line, column: column)
  }

  func record(in text: String, file: String, report: inout ConfigurationReport) {
    switch self {
    case .escapedNUL(let line):
      report.problem("has an escaped NUL (\\u0000)", at: FileLocation(file: file, line: line), suggestion: "remove it")
    case .repeated(let written, let line, let column):
      let first = First.find(line: line, column: column, in: text)
      report.problem(
        "\"\((first?.key ?? written).printable(limit: 64))\" is set twice", at: FileLocation(file: file, line: line),
        suggestion: first.map { "the first is in line \($0.line)" })
    case .unexpected(let message, let isInValue, let line, let column):
      guard line > 0 else { return report.problem("is not valid TOML", at: FileLocation(file: file)) }
      let found = Found(line: line, column: column, in: text)
      report.problem(
        "is not valid TOML: \(Self.words(message, isInValue: isInValue, found: found))",
        at: FileLocation(file: file, line: line),
        column: column)
    }
  }

  private static func words(_ message: String?, isInValue: Bool, found: Found) -> String {
    guard let message else { return "unexpected \(found.name)" }
    let isExpecting = message.hasPrefix("expected ")
    if isInValue, isExpecting || ["could not determine value type", "encountered end-of-file"].contains(message) {
      return "unexpected value: texts and dates need quotes"
    }
    if isExpecting, !found.isForeign {
      let expected = message.split(separator: ", saw ", maxSplits: 1).first ?? ""
      return "unexpected \(found.name), \(expected)"
    }
    if isExpecting || ["control character", "end-of-file"].contains(where: message.contains) {
      return "unexpected \(found.name)"
    }
    // A quotation of the file, as in "unknown escape sequence '\q'".
    guard let start = message.firstIndex(of: "'"), let end = message.lastIndex(of: "'") else { return message }
    return "\(message[..<start])…\(message[message.index(after: end)...])"
  }
}

/// The character where toml++ stopped.
private struct Found {
  /// Nil at the end of the text.
  var scalar: Unicode.Scalar?

  init(line: Int, column: Int, in text: String) {
    let lines = text.unicodeScalars.split(separator: "\n", maxSplits: line, omittingEmptySubsequences: false)
    guard line <= lines.count else { return }
    // toml++ counts no byte order mark.
    let mark = line == 1 && lines[0].first == "\u{FEFF}" ? 1 : 0
    let rest = lines[line - 1].dropFirst(mark + column - 1)
    scalar = rest.first ?? (line < lines.count && lines[line - 1].count >= mark + column - 1 ? "\n" : nil)
  }

  var isForeign: Bool { scalar.map { !$0.isASCII } ?? false }

  var name: String {
    switch scalar {
    case nil: return "end of the file"
    case "\n", "\r": return "end of the line"
    case " ": return "space"
    case "\t": return "tab"
    case _? where isForeign: return "character beyond ASCII: put it in quotes"
    case let scalar? where scalar.value > 0x20 && scalar.value < 0x7F: return String(scalar)
    case let scalar?:
      let digits = String(scalar.value, radix: 16, uppercase: true)
      return "control character U+" + String(repeating: "0", count: 4 - digits.count) + digits
    }
  }
}

/// The position of the first definition of a key or table that is defined again.
private enum First {
  /// A key that is set behind the text before the statement: in the table that the statement would add to.
  private static let mark = "the end of the text before"

  static func find(line: Int, column: Int, in text: String) -> (key: String, line: Int)? {
    let lines = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard line <= lines.count else { return nil }
    let statement = lines[line - 1]
    let isHeader = statement.drop { $0 == " " || $0 == "\t" }.first == "["
    // The key of a pair: toml++ stops before the value.
    let alone = isHeader ? statement : String(statement.unicodeScalars.prefix(column - 1)) + "0"
    let before = lines[..<(line - 1)] + ["\"\(mark)\" = 0"]
    guard let root = try? TOMLDocument.read(before.joined(separator: "\n"), file: ""),
      var repeated = try? TOMLDocument.read(alone, file: ""), var table = isHeader ? root : holder(of: mark, in: root)
    else { return nil }
    var found: (key: String, line: Int)?
    while let (key, next) = repeated.first, let item = table[key] {
      found = (key, item.place.line ?? line)
      repeated = inner(next) ?? [:]
      table = inner(item) ?? [:]
    }
    return found
  }

  /// The meaning of a header's name: a table or a list of tables.
  private static func inner(_ item: Item) -> [String: Item]? {
    switch item.value {
    case .table(let table): table
    case .list(let list): list.last?.table
    case .text, .number, .fraction, .flag, .time: nil
    }
  }

  private static func holder(of key: String, in table: [String: Item]) -> [String: Item]? {
    if table[key] != nil { return table }
    for item in table.values {
      if let inner = inner(item), let found = holder(of: key, in: inner) { return found }
    }
    return nil
  }
}
