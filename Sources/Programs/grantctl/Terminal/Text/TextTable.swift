/// A piece of text and its tone, which selects its colour.
struct Cell: Sendable, Equatable, ExpressibleByStringInterpolation {
  enum Tone: Sendable { case plain, good, attention, bad }

  /// Escaped for terminals.
  let text: String
  let tone: Tone

  init(_ text: String, _ tone: Tone = .plain) {
    self.text = SafeText.line(text)
    self.tone = tone
  }

  init(stringLiteral value: String) { self.init(value) }

  func padded(to columns: Int, colour: Bool) -> String {
    let space = String(repeating: " ", count: max(0, columns - SafeText.width(text)))
    return Self.coloured(text, tone, colour) + space
  }

  private static func coloured(_ text: String, _ tone: Tone, _ colour: Bool) -> String {
    let code: String? =
      switch tone {
      case .plain: nil
      case .good: "32"
      case .attention: "33"
      case .bad: "31"
      }
    guard colour, let code else { return text }
    return "\u{1B}[\(code)m\(text)\u{1B}[0m"
  }
}

/// Rows in aligned columns, each with notes below it.
struct TextTable {
  struct Row {
    var cells: [Cell]
    /// Printed below the row, indented.
    var notes: [String] = []
  }

  /// Between two columns.
  private static let gap = 2
  /// A column is not made narrower than this.
  private static let narrowest = 8
  private static let noteIndent = "    "

  var titles: [String]
  /// The columns that shrink if the terminal is too narrow, in this order.
  var shrinkable: [Int]
  var rows: [Row]
  /// Columns at the right that are left out if the terminal is too narrow in any case.
  var droppable = 0

  /// `width`: the terminal's columns; nil: as wide as it takes, with notes of 80 columns.
  func lines(width: Int?, colour: Bool) -> [String] {
    let widths = self.widths(within: width)
    if let width, droppable > 0, titles.count > 1,
      widths.reduce(0, +) + Self.gap * (widths.count - 1) > width
    {
      var narrower = self
      narrower.droppable -= 1
      narrower.titles.removeLast()
      for index in rows.indices { narrower.rows[index].cells.removeLast() }
      narrower.shrinkable.removeAll { $0 >= narrower.titles.count }
      return narrower.lines(width: width, colour: colour)
    }
    var lines = [line(titles.map { Cell($0) }, widths, colour: false)]
    for row in rows {
      lines.append(line(row.cells, widths, colour: colour))
      for note in row.notes.map(SafeText.line) {
        let columns = max(20, (width ?? 80) - Self.noteIndent.count)
        lines += SafeText.wrapped(note, columns: columns).map { Self.noteIndent + $0 }
      }
    }
    return lines
  }

  private func widths(within width: Int?) -> [Int] {
    var widths = titles.indices.map { column in
      ([titles[column]] + rows.map { $0.cells[column].text }).map(SafeText.width).max() ?? 0
    }
    guard let width else { return widths }
    var excess = widths.reduce(0, +) + Self.gap * (widths.count - 1) - width
    for column in shrinkable where excess > 0 {
      let given = min(excess, max(0, widths[column] - max(Self.narrowest, titles[column].count)))
      widths[column] -= given
      excess -= given
    }
    return widths
  }

  private func line(_ cells: [Cell], _ widths: [Int], colour: Bool) -> String {
    var parts: [String] = []
    for (index, cell) in cells.enumerated() {
      let fitted = Cell(SafeText.shortened(cell.text, columns: widths[index]), cell.tone)
      let isLast = index == cells.count - 1
      parts.append(fitted.padded(to: isLast ? 0 : widths[index], colour: colour))
    }
    return parts.joined(separator: String(repeating: " ", count: Self.gap))
  }
}

/// Names and values, aligned.
struct FieldList {
  private(set) var pairs: [(name: String, value: Cell)] = []

  init() {}

  /// A nil or empty value is left out.
  mutating func add(_ name: String, _ value: String?, _ tone: Cell.Tone = .plain) {
    guard let value, !value.isEmpty else { return }
    pairs.append((name, Cell(value, tone)))
  }

  /// Within the columns of a terminal: values are wrapped, and a path that is longer than a line is cut in the middle.
  func lines(within columns: Int?, colour: Bool) -> [String] {
    let width = (pairs.map { SafeText.width($0.name) }.max() ?? 0) + 2
    guard let columns, columns > width + 16 else { return lines(colour: colour) }
    let room = columns - width
    return pairs.flatMap { name, value in
      let words = value.text.split(separator: " ").map { SafeText.shortened(String($0), columns: room) }
      return SafeText.wrapped(words.joined(separator: " "), columns: room).enumerated().map { index, line in
        Cell(index == 0 ? name : "").padded(to: width, colour: false)
          + Cell(line, value.tone).padded(to: 0, colour: colour)
      }
    }
  }

  func lines(colour: Bool) -> [String] {
    let width = pairs.map { SafeText.width($0.name) }.max() ?? 0
    return pairs.map { Cell($0.name).padded(to: width + 2, colour: false) + $0.value.padded(to: 0, colour: colour) }
  }
}
