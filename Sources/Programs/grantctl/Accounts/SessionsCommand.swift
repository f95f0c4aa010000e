import ArgumentParser
import BrokerAPI

struct SessionsCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "sessions", abstract: "List or end the account's sessions at the provider.",
    usage: "grantctl sessions <account> [options]",
    discussion: """
      For providers that keep such a list, as a video management system does.

      Examples:
        grantctl sessions work
        grantctl sessions work --end 4711
      """)

  @OptionGroup var named: AccountArgument
  @Option(help: ArgumentHelp("End the session with this ID.", valueName: "id"))
  var end: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    if let end { return try await run(ending: end, in: shell) }
    let answer = try await shell.ask(AccountSessions.self, .init(account: named.account, timeout: options.timeout))
    if shell.isJSON { return shell.print(answer.json) }
    let sessions = try answer.value().sessions
    if sessions.isEmpty { return shell.terminal.print("No sessions are open.") }
    shell.print(sessions.table(isNumbered: false, now: shell.now))
  }

  private func run(ending id: String, in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(
      AccountEndSession.self, .init(account: named.account, session_id: id, timeout: options.timeout))
    let ended = try answer.value().ended
    if shell.isJSON {
      shell.print(answer.json)
    } else if ended {
      shell.terminal.print("Ended: \(Cell(id).text)")
    }
    guard !ended else { return }
    if shell.isJSON { throw .reported(.unknownName) }
    throw Failure(
      .unknownName, "the provider has no session \(Cell(id).text)",
      hints: ["It has: \(shell.command("sessions \(ShellWord.quoted(named.account))"))"])
  }
}
