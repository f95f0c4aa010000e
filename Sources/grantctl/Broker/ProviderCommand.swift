import ArgumentParser
import BrokerAPI

struct ProviderCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "provider", abstract: "Register or unregister a client at an issuer.",
    discussion: "“grantctl providers” lists the providers.",
    subcommands: [ProviderRegisterCommand.self, ProviderUnregisterCommand.self])
}

struct ProviderRegisterCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "register", abstract: "Register a client at an issuer and make a provider of it.",
    usage: "grantctl provider register <issuer> [options]",
    discussion: """
      Dynamic client registration (RFC 7591): the issuer's address is all that is needed, where the issuer allows it. \
      Some want a token that their operator gives out; it is read from a file, or from standard input (“-”).

      Examples:
        grantctl provider register https://login.example.com
        grantctl provider register https://login.example.com --name example \\
          --scope openid --scope email
        grantctl provider register https://login.example.com \\
          --initial-access-token-file - < token
      """)

  @Argument(help: "The issuer's address.")
  var issuer: String
  @Option(help: "The name that the provider will have. Default: made from the issuer's host.")
  var name: String?
  @Option(help: "A scope that logins will ask for; may be repeated.")
  var scope: [String] = []
  @Option(help: ArgumentHelp("The redirection endpoint to register. Default: the broker's own.", valueName: "uri"))
  var redirectUri: String?
  @Option(help: ArgumentHelp("How the client authenticates, such as client_secret_post.", valueName: "method"))
  var authMethod: String?
  @Option(help: ArgumentHelp("The resource that tokens are for (RFC 8707).", valueName: "uri"))
  var resource: String?
  @Option(help: ArgumentHelp("The base URL of requests with an account's token.", valueName: "url"))
  var apiBase: String?
  @Option(
    help: ArgumentHelp("Certificate authorities in PEM, besides the system's.", valueName: "path"),
    completion: .file())
  var caFile: String?
  @Option(
    help: ArgumentHelp("The token that the issuer wants for this; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var initialAccessTokenFile: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    var token: SecretText?
    if let initialAccessTokenFile {
      // As for `import`.
      _ = try await shell.connect()
      token = try await SecretInput(shell: shell, what: "initial access token").read(from: initialAccessTokenFile)
    }
    var authorities: String?
    if let caFile {
      switch shell.terminal.files.text(caFile) {
      case .unreadable(let reason): throw Failure(.usage, "the certificates cannot be read from \(caFile): \(reason)")
      case .text(let text, _): authorities = text
      }
    }
    let scopes = LoginCommand.words(scope)
    let answer = try await shell.ask(
      ProviderRegister.self,
      .init(
        issuer: issuer, provider: name, initial_access_token: token, scopes: scopes.isEmpty ? nil : scopes,
        redirect_uri: redirectUri, auth_method: authMethod, resource: resource, api_base: apiBase,
        ca_certificates: authorities))
    if shell.isJSON { return shell.say(answer.json) }
    let result = try answer.value()
    for warning in result.warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    var fields = Fields()
    fields.add("Provider", result.provider)
    fields.add("Issuer", result.issuer)
    fields.add("Client", result.client_id)
    shell.say(fields)
    let login = shell.command("login \(ShellWord.quoted(result.provider))")
    shell.terminal.say(SafeText.line("Sign in with: \(login)"))
  }
}

struct ProviderUnregisterCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "unregister", abstract: "Unregister a client and remove its provider.",
    usage: "grantctl provider unregister <provider> [options]",
    discussion: """
      For providers that “grantctl provider register” made. The provider is forgotten here whatever the issuer answers.

      Example:
        grantctl provider unregister example
      """)

  @Argument(help: "The provider's name.")
  var provider: String
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(ProviderUnregister.self, .init(provider: provider))
    if shell.isJSON { return shell.say(answer.json) }
    shell.say(Fields(try answer.value().steps, forgotten: "provider"))
    shell.terminal.say("Forgotten: \(Cell(provider).text)")
  }
}
