import ArgumentParser
import BrokerAPI

struct KeyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "key", abstract: "Manage the store's encryption key.",
    discussion: """
      Example:
        grantctl key rotate
      """,
    subcommands: [KeyRotateCommand.self])
}

struct KeyRotateCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate", abstract: "Rotate the store's encryption key.",
    usage: "grantctl key rotate [options]",
    discussion: """
      Old copies of the database still need the old key; make new copies of both. If the key is a systemd credential, \
      the command prints the steps to change it.

      Example:
        grantctl key rotate --system
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(StoreRotateKey.self, NoParams())
    if shell.isJSON { return shell.print(answer.json) }
    let result = try answer.value()
    for warning in result.warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    let accounts = "\(result.accounts) account\(result.accounts == 1 ? "" : "s")"
    shell.terminal.print(SafeText.line("The state is sealed under a new key: \(accounts)"))
    shell.terminal.print(SafeText.line("Keep a copy of \(result.key_file) where your other secrets are."))
  }
}
