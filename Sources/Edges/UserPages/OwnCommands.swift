public import BrokerAPI

/// Runs `grantctl` as the broker's own user: the page writes no file itself (decision 69). Only a user's own broker has it.
public protocol OwnCommands: Sendable {
  /// The only user whose page may use it.
  var user: UInt32 { get }
  /// The folder in which the tools' files are.
  var home: String { get }

  /// Whether a process sees the same files as the broker: a program in a sandbox must not write outside of it by a page.
  func sharesFiles(with process: Int32) -> Bool

  /// - Parameters:
  ///   - words: the arguments, the command first.
  ///   - input: its standard input.
  func run(_ words: [String], input: SecretText?) async -> CommandOutcome
}

public enum CommandOutcome: Sendable, Equatable {
  /// With the exit status and the output.
  case ended(status: Int32, out: String, err: String)
  /// Too many commands wait.
  case busy
  /// It could not be started, or did not end in time.
  case failed
}

extension CommandOutcome {
  /// What it printed; nil: it failed.
  var output: String? {
    if case .ended(0, let out, _) = self { out } else { nil }
  }

  /// Why it failed, and the next step.
  func problem(_ command: String) -> (what: String, step: String) {
    let byHand = "Run `\(command)` in a terminal."
    switch self {
    case .busy: return ("other commands of this page are still running", "Try again in some seconds.")
    case .failed: return ("grantctl could not be started, or did not end in time", byHand)
    case .ended(_, _, let err):
      let lines = err.split(separator: "\n").map(String.init)
      let first = lines.first ?? "grantctl failed without a message"
      let what = first.hasPrefix("grantctl: ") ? String(first.dropFirst("grantctl: ".count)) : first
      return (what, (lines.dropFirst().map { $0.trimmingSpaces } + [byHand]).joined(separator: " "))
    }
  }
}
