import ArgumentParser
import BrokerAPI

struct RepairCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "repair", abstract: "Remove rows that cannot be read, or repair them.",
    usage: "grantctl repair [<row>] [--remove] [options]",
    discussion: """
      A damaged row of the database stays on disk, and affects only its account. Without an argument the command \
      lists such rows. Repairing an account keeps its refresh token, if that can be read, and asks for a new access \
      token; `grantctl logout` removes an account. Other rows can only be removed.

      Examples:
        grantctl repair
        grantctl repair work
        grantctl repair logins#3 --remove
      """)

  @Argument(help: "An account, or another row as in the list.")
  var row: String?

  @Flag(help: "Remove the row, which is not an account's.")
  var remove = false

  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if remove, row == nil { throw ValidationError("--remove needs the name of a row.") }
  }

  func run(in shell: Shell) async throws(Failure) {
    guard let row else { return try await list(in: shell) }
    let answer = try await shell.ask(StoreRepair.self, .init(row: row, remove: remove ? true : nil))
    if shell.isJSON { return shell.print(answer.json) }
    let result = try answer.value()
    shell.terminal.print(SafeText.line("\(result.row): \(result.outcome)"))
  }

  private func list(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(BrokerStatus.self, NoParams())
    let rows = try answer.value().set_aside ?? []
    if shell.isJSON { return shell.print(answer.json["set_aside"] ?? .array([])) }
    guard !rows.isEmpty else { return shell.terminal.print("Every row can be read.") }
    var problems = Problems()
    for row in rows { problems.add(row, shell) }
    shell.print(problems)
  }
}
