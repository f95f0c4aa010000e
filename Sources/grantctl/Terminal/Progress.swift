/// Says that we wait, on standard error: a line that moves on a terminal, else one plain line.
struct Progress: Sendable {
  static let step = Duration.milliseconds(125)
  private static let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]
  private static let clear = "\r\u{1B}[K"

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

  private func text(now: Int64) -> String {
    "Waiting for you to sign in (\(TimeText.duration(expiresAt - now)) left; Ctrl-C cancels)"
  }
}
