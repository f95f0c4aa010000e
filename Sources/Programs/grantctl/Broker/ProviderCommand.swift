import ArgumentParser
import BrokerAPI
import BrokerSocket

struct ProviderCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "provider", abstract: "List, show, register or unregister providers.",
    discussion: """
      Examples:
        grantctl provider list
        grantctl provider register https://login.example.com
      """,
    subcommands: [
      ProvidersCommand.self, ProviderShowCommand.self, ProviderRegisterCommand.self, ProviderUnregisterCommand.self,
    ])
}

struct ProviderRegisterCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "register", abstract: "Register a client (RFC 7591) and add the provider.",
    usage: "grantctl provider register <issuer> [options]",
    discussion: """
      Dynamic client registration (RFC 7591) needs only the issuer's URL, if the issuer allows it. Some issuers require \
      an initial access token, which is read from a file or from standard input (“-”).

      With --client-id no client is registered: it is one that the issuer has already, such as from its web page. Its \
      secret is read from a file or from standard input; without one the client is public.

      Examples:
        grantctl provider register https://login.example.com
        grantctl provider register https://login.example.com --name example \\
          --scope openid --scope email
        grantctl provider register https://login.example.com \\
          --initial-access-token-file - < token
        grantctl provider register https://login.example.com \\
          --client-id s6BhdRkqt3 --client-secret-file secret
      """)

  @Argument(help: "The issuer's address.")
  var issuer: String
  @Option(help: "The name that the provider will have. Default: made from the issuer's host.")
  var name: String?
  @Option(help: "Scope that logins request. Can be repeated.")
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
  @Option(help: ArgumentHelp("A client that the issuer has already; none is registered.", valueName: "id"))
  var clientId: String?
  @Option(
    help: ArgumentHelp("The secret of that client; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var clientSecretFile: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if clientSecretFile != nil, clientId == nil {
      throw ValidationError("--client-secret-file needs --client-id.")
    }
    if initialAccessTokenFile != nil, clientId != nil {
      throw ValidationError("Only one of --initial-access-token-file and --client-id can be given.")
    }
  }

  func run(in shell: Shell) async throws(Failure) {
    // As for `import`.
    if initialAccessTokenFile != nil || clientSecretFile != nil { _ = try await shell.connect() }
    let token = try await shell.secret("initial access token", from: initialAccessTokenFile)
    let clientSecret = try await shell.secret("client secret", from: clientSecretFile)
    let authorities = try shell.certificates(from: caFile)
    let answer = try await shell.ask(
      ProviderRegister.self,
      .init(
        issuer: issuer, provider: name, initial_access_token: token, scopes: LoginCommand.scopes(scope),
        redirect_uri: redirectUri, auth_method: authMethod, resource: resource, api_base: apiBase,
        ca_certificates: authorities, client_id: clientId?.trimmed, client_secret: clientSecret))
    if shell.isJSON { return shell.print(answer.json) }
    let result = try answer.value()
    for warning in result.warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    var fields = FieldList()
    fields.add("Provider", result.provider)
    fields.add("Issuer", result.issuer)
    fields.add("Client", result.client_id)
    shell.print(fields)
    shell.terminal.print("Sign in with:", command: shell.command("login \(ShellWord.quoted(result.provider))"))
  }
}

struct ProviderShowCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "show", abstract: "Show a provider, or print its section.",
    usage: "grantctl provider show <provider> [options]",
    discussion: """
      --toml prints a provider of the broker's store as a section of the configuration. Secrets and certificates are \
      not printed: the section names a file for each.

      Examples:
        grantctl provider show example
        grantctl provider show example --toml
      """)

  @Argument(help: "The provider's name.")
  var provider: String
  @Flag(help: "Print a [provider.NAME] section of the configuration.")
  var toml = false
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(ProviderGet.self, .init(provider: provider))
    if shell.isJSON { return shell.print(answer.json) }
    let result = try answer.value()
    guard toml else { return shell.print(ProvidersCommand.fields(result, shell)) }
    let isSystem = shell.choice.path == SocketChoice.systemPath
    let folder = isSystem ? "/etc/grantd" : "\(shell.terminal.configurationFolder)/grantd"
    guard let section = ProviderSectionText(result, folder: folder) else {
      throw Failure(
        .failure, "provider \(SafeText.line(provider)) is in the configuration, not in the broker's store",
        hints: ["`grantctl status` names the configuration file, which has its section."])
    }
    shell.terminal.print(section.lines.map(SafeText.line))
  }
}

struct ProviderUnregisterCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "unregister", abstract: "Unregister a client and remove its provider.",
    usage: "grantctl provider unregister <provider> [options]",
    discussion: """
      For providers that “grantctl provider register” made. The provider is removed here even if the issuer refuses. A \
      client of --client-id stays registered at the issuer.

      Example:
        grantctl provider unregister example
      """)

  @Argument(help: "The provider's name.")
  var provider: String
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(ProviderUnregister.self, .init(provider: provider))
    if shell.isJSON { return shell.print(answer.json) }
    shell.print(FieldList(try answer.value().steps, forgotten: "provider"))
    shell.terminal.print("Forgotten: \(Cell(provider).text)")
  }
}
