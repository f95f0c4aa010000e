import BrokerAPI

/// A secret that is handed to a command. Never in its arguments: every process can read those.
struct SecretInput {
  /// The longest secret that is read from a terminal, in bytes.
  static let longestTyped = 64 << 10

  let shell: Shell
  /// Such as `refresh token`.
  let what: String

  /// A path, or `-` for standard input.
  func read(from path: String) async throws(Failure) -> SecretText {
    if path == "-" { return try await readStandardInput() }
    switch shell.terminal.files.text(path) {
    case .unreadable(let reason):
      throw Failure(
        .usage, "the \(what) cannot be read from \(path): \(reason)",
        hints: ["Give the path of a file with the \(what), or “-” for standard input."])
    case .text(let text, let isOpenToOthers):
      if isOpenToOthers { throw Self.openToOthers(path) }
      return try parse(text)
    }
  }

  static func openToOthers(_ path: String) -> Failure {
    let path = SafeText.line(path)
    return Failure(
      .usage, "every user of this machine can read \(path)",
      hints: ["`chmod 600 \(path)`; and take another secret if another user may have read it."])
  }

  func readStandardInput() async throws(Failure) -> SecretText {
    if shell.terminal.isInTTY { return try await ask() }
    var lines: [String] = []
    for await line in shell.terminal.lines() { lines.append(line) }
    return try parse(lines.joined(separator: "\n"))
  }

  private func ask() async throws(Failure) -> SecretText {
    var dialogue = Dialogue(shell)
    defer { dialogue.end() }
    return try await dialogue.secret(
      what, prompt: "\(what.prefix(1).uppercased())\(what.dropFirst()) (it is not shown): ",
      hints: ["Give it by a pipe or from a file: … < FILE"])
  }

  /// 1*VSCHAR (RFC 6749 appendix A.12, A.17), without the white space around it. What it is instead is not said.
  func parse(_ text: String) throws(Failure) -> SecretText {
    // Editors of other systems begin a file with a byte order mark.
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    let whole = Array(text.utf8)
    let bytes = whole.dropFirst(whole.starts(with: mark) ? mark.count : 0).drop { $0 <= 0x20 }
    let secret = bytes.prefix((bytes.lastIndex { $0 > 0x20 } ?? bytes.startIndex - 1) - bytes.startIndex + 1)
    guard !secret.isEmpty else {
      throw Failure(.usage, "no \(what) was given", hints: ["Give one line of printable ASCII."])
    }
    guard secret.allSatisfy({ (0x20...0x7E).contains($0) }) else {
      throw Failure(
        .usage, "the input is not a valid \(what)", hints: ["It is one line of printable ASCII, and nothing else."])
    }
    return SecretText(String(decoding: secret, as: UTF8.self))
  }
}
