import Glibc

/// Lines typed or pasted at a terminal. The kernel's line editing cuts a line after 4,095 bytes (`N_TTY`), and a callback URL
/// may be longer; so the terminal passes each byte on, and the keys that edit a line are interpreted here.
struct TypedLine: Sendable {
  enum Key { case text, taken, end }

  private let erase: UInt8
  private let kill: UInt8
  private let endOfFile: UInt8

  /// Changes the terminal of standard input until the process exits; nil: it is not a terminal.
  static func begin() -> TypedLine? {
    let before = TerminalSettings.change(0, TCSANOW) { settings in
      guard settings.c_lflag & tcflag_t(ICANON) != 0 else { return }
      // Without line editing the kernel shows the newline as `^J`, unless it shows control characters as they are.
      settings.c_lflag &= ~tcflag_t(ICANON | ECHOCTL)
      withUnsafeMutableBytes(of: &settings.c_cc) {
        $0[Int(VMIN)] = 1
        $0[Int(VTIME)] = 0
      }
    }
    guard let before else { return nil }
    return withUnsafeBytes(of: before.c_cc) {
      TypedLine(erase: $0[Int(VERASE)], kill: $0[Int(VKILL)], endOfFile: $0[Int(VEOF)])
    }
  }

  /// What a byte does to the line that is being typed.
  func edit(_ line: inout [UInt8], _ byte: UInt8) -> Key {
    switch byte {
    case endOfFile: return line.isEmpty ? .end : .taken
    case erase, 0x08:
      let isEmpty = line.isEmpty
      // A character may have several bytes.
      while let last = line.popLast(), last & 0xC0 == 0x80 {}
      unshow(isEmpty ? 0 : 1)
      return .taken
    case kill:
      unshow(line.count { $0 & 0xC0 != 0x80 })
      line = []
      return .taken
    default: return .text
    }
  }

  /// Removes characters from the screen, and the `^?` that the kernel showed for the key, if it shows what is typed.
  private func unshow(_ count: Int) {
    var settings = termios()
    guard tcgetattr(0, &settings) == 0, settings.c_lflag & tcflag_t(ECHO) != 0 else { return }
    let shown = (settings.c_lflag & tcflag_t(ECHOCTL) != 0 ? 2 : 0) + count
    ProcessStreams.write(Array(String(repeating: "\u{8} \u{8}", count: shown).utf8), to: .err)
  }
}
