import BrokerAPI
import QRCodes

/// The page and the code with which the user signs in on another device (RFC 8628 §3.3).
struct DevicePage: Equatable, Sendable {
  private static let indent = "    "
  private static let startOfBold = "\u{1B}[1m"
  private static let endOfBold = "\u{1B}[0m"

  let code: String
  let address: String
  /// The address with the code in it.
  let completeAddress: String?
  /// When the code ends, in Unix seconds.
  let expiresAt: Int64?

  /// Nil where the destination is of another kind, or says too little.
  init?(_ destination: Destination) {
    guard destination.kind == "device", let code = destination.user_code, !code.isEmpty,
      let address = destination.verification_uri ?? destination.url, Browser.isWebAddress(address)
    else { return nil }
    self.code = code
    self.address = address
    completeAddress = destination.verification_uri_complete.flatMap { Browser.isWebAddress($0) ? $0 : nil }
    expiresAt = destination.expires_at
  }

  /// One line of the page. Values go to standard output, or with `--json` to standard error like the other lines.
  private struct Line {
    var text: String
    var isValue = false
  }

  /// Prints the page. The URL and the code come last, so that they stay visible in a small terminal.
  func show(provider: String, _ wish: QRWish, in shell: Shell) {
    let terminal = shell.terminal
    if wish == .always, !QRCode.isAvailable {
      terminal.note("No QR code: the library libqrencode.so.4 is missing (on Debian: apt install libqrencode4).")
    }
    var lines = self.lines(provider: provider, isLarge: true, in: shell)
    for isLarge in [true, false] where wish != .never {
      let tried = self.lines(provider: provider, isLarge: isLarge, in: shell)
      guard
        let code = QRCode.lines(
          for: completeAddress ?? address, wish, on: terminal, below: Self.rows(of: tried, on: terminal) + 1)
      else { continue }
      let target = completeAddress == nil ? "the URL" : "the URL with the code"
      terminal.note("Scan \(target):\n")
      // Its escape sequences take no columns, and its light modules contain no words.
      terminal.noteWhole(code + [""])
      lines = tried
      break
    }
    for line in lines {
      if line.isValue, !shell.keepsOutput { terminal.printWhole(line.text) } else { terminal.note(line.text) }
    }
  }

  private func lines(provider: String, isLarge: Bool, in shell: Shell) -> [Line] {
    var lines: [Line] = []
    if let completeAddress {
      lines += [
        Line(text: "This URL contains the code. The page must show the same code:"),
        Line(text: SafeText.line(completeAddress), isValue: true), Line(text: ""),
      ]
    }
    lines += [
      Line(text: "To sign in at \(Cell(provider).text), open this URL on any device:"),
      Line(text: SafeText.line(address), isValue: true), Line(text: "and enter this code:"), Line(text: ""),
    ]
    lines += Self.shown(code, isLarge: isLarge, in: shell).map { Line(text: $0, isValue: true) }
    return lines + [Line(text: "")]
  }

  /// The rows that the lines take, with the line below them that says that grantctl waits.
  private static func rows(of lines: [Line], on terminal: Terminal) -> Int {
    let columns = max(1, terminal.screen?.columns ?? 80)
    // A wrapped sentence takes at most one row more than its width.
    return lines.reduce(1) { rows, line in
      // Escape sequences take no columns.
      let shown = line.text.replacing(startOfBold, with: "").replacing(endOfBold, with: "")
      let whole = max(1, (SafeText.width(shown) + columns - 1) / columns)
      return rows + (whole > 1 && !line.isValue ? whole + 1 : whole)
    }
  }

  /// The code as the user copies it to another device: large if the terminal has the columns, with a plain line below;
  /// else in a frame; only the code if no terminal shows it.
  private static func shown(_ code: String, isLarge: Bool, in shell: Shell) -> [String] {
    let terminal = shell.terminal
    let code = SafeText.line(code)
    guard shell.keepsOutput ? terminal.isErrTTY : terminal.isOutTTY else { return [code] }
    func bold(_ text: String) -> String { terminal.allowsColour ? startOfBold + text + endOfBold : text }
    guard terminal.speaksUnicode, isLarge else { return [indent + bold(code)] }
    let columns = (shell.keepsOutput ? terminal.screen?.columns : terminal.width) ?? 80
    if let large = LargeText.lines(code, columns: columns - indent.count) {
      return large.map { indent + bold($0) } + ["", indent + bold(code)]
    }
    let bar = String(repeating: "━", count: SafeText.width(code) + 4)
    return ["┏\(bar)┓", "┃  " + bold(code) + "  ┃", "┗\(bar)┛"].map { indent + $0 }
  }
}
