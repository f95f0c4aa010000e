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
    /// Values of columns that were left out, with their titles.
    var left: [String] = []
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
  /// Values that are cut or left out are whole in a note below their row, because users search for them.
  var keepsValues = false

  /// `width`: the terminal's columns; nil: as wide as it takes, with notes of 80 columns.
  func lines(width: Int?, colour: Bool) -> [String] {
    let widths = self.widths(within: width)
    if let width, droppable > 0, titles.count > 1,
      widths.reduce(0, +) + Self.gap * (widths.count - 1) > width
    {
      var narrower = self
      narrower.droppable -= 1
      let title = narrower.titles.removeLast()
      for index in rows.indices {
        let cell = narrower.rows[index].cells.removeLast()
        if cell.text != "-" { narrower.rows[index].left.insert(Self.value(cell, of: title), at: 0) }
      }
      narrower.shrinkable.removeAll { $0 >= narrower.titles.count }
      return narrower.lines(width: width, colour: colour)
    }
    var lines = [line(titles.map { Cell($0) }, widths, colour: false)]
    for row in rows {
      lines.append(line(row.cells, widths, colour: colour))
      for note in (values(missingIn: row, widths) + row.notes).map(SafeText.line) {
        let columns = max(20, (width ?? 80) - Self.noteIndent.count)
        lines += SafeText.wrapped(note, columns: columns).map { Self.noteIndent + $0 }
      }
    }
    return lines
  }

  private static func value(_ cell: Cell, of title: String) -> String { "\(title.lowercased()) \(cell.text)" }

  private func values(missingIn row: Row, _ widths: [Int]) -> [String] {
    guard keepsValues else { return [] }
    let cut = row.cells.indices.filter { SafeText.width(row.cells[$0].text) > widths[$0] }
    let missing = cut.map { Self.value(row.cells[$0], of: titles[$0]) } + row.left
    return missing.isEmpty ? [] : [missing.joined(separator: "; ")]
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
  /// A value that has not more columns beside its name begins on the next line.
  private static let leastRoom = 16
  private static let indent = 4

  private(set) var pairs: [(name: String, value: Cell)] = []

  init() {}

  /// A nil or empty value is left out.
  mutating func add(_ name: String, _ value: String?, _ tone: Cell.Tone = .plain) {
    guard let value, !value.isEmpty else { return }
    pairs.append((name, Cell(value, tone)))
  }

  /// Within the columns of a terminal: values are wrapped.
  ///
  /// - Parameter isCut: a path that is longer than a line is cut in the middle; else it stays whole, for copying.
  func lines(within columns: Int?, colour: Bool, isCut: Bool = true) -> [String] {
    guard let columns else { return lines(colour: colour) }
    let width = (pairs.map { SafeText.width($0.name) }.max() ?? 0) + 2
    let room = columns - width
    return pairs.flatMap { (name, value) -> [String] in
      var words = value.text.split(separator: " ").map { String($0) }
      if isCut { words = words.map { SafeText.shortened($0, columns: max(Self.leastRoom, room)) } }
      let isBelow = room <= Self.leastRoom || words.contains { SafeText.width($0) > room }
      let indent = isBelow ? Self.indent : width
      let text = isCut ? words.joined(separator: " ") : value.text
      let isShort = SafeText.width(text) <= columns - indent
      let parts = isShort ? [text] : SafeText.wrapped(text, columns: columns - indent)
      let lines = parts.enumerated().map { index, part in
        Cell(index == 0 && !isBelow ? name : "").padded(to: indent, colour: false)
          + Cell(part, value.tone).padded(to: 0, colour: colour)
      }
      return isBelow ? [Cell(name).text] + lines : lines
    }
  }

  func lines(colour: Bool) -> [String] {
    let width = pairs.map { SafeText.width($0.name) }.max() ?? 0
    return pairs.map { Cell($0.name).padded(to: width + 2, colour: false) + $0.value.padded(to: 0, colour: colour) }
  }
}
