import Glibc
import Synchronization

/// The settings of a terminal (termios(3)).
enum TerminalSettings {
  /// The address of those of standard input before the first change, or 0. The process sets them again when it exits or
  /// is stopped.
  private static let original = Atomic<UInt>(0)
  /// The address of the settings that the process wants now, or 0. Signal handlers read them, so each value stays
  /// allocated.
  private static let wanted = Atomic<UInt>(0)

  /// - Returns: the settings before; nil: it is not a terminal, or they could not be set.
  @discardableResult static func change(
    _ descriptor: Int32, _ moment: Int32, _ edit: (inout termios) -> Void
  ) -> termios? {
    var settings = termios()
    guard isatty(descriptor) == 1, tcgetattr(descriptor, &settings) == 0 else { return nil }
    let before = settings
    edit(&settings)
    if descriptor == 0 { keep(before, settings) }
    return tcsetattr(descriptor, moment, &settings) == 0 ? before : nil
  }

  /// Typed text does not show until the returned function is called.
  static func hideEcho(_ descriptor: Int32) -> (@Sendable () -> Void)? {
    let before = change(descriptor, TCSAFLUSH) { $0.c_lflag &= ~tcflag_t(ECHO) }
    guard let shown = before.map({ $0.c_lflag & tcflag_t(ECHO) }) else { return nil }
    // Nothing else: the thread that reads lines may have changed other settings since.
    return { change(descriptor, TCSADRAIN) { $0.c_lflag |= shown } }
  }

  private static func keep(_ before: termios, _ now: termios) {
    wanted.store(copy(now), ordering: .sequentiallyConsistent)
    guard original.load(ordering: .sequentiallyConsistent) == 0 else { return }
    original.store(copy(before), ordering: .sequentiallyConsistent)
    // Without waiting for output: the terminal may be stopped.
    atexit { TerminalSettings.set(TerminalSettings.original) }
    // Unless a parent ignores it, as for a program without job control.
    var action = sigaction()
    sigaction(SIGTSTP, nil, &action)
    guard unsafeBitCast(action.__sigaction_handler.sa_handler, to: UInt.self) == unsafeBitCast(SIG_DFL, to: UInt.self)
    else { return }
    signal(SIGTSTP) { _ in
      let error = errno
      TerminalSettings.set(TerminalSettings.original)
      kill(getpid(), SIGSTOP)
      errno = error
    }
    // A shell gives the terminal back with its own settings, which show typed text.
    signal(SIGCONT) { _ in
      let error = errno
      TerminalSettings.set(TerminalSettings.wanted)
      errno = error
    }
  }

  /// Async-signal-safe (signal-safety(7)). Does nothing in the background: there the process
  /// would be stopped for it.
  private static func set(_ address: borrowing Atomic<UInt>) {
    let settings = UnsafePointer<termios>(bitPattern: address.load(ordering: .sequentiallyConsistent))
    guard let settings, tcgetpgrp(0) == getpgrp() else { return }
    tcsetattr(0, TCSANOW, settings)
  }

  private static func copy(_ settings: termios) -> UInt {
    let copy = UnsafeMutablePointer<termios>.allocate(capacity: 1)
    copy.initialize(to: settings)
    return UInt(bitPattern: copy)
  }
}
