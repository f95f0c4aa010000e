import ArgumentParser
import BrokerAPI
import ProviderTemplates

struct SetupCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "setup", abstract: "Set up a provider and sign in, step by step.",
    usage: "grantctl setup [<provider>] [<account>] [options]",
    discussion: """
      Starts the broker if none runs, adds the provider, and registers a client or asks for one. Then it tries the \
      authorization request, signs in, tests a refresh, and configures the programs that will use the account. Steps \
      that are done are not repeated: the same command continues after an interruption, and a second run changes nothing.

      <provider> is an issuer URL, a template or a provider that exists. Each question has an option; without a \
      terminal nothing is asked.

      Templates: \(SetupTemplate.names)

      Examples:
        grantctl setup https://login.example.com
        grantctl setup google work
        grantctl setup https://login.example.com --client-id s6BhdRkqt3 \\
          --client-secret-file secret
        grantctl setup gitlab --set host=gitlab.example.com \\
          --tool git --server gitlab.example.com
      """)

  @Argument(help: "An issuer URL, a template, or the name of a provider.")
  var provider: String?
  @Argument(help: "The account's name. Default: the provider's name.")
  var account: String?
  @Option(help: "The provider's name. Default: the template's, or the issuer's host.")
  var name: String?
  @Option(help: ArgumentHelp("A client that the provider has already.", valueName: "id"))
  var clientId: String?
  @Option(
    help: ArgumentHelp("The secret of that client; “-” reads standard input.", valueName: "path"),
    completion: .file())
  var clientSecretFile: String?
  @Option(
    help: ArgumentHelp("The token that the issuer requires for a registration.", valueName: "path"),
    completion: .file())
  var initialAccessTokenFile: String?
  @Option(
    help: ArgumentHelp("Certificate authorities in PEM, in addition to the system's.", valueName: "path"),
    completion: .file())
  var caFile: String?
  @Option(help: "A scope that logins request. Can be repeated.")
  var scope: [String] = []
  @Option(help: ArgumentHelp("A variable of the template, such as host. Can be repeated.", valueName: "name=value"))
  var set: [String] = []
  @Flag(help: "Sign in on another device, with a code that is shown here.")
  var device = false
  @Flag(help: "Read the URL at which the browser ended from standard input.")
  var manual = false
  @Flag(help: "Print URLs instead of opening the browser.")
  var noBrowser = false
  @Flag(help: "Add the provider only: no checks and no sign-in.")
  var providerOnly = false
  @Flag(help: "Do not send the authorization request before the sign-in.")
  var skipProbe = false
  @Option(help: "A program that will use the account, as for “grantctl configure”.")
  var tool: String?
  @Option(help: "The server of that program.")
  var server: String?
  @Flag(help: "Write the configuration of --tool without a question.")
  var yes = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard !(device && manual) else { throw ValidationError("Only one of --device and --manual can be given.") }
    if clientSecretFile != nil, clientId == nil { throw ValidationError("--client-secret-file needs --client-id.") }
    if initialAccessTokenFile != nil, clientId != nil {
      throw ValidationError("Only one of --initial-access-token-file and --client-id can be given.")
    }
    if providerOnly, account != nil || tool != nil || device || manual {
      throw ValidationError("--provider-only takes no account, no --tool, no --device and no --manual.")
    }
    if server != nil, tool == nil { throw ValidationError("--server needs --tool.") }
    _ = try NameValue.parse(set, option: "--set")
  }

  /// The options that were given, for a command to copy; without those of each command.
  var optionWords: [String] {
    let values: [(String, String?)] = [
      ("--name", name), ("--client-id", clientId), ("--client-secret-file", clientSecretFile),
      ("--initial-access-token-file", initialAccessTokenFile), ("--ca-file", caFile), ("--tool", tool),
      ("--server", server),
    ]
    let lists: [(String, [String])] = [("--scope", scope), ("--set", set)]
    let flags: [(String, Bool)] = [
      ("--device", device), ("--manual", manual), ("--no-browser", noBrowser), ("--provider-only", providerOnly),
      ("--skip-probe", skipProbe), ("--yes", yes),
    ]
    var words: [String] = []
    for (option, value) in values { if let value { words += [option, value] } }
    for (option, texts) in lists { for text in texts { words += [option, text] } }
    return words + flags.filter(\.1).map(\.0)
  }

  func run(in shell: Shell) async throws(Failure) {
    var setup = Setup(self, shell)
    try await setup.run()
  }
}
