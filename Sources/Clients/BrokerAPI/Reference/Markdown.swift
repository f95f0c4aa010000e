/// Text that reads well in 80 columns, rendered or not.
enum Markdown {
  static let width = 80

  /// Filled to the width. The first line begins with `first`, the others with `rest`.
  static func fill(_ text: String, first: String = "", rest: String = "") -> String {
    var lines: [String] = []
    var line = first
    var isEmpty = true
    for word in text.split(separator: " ") {
      if !isEmpty, line.count + 1 + word.count > width {
        lines.append(line)
        line = rest
        isEmpty = true
      }
      line += isEmpty ? String(word) : " \(word)"
      isEmpty = false
    }
    lines.append(line)
    return lines.joined(separator: "\n")
  }

  static func bullet(_ text: String) -> String { fill(text, first: "- ", rest: "  ") }

  /// A table whose columns are aligned in the source as well.
  static func table(_ header: [String], _ rows: [[String]]) -> String {
    let widths = header.indices.map { column in ([header] + rows).map { $0[column].count }.max() ?? 0 }
    func line(_ cells: [String]) -> String {
      let padded = zip(cells, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
      return "| " + padded.joined(separator: " | ") + " |"
    }
    let rule = "|" + widths.map { String(repeating: "-", count: $0 + 2) }.joined(separator: "|") + "|"
    return ([line(header), rule] + rows.map(line)).joined(separator: "\n")
  }

  static func code(_ language: String, _ text: String) -> String { "```\(language)\n\(text)\n```" }

  /// The anchor of a heading that is a name in backquotes.
  static func link(_ name: String) -> String {
    let anchor = name.lowercased().filter { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }
    return "[`\(name)`](#\(anchor))"
  }

  /// Each member with its type, whether it must be there, and its meaning.
  static func members(_ members: [ObjectSchema.Member]) -> String {
    members.map { member in
      let presence = member.required ? "" : ", optional"
      return bullet("`\(member.name)` (\(member.schema.words)\(presence)): \(member.meaning)")
    }.joined(separator: "\n")
  }
}
