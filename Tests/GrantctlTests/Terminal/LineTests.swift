import ArgumentParser
import BrokerAPI
import BrokerSocket
import Testing

@testable import grantctl

/// Lines for users: their line breaks, and the places without one.
@Suite struct LineTests {
  @Test("lines are broken at spaces, and a command stays whole where it fits on one")
  func wrapping() {
    let table: [(String, [String])] = [
      ("one two three four five six", ["one two three four", "five six"]),
      ("see what `grantctl list` has", ["see what", "`grantctl list` has"]),
      ("a `command that is longer than a line` b", ["a `command that is", "longer than a line`", "b"]),
      ("an odd ` stays as it is here", ["an odd ` stays as it", "is here"]), ("", []),
      ("`grantctl status`, `grantctl doctor`.", ["`grantctl status`,", "`grantctl doctor`."]),
    ]
    for (text, lines) in table { #expect(SafeText.wrapped(text, columns: 20) == lines) }
  }

  @Test("errors fit a terminal, and are whole lines elsewhere", arguments: [nil, 40, 0] as [Int?])
  func errors(columns: Int?) {
    let recorder = Recorder()
    var terminal = recorder.terminal()
    terminal.isErrTTY = columns != nil
    // One whose size is not known has 80.
    terminal.screen = columns.flatMap { $0 > 0 ? Terminal.Screen(columns: $0, rows: 24) : nil }
    let message = "the provider of this account was not reached for some minutes"
    let hint = "It is tried again by itself, and also `grantctl refresh work` does that now."
    Shell(terminal: terminal, settings: .init(wish: .init(isUser: true))).report(
      Failure(.failure, message, hints: [hint, "second"]))
    let command = "`grantctl refresh work --user`"
    switch columns {
    case nil:
      #expect(
        recorder.err
          == "grantctl: \(message)\n  It is tried again by itself, and also \(command) does that now.\n  second\n")
    case 40:
      #expect(
        recorder.err == """
          grantctl: the provider of this account
            was not reached for some minutes
            It is tried again by itself, and also
            `grantctl refresh work --user` does
            that now.
            second

          """)
    default:
      #expect(
        recorder.err == """
          grantctl: the provider of this account was not reached for some minutes
            It is tried again by itself, and also `grantctl refresh work --user` does that
            now.
            second

          """)
    }
  }

  @Test("the usage and the examples of each command's help are not broken")
  func help() {
    func commands(_ command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
      let below = command.configuration.subcommands
      return below + below.flatMap(commands)
    }
    let all = commands(Grantctl.self)
    #expect(all.count > 30)
    for command in all {
      let help = Grantctl.helpMessage(for: command, columns: 80).split(separator: "\n").map(String.init)
      let usage = help.filter { $0.hasPrefix("USAGE: grantctl ") }
      #expect(usage.count == 1 && usage[0].count <= 80, "\(help)")
      let examples = command.configuration.discussion.split(separator: "\n").map(String.init)
        .drop { !$0.hasPrefix("Example") }
      for line in examples { #expect(line.count <= 76 && help.contains(line), "\(line)") }
    }
  }
}
