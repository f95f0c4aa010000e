extension Unicode.Scalar {
  /// Whether a log line, a terminal or a page can show the character: it is visible, and it neither controls a terminal,
  /// ends a line nor changes the direction of text.
  public var isSafe: Bool {
    if (0x20..<0x7F).contains(value) { return true }
    // The empty Braille pattern.
    if value == 0x2800 { return false }
    return switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate: false
    // Fillers of Hangul.
    case .otherLetter: !properties.isDefaultIgnorableCodePoint
    default: true
    }
  }
}
