import ArgumentParser
import BrokerAPI

struct ImportCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "import", abstract: "Import an existing refresh token.",
    usage: "grantctl import <account> --provider <provider> [options]",
    discussion: """
      Reads the refresh token from standard input; at a terminal it asks for it, and does not show it. The token must \
      have been issued to the client that the provider's section names. The broker tries it at once; from then on no \
      other program may use it.

      Examples:
        grantctl import work --provider google < refresh-token
        pass show google/refresh | grantctl import work --provider google
      """)

  @Argument(help: "The name that the account will have.")
  var account: String
  @Option(help: "The provider's name in the configuration.")
  var provider: String
  @Option(help: "Scope of the token. Can be repeated. Default: the configured scopes.")
  var scope: [String] = []
  @Option(help: "The resource that the token was granted for (RFC 8707).")
  var resource: String?
  @Flag(help: "Accept a token of another user than the account's; needs `manage` access.")
  var replaceIdentity = false
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    // Nobody should bring out a secret for a broker that is not there. The call has a connection of its own: this one
    // may be closed before a person has typed.
    _ = try await shell.connect()
    let token = try await SecretInput(shell: shell, what: "refresh token").readStandardInput()
    let scopes = LoginCommand.words(scope)
    let answer = try await shell.ask(
      AccountImport.self,
      .init(
        account: account, provider: provider, refresh_token: token, scopes: scopes.isEmpty ? nil : scopes,
        resource: resource, replace_identity: replaceIdentity ? true : nil))
    if shell.isJSON { return shell.say(answer.json) }
    let imported = try answer.value()
    let identity = imported.identity.map { " (\($0.bestName))" } ?? ""
    shell.terminal.say(SafeText.line("Imported: \(imported.account)\(identity) at \(imported.provider)"))
    shell.terminal.say(
      SafeText.line("Get a token with: \(shell.command("token \(ShellWord.quoted(imported.account))"))"))
  }
}
