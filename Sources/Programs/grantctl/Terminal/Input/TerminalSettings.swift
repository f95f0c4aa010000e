import Glibc
import Synchronization

/// The settings of a terminal (termios(3)).
enum TerminalSettings {
  /// Those of standard input before the first change; the process sets them again when it exits.
  private static let original = Mutex<termios?>(nil)

  /// - Returns: the settings before; nil: it is not a terminal, or they could not be set.
  @discardableResult static func change(
    _ descriptor: Int32, _ moment: Int32, _ edit: (inout termios) -> Void
  ) -> termios? {
    var settings = termios()
    guard isatty(descriptor) == 1, tcgetattr(descriptor, &settings) == 0 else { return nil }
    let before = settings
    if descriptor == 0 { keep(before) }
    edit(&settings)
    return tcsetattr(descriptor, moment, &settings) == 0 ? before : nil
  }

  /// Typed text does not show until the returned function is called.
  static func hideEcho(_ descriptor: Int32) -> (@Sendable () -> Void)? {
    let before = change(descriptor, TCSAFLUSH) { $0.c_lflag &= ~tcflag_t(ECHO) }
    guard let shown = before.map({ $0.c_lflag & tcflag_t(ECHO) }) else { return nil }
    // Nothing else: the thread that reads lines may have changed other settings since.
    return { change(descriptor, TCSADRAIN) { $0.c_lflag |= shown } }
  }

  private static func keep(_ settings: termios) {
    let isFirst = original.withLock { original in
      defer { original = original ?? settings }
      return original == nil
    }
    guard isFirst else { return }
    atexit {
      guard var settings = TerminalSettings.original.withLock({ $0 }) else { return }
      // Without waiting for output: the terminal may be stopped.
      tcsetattr(0, TCSANOW, &settings)
    }
  }
}
