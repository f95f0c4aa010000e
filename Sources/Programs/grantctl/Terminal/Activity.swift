import PlainText
import Synchronization

/// Shows on a terminal that an answer takes long: one line on standard error, drawn again each second and removed at the end.
final class Activity: Sendable {
  /// An answer within this time shows nothing.
  private static let quiet = Duration.milliseconds(700)
  private static let step = Duration.seconds(1)
  private static let clear = "\r\u{1B}[K"
  /// Characters of the bar.
  private static let barColumns = 20

  private struct State {
    var text: String
    /// 0 to 1; nil: not known.
    var share: Double?
    var isDrawn = false
    var isOver = false
  }

  private let terminal: Terminal
  private let start = ContinuousClock.now
  private let state: Mutex<State>
  private let task: Mutex<Task<Void, Never>?> = Mutex(nil)

  /// - Parameter text: such as `Asking login.example.com`.
  init(_ text: String, on terminal: Terminal) {
    self.terminal = terminal
    state = Mutex(State(text: text))
  }

  /// Begins to draw; nothing on a terminal that cannot redraw a line, or where standard error is for programs.
  func begin() {
    guard terminal.canRedraw else { return }
    let drawing = Task { [weak self] in
      var pause = Self.quiet
      while (try? await Task.sleep(for: pause)) != nil {
        guard let self else { return }
        draw()
        pause = Self.step
      }
    }
    task.withLock { $0 = drawing }
  }

  func update(_ text: String) { state.withLock { $0.text = text } }

  /// How much of the work is done.
  func update(_ done: Int, of whole: Int) {
    guard whole > 0 else { return }
    state.withLock { $0.share = min(1, Double(done) / Double(whole)) }
  }

  func end() {
    task.withLock { $0?.cancel() }
    state.withLock { state in
      state.isOver = true
      if state.isDrawn { terminal.write(.err, Self.clear) }
      state.isDrawn = false
    }
  }

  private func draw() {
    let seconds = (ContinuousClock.now - start).components.seconds
    state.withLock { state in
      guard !state.isOver else { return }
      let columns = max(1, (terminal.screen?.columns ?? 80) - 1)
      let time = " … \(TimeText.duration(max(1, seconds)))"
      var text = state.text
      if let share = state.share {
        let full = Int(share * Double(Self.barColumns))
        let bar = String(repeating: "#", count: full) + String(repeating: "-", count: Self.barColumns - full)
        text += " [\(bar)] \(Int(share * 100)) %"
      }
      let fitted = SafeText.fitted(SafeText.line(text), columns: max(1, columns - SafeText.width(time)))
      terminal.write(.err, Self.clear + SafeText.fitted(fitted + time, columns: columns))
      state.isDrawn = true
    }
  }
}

extension Shell {
  /// Runs work that may take long, and shows the text while it waits.
  func showing<Value: Sendable>(
    _ text: String, _ work: (Activity) async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    let activity = Activity(text, on: terminal)
    if !isJSON { activity.begin() }
    defer { activity.end() }
    return try await work(activity)
  }
}
