import PlainText

/// Says that we wait, on standard error: a line that moves on a terminal, else one plain line.
struct Progress: Sendable {
  static let step = Duration.milliseconds(125)
  private static let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]
  private static let clear = "\r\u{1B}[K"
  /// The frame, a space, and the last column, in which some terminals wrap.
  private static let frameColumns = 3

  let terminal: Terminal
  /// Unix seconds.
  let expiresAt: Int64
  /// Somebody types: nothing may be drawn over it.
  let isQuiet: Bool

  var isDrawn: Bool { terminal.canRedraw && !isQuiet }

  func begin() {
    if isDrawn { draw(now: terminal.now()) } else { terminal.note(text(now: terminal.now())) }
  }

  func draw(now: Int64) {
    guard isDrawn else { return }
    let milliseconds = ContinuousClock.now.duration(to: Self.start) / Self.step
    let frame = Self.frames[Int(abs(milliseconds)) % Self.frames.count]
    terminal.write(.err, "\(Self.clear)\(frame) \(text(now: now))")
  }

  func end() {
    if isDrawn { terminal.write(.err, Self.clear) }
  }

  private static let start = ContinuousClock.now

  /// The longest form that fits the terminal with the frame before it: a line that wraps cannot be drawn again.
  private func text(now: Int64) -> String {
    let left = TimeText.duration(expiresAt - now)
    let forms = [
      "Waiting for you to sign in (\(left) left; Ctrl-C cancels)", "Waiting for you to sign in (\(left) left)",
    ]
    guard isDrawn, let columns = terminal.screen?.columns else { return forms[0] }
    let fitting = forms.first { SafeText.width($0) <= columns - Self.frameColumns } ?? "Waiting (\(left))"
    return SafeText.fitted(fitting, columns: max(1, columns - Self.frameColumns))
  }
}
