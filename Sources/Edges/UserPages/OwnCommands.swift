public import BrokerAPI
public import Principals

/// Runs `grantctl` as the broker's own user: the page writes no file itself (decision 69). Only a user's own broker has it.
public protocol OwnCommands: Sendable {
  /// The only user whose page may use it.
  var user: UInt32 { get }
  /// The folder in which the tools' files are.
  var home: String { get }

  /// The broker's view of the file system. A page is for a process with the same view: a program in a sandbox must not
  /// write outside of it.
  var fileView: FileView { get }

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
  case notStarted
  /// It was stopped after this time.
  case unfinished(Duration)
}

extension CommandOutcome {
  /// What it printed; nil: it failed.
  var output: String? {
    if case .ended(0, let out, _) = self { out } else { nil }
  }

  /// Why it failed, and the next step.
  ///
  /// - Parameters:
  ///   - command: the same for a terminal.
  ///   - look: how to see which files it has changed; nil: it changes none.
  func problem(_ command: String, look: String? = nil) -> (what: String, step: String) {
    let byHand = "Run `\(command)` in a terminal."
    switch self {
    case .busy: return ("other commands of this page are still running", "Try again in some seconds.")
    case .notStarted: return ("grantctl could not be started, and nothing was changed", byHand)
    case .unfinished(let limit):
      let what = "grantctl did not end within \(limit.components.seconds) seconds and was stopped"
      return look.map { ("\(what); files may have changed", $0) } ?? ("\(what); nothing was changed", byHand)
    case .ended(_, _, let err):
      let lines = err.split(separator: "\n").map(String.init)
      let first = lines.first ?? "grantctl failed without a message"
      let what = first.hasPrefix("grantctl: ") ? String(first.dropFirst("grantctl: ".count)) : first
      return (what, (lines.dropFirst().map { $0.trimmingSpaces } + [byHand]).joined(separator: " "))
    }
  }
}
