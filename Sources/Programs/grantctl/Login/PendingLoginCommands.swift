import ArgumentParser
import BrokerAPI
import PlainText

/// The commands for pending logins. Their names have two words: `login` itself takes a provider.
struct LoginListCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "login list", abstract: "List pending logins.",
    usage: "grantctl login list [options]",
    discussion: """
      Example:
        grantctl login list
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(LoginList.self, NoParams())
    if shell.isJSON { return shell.print(answer.json) }
    let logins = try answer.value().logins
    if logins.isEmpty { return shell.terminal.print("No pending logins.") }
    let rows = logins.map { login in
      TextTable.Row(
        cells: [
          Cell(login.login_id), Cell(login.account), Cell(login.provider),
          Cell(TimeText.ago(login.started_at, now: shell.now)), Cell(TimeText.expiry(login.expires_at, now: shell.now)),
        ], notes: login.state == .actionRequired ? [Self.more(login.login_id, shell)] : [])
    }
    shell.print(
      TextTable(
        titles: ["ID", "ACCOUNT", "PROVIDER", "STARTED", "ENDS IN"], shrinkable: [1, 2], rows: rows, droppable: 3))
  }

  private static func more(_ id: String, _ shell: Shell) -> String {
    "Further input required: \(shell.command("login continue \(ShellWord.quoted(id))"))"
  }
}

struct LoginContinueCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "login continue", abstract: "Continue a pending login.",
    usage: "grantctl login continue <id> [options]",
    discussion: """
      Waits for the user, or gives the provider the further input that it requires.

      Examples:
        grantctl login continue k7f3qx
        grantctl login continue k7f3qx --replace-session oldest
        grantctl login continue k7f3qx --attribute first_name=Ada
      """)

  @Argument(help: "The login's ID, as “grantctl login list” prints it.")
  var id: String
  @Flag(help: "Print only the authorization code of a login with --code-only.")
  var codeOnly = false
  @OptionGroup var given: PresetAnswers
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    var shell = shell
    shell.settings.keepsOutput = codeOnly
    let places = LoginDestinations(shell: shell, isBrowserWanted: true)
    var flow = LoginFlow(
      shell: shell, client: try await shell.connect(), places: places,
      given: LoginAnswers(session: given.replaceSession, attributes: (try? given.attributes()) ?? [:]))
    flow.given.triesAgain = !shell.terminal.canAsk
    try await flow.resume(id)
  }
}

struct LoginCancelCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "login cancel", abstract: "Cancel a pending login.",
    usage: "grantctl login cancel <id> [options]",
    discussion: """
      Example:
        grantctl login cancel k7f3qx
      """)

  @Argument(help: "The login's ID, as “grantctl login list” prints it.")
  var id: String
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(LoginCancel.self, .init(login_id: id))
    if shell.isJSON { return shell.print(answer.json) }
    shell.terminal.print(try answer.value().cancelled ? "Cancelled." : "It had ended already.")
  }
}
