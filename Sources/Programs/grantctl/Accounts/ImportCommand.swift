import ArgumentParser
import BrokerAPI

struct ImportCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "import", abstract: "Create an account from a refresh token or another program.",
    usage: "grantctl import [<account>] (--provider <name> | --from <tool>) [options]",
    discussion: """
      Reads the refresh token from standard input; at a terminal it asks for it, and does not show it. The token must \
      have been issued to the client that the provider's section names. The broker tries it at once; from then on no \
      other program may use it.

      --from reads the files of another program, or its export (--file), adds its provider and its account, and names \
      the service to stop: \(ImportSources.names). docs/migrate.md describes each.

      Examples:
        grantctl import work --provider google < refresh-token
        pass show google/refresh | grantctl import work --provider google
        grantctl import --from rclone --entry drive
        oidc-gen --print work | grantctl import --from oidc-agent --file -
      """)

  @Argument(help: "The account's name. With --from, default: the program's name of it.")
  var account: String?
  @Option(help: "The provider's name. With --from, default: it is added.")
  var provider: String?
  @Option(help: ArgumentHelp("Read the account of another program.", valueName: "program"))
  var from: String?
  @Option(
    help: ArgumentHelp("The program's file or export; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var file: String?
  @Option(help: ArgumentHelp("Which of the program's accounts.", valueName: "name"))
  var entry: String?
  @Option(
    help: ArgumentHelp("The client that the token was issued to, if the program does not name it.", valueName: "id"))
  var clientId: String?
  @Option(help: ArgumentHelp("The secret of that client.", valueName: "path"), completion: .file())
  var clientSecretFile: String?
  @Option(help: "Scope of the token. Can be repeated. Default: the configured scopes.")
  var scope: [String] = []
  @Option(help: "The resource that the token was granted for (RFC 8707).")
  var resource: String?
  @Flag(help: "Accept a token of another user than the account's; needs `manage` access.")
  var replaceIdentity = false
  @OptionGroup var options: GlobalOptions

  /// Longest export, in bytes.
  private static let longestExport = 4 << 20

  func validate() throws {
    guard let from else {
      guard account != nil else { throw ValidationError("Missing expected argument '<account>'.") }
      guard provider != nil else { throw ValidationError("Missing expected argument '--provider <provider>'.") }
      guard file == nil, entry == nil, clientId == nil, clientSecretFile == nil else {
        throw ValidationError("--file, --entry, --client-id and --client-secret-file go with --from.")
      }
      return
    }
    guard ImportSources.named(from) != nil else { throw ValidationError("--from knows \(ImportSources.names).") }
    guard resource == nil, !replaceIdentity else {
      throw ValidationError("--resource and --replace-identity do not go with --from.")
    }
    if clientSecretFile != nil, clientId == nil { throw ValidationError("--client-secret-file needs --client-id.") }
  }

  private func migrate(_ source: any ImportSource, in shell: Shell) async throws(Failure) {
    _ = try await shell.connect()
    let secret = try await shell.secret("client secret", from: clientSecretFile)
    var export: [UInt8]?
    if file == "-" {
      guard let input = await shell.terminal.input(Self.longestExport) else {
        throw Failure(.usage, "standard input is longer than \(Self.longestExport >> 20) MiB")
      }
      export = input
    } else if let file {
      guard let bytes = try shell.terminal.importFile(file) else {
        throw Failure(.usage, "there is no file \(file)")
      }
      export = bytes
    }
    let migration = Migration(
      source: source, shell: shell, entry: entry, account: account, provider: provider, clientID: clientId?.trimmed,
      clientSecret: secret, scopes: LoginCommand.words(scope))
    try await migration.run(export)
  }

  func run(in shell: Shell) async throws(Failure) {
    if let source = from.flatMap(ImportSources.named) { return try await migrate(source, in: shell) }
    guard let account, let provider else { return }
    // A secret is not asked for if no broker runs. The call opens its own connection: this one may be closed before the
    // user has typed.
    _ = try await shell.connect()
    let token = try await SecretInput(shell: shell, what: "refresh token").readStandardInput()
    let answer = try await shell.ask(
      AccountImport.self,
      .init(
        account: account, provider: provider, refresh_token: token, scopes: LoginCommand.scopes(scope),
        resource: resource, replace_identity: replaceIdentity ? true : nil))
    if shell.isJSON { return shell.print(answer.json) }
    let imported = try answer.value()
    shell.terminal.print(SafeText.line(imported.importedText))
    shell.terminal.print("Get a token with:", command: shell.command("token \(ShellWord.quoted(imported.account))"))
  }
}
