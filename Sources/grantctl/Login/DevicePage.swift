import BrokerAPI

/// What a person needs to sign in on another device (RFC 8628 §3.3).
struct DevicePage: Equatable, Sendable {
  private static let indent = "    "

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

  /// Standard output has the addresses and the code, each on a line of its own; with `--json` it is for the result.
  func show(provider: String, _ wish: QRWish, in shell: Shell) {
    let terminal = shell.terminal
    let say: (String) -> Void = { shell.keepsOutput ? terminal.note($0) : terminal.say($0) }
    terminal.note("To sign in at \(Cell(provider).text), open this address on any device:")
    say(SafeText.line(address))
    terminal.note("and enter this code:\n")
    for line in Self.shown(code, in: shell) { say(line) }
    terminal.note("")
    if let completeAddress {
      terminal.note("This address has the code in it. The page must show the same code:")
      say(SafeText.line(completeAddress))
      terminal.note("")
    }
    showQRCode(wish, on: terminal)
  }

  private func showQRCode(_ wish: QRWish, on terminal: Terminal) {
    guard let lines = QRCode.lines(for: completeAddress ?? address, wish, on: terminal) else {
      if wish == .always { terminal.note("The address is too long for a QR code that a terminal can show.") }
      return
    }
    let what = completeAddress == nil ? "the address" : "the address with the code"
    terminal.note("Or scan \(what):\n\n" + lines.joined(separator: "\n") + "\n")
  }

  /// The code for people, who type it elsewhere: large where the terminal can, and once more for copying; else in a
  /// frame; alone where no person sees it.
  private static func shown(_ code: String, in shell: Shell) -> [String] {
    let terminal = shell.terminal
    let code = SafeText.line(code)
    guard shell.keepsOutput ? terminal.isErrTTY : terminal.isOutTTY else { return [code] }
    func bold(_ text: String) -> String { terminal.allowsColour ? "\u{1B}[1m\(text)\u{1B}[0m" : text }
    guard terminal.speaksUnicode else { return [indent + bold(code)] }
    let columns = (shell.keepsOutput ? terminal.screen?.columns : terminal.width) ?? 80
    if let large = LargeText.lines(code, columns: columns - indent.count) {
      return large.map { indent + bold($0) } + ["", indent + bold(code)]
    }
    let bar = String(repeating: "━", count: SafeText.width(code) + 4)
    return ["┏\(bar)┓", "┃  " + bold(code) + "  ┃", "┗\(bar)┛"].map { indent + $0 }
  }
}
