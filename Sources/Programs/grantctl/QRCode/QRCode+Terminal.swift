import ArgumentParser
import QRCodes

/// Whether a QR code is drawn.
enum QRWish: String, ExpressibleByArgument, CaseIterable, Sendable {
  case never
  case auto
  case always
}

extension QRCode {
  /// Modules of light around a symbol: as the standard wants it, and what readers put up with.
  private static let margins = [4, 2]
  /// Rows of the caption above the symbol, and of the blank lines around it.
  private static let captionRows = 3

  private func columns(margin: Int) -> Int { size + 2 * margin }
  private func rows(margin: Int) -> Int { (size + 2 * margin + 1) / 2 }

  /// Two modules in each character, one above the other. With colour the symbol is dark on light whatever the
  /// terminal's own colours are; without, it is so on a dark terminal, and the other way round on a light one, which
  /// most readers take too.
  func lines(margin: Int, colour: Bool) -> [String] {
    stride(from: -margin, to: size + margin, by: 2).map { y in
      let line = (-margin..<size + margin).map { x in
        switch (isDark(x, y), isDark(x, y + 1)) {
        case (false, false): "█"
        case (false, true): "▀"
        case (true, false): "▄"
        case (true, true): " "
        }
      }.joined()
      return colour ? "\u{1B}[97;40m\(line)\u{1B}[0m" : line
    }
  }

  /// The symbol for the terminal that standard error is; nil: none is wanted, or it does not fit.
  ///
  /// - Parameter below: the rows of the text that has to stay visible below it.
  static func lines(for text: String, _ wish: QRWish, on terminal: Terminal, below: Int) -> [String]? {
    guard wish != .never, wish == .always || terminal.drawsBlocks, let code = QRCode(text) else { return nil }
    let colour = terminal.isErrTTY && terminal.allowsColour
    if wish == .always { return code.lines(margin: margins[0], colour: colour) }
    guard let screen = terminal.screen else { return nil }
    let margin = margins.first { margin in
      code.columns(margin: margin) <= screen.columns && code.rows(margin: margin) + captionRows + below <= screen.rows
    }
    return margin.map { code.lines(margin: $0, colour: colour) }
  }
}

extension Terminal {
  /// Standard error is a terminal that has characters beyond ASCII.
  var drawsBlocks: Bool { isErrTTY && environment["TERM"] != "dumb" && speaksUnicode }

  /// By the locale's name, as POSIX looks for it (Base Definitions §8.2).
  var speaksUnicode: Bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
    let name = locale.uppercased()
    return name.contains("UTF-8") || name.contains("UTF8")
  }
}
