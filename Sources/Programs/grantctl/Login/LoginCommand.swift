import ArgumentParser
import BrokerAPI
import ProviderTemplates

struct LoginCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "login", abstract: "Sign in and create an account.",
    usage: "grantctl login <provider> [<account>] [options]",
    discussion: """
      Opens the browser, or prints the URL to open if there is none, and waits until you have signed in. On a machine \
      without a browser use --device: open a short URL on your phone and enter the code (RFC 8628). If the provider does \
      not support it, use --manual: open the URL anywhere, and paste the final URL of the browser.

      Configured apps of the provider are tried first, if they are installed.

      A provider may require more than a sign-in, such as a session to replace or further attributes. \
      You are asked; --replace-session and --attribute answer ahead. Without a terminal the login stays pending: \
      “grantctl login continue ID” continues it, even after a restart of grantd. “grantctl login list” lists pending \
      logins, “grantctl login cancel ID” ends one.

      The URL of an MCP server, or of another resource that publishes its authorization server (RFC 9728), is enough: \
      its provider is stored with a client of a provider at that issuer, of the configured client metadata, or of a \
      registration.

      Examples:
        grantctl login google work
        grantctl login https://mcp.example.com/mcp notes
        grantctl login google work --scope openid --scope email
        grantctl login google work --device
        grantctl login google work --manual
        grantctl login uber --app rides --app eats --prefill email=ada@example.com
        code=$(grantctl login uber --code-only)
        grantctl login cameras --replace-session oldest
      """)

  @Argument(help: "The provider's name, or the URL of a protected resource.")
  var provider: String
  @Argument(help: "The name that the account will have. Default: the provider's name.")
  var account: String?
  @Option(help: "Scope to request, instead of the configured ones. Can be repeated.")
  var scope: [String] = []
  @Option(help: "The resource that the tokens are for (RFC 8707).")
  var resource: String?
  @Option(help: "The audience that the tokens are for, if the provider takes one.")
  var audience: String?
  @OptionGroup var resourceChoice: ResourceChoice
  @Option(help: "How the provider should prompt: consent, login, select_account, …")
  var prompt: String?
  @Option(help: ArgumentHelp("Who is going to sign in, such as an e-mail address.", valueName: "who"))
  var loginHint: String?
  @Option(
    help: ArgumentHelp("Parameter of the authorization request. Can be repeated.", valueName: "name=value"))
  var param: [String] = []
  @Option(
    help: ArgumentHelp(
      "Provider's application to try, instead of the configured ones. Repeatable.", valueName: "name"))
  var app: [String] = []
  @Option(help: ArgumentHelp("Identity provider to sign in with, if the provider supports several.", valueName: "name"))
  var idp: String?
  @Option(
    help: ArgumentHelp(
      "Prefill the form: email, phone, first_name or last_name. Repeatable.",
      valueName: "name=value"))
  var prefill: [String] = []
  @Flag(help: "Print only the authorization code, and create no account.")
  var codeOnly = false
  @OptionGroup var given: PresetAnswers
  @Flag(help: "Print the URL instead of opening the browser.")
  var noBrowser = false
  @Option(
    help: ArgumentHelp(
      "The user whose browser may sign in. Default: you, also through sudo or pkexec.",
      valueName: "user"), transform: RunningAs.uid(named:))
  var browserUid: UInt32?
  @Flag(help: "Read the URL at which the browser ended from standard input.")
  var manual = false
  @Flag(help: "Sign in on another device, with a code that is shown here (RFC 8628).")
  var device = false
  @Option(help: "With --device: draw a QR code. By default, if the terminal can show it.")
  var qr: QRWish?
  @Option(
    help: ArgumentHelp(
      "Sign in with this name, and a password from standard input (RFC 6749 §4.3).", valueName: "name"))
  var username: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard !(device && manual) else { throw ValidationError("Only one of --device and --manual can be given.") }
    guard username == nil || !hasBrowserWishes else {
      throw ValidationError("--username can only be combined with --scope.")
    }
    guard device || qr == nil else { throw ValidationError("--qr goes with --device.") }
    guard resourceChoice.isEmpty || Browser.isWebAddress(provider) else {
      throw ValidationError("--issuer, --client-id and --name go with the URL of a resource.")
    }
    _ = try NameValue.parse(param, option: "--param")
    try checkPrefill()
  }

  /// Options that only a login by browser or app has.
  private var hasBrowserWishes: Bool {
    device || manual || resource != nil || !param.isEmpty || !app.isEmpty || idp != nil || !prefill.isEmpty
      || browserUid != nil || codeOnly
  }

  private static let prefillNames = ["email", "phone", "first_name", "last_name"]

  private func checkPrefill() throws {
    let unknown = try NameValue.parse(prefill, option: "--prefill").keys.sorted().first {
      !Self.prefillNames.contains($0)
    }
    guard let unknown else { return }
    throw ValidationError("--prefill knows \(Self.prefillNames.joined(separator: ", ")), not “\(unknown)”.")
  }

  func run(in shell: Shell) async throws(Failure) {
    var shell = shell
    shell.settings.keepsOutput = codeOnly
    if let username { return try await signIn(username, at: provider, shell) }
    let browser = browserUid ?? BrowserOwner.invoker(shell.terminal)
    var places = LoginDestinations(
      shell: shell, isBrowserWanted: !noBrowser, qr: qr ?? .auto, namesAbsentApps: !app.isEmpty)
    places.otherUser = browser == shell.terminal.uid ? nil : browser
    let flow = LoginFlow(
      shell: shell, client: try await shell.connect(), places: places,
      given: LoginAnswers(session: given.replaceSession, attributes: (try? given.attributes()) ?? [:]))
    do throws(Failure) {
      guard Browser.isWebAddress(provider), !codeOnly else {
        return try await flow.run(params(provider, browser: browser))
      }
      let resource = ResourceLogin(
        shell: shell, url: provider, issuer: resourceChoice.issuer, clientID: resourceChoice.clientId,
        name: resourceChoice.name, scopes: Self.words(scope))
      let found = try await resource.provider()
      try await flow.run(params(found.provider, browser: browser))
      if !shell.isJSON { resource.showUse(of: account ?? found.provider) }
    } catch {
      // The URL may be an issuer's.
      if Browser.isWebAddress(provider), error.rpc?.reason == .unsupportedByProvider {
        let failure = Failure(.unknownName, error.message, hints: error.hints)
        return try await offerSetup(provider, failure, shell)
      }
      guard error.rpc?.reason == .unknownProvider else { throw error }
      try await offerSetup(provider, error, shell)
    }
  }

  /// A template or an issuer: `setup` continues.
  private func offerSetup(_ provider: String, _ failure: Failure, _ shell: Shell) async throws(Failure) {
    guard SetupTemplate.named(provider) != nil || IssuerText(provider) != nil else {
      if Browser.isWebAddress(provider) { throw failure }
      throw await UnknownProvider(shell: shell, name: provider, account: account).explained(failure)
    }
    let words = [provider] + [account].compactMap(\.self)
    let command = shell.command((["setup"] + words).map(ShellWord.quoted).joined(separator: " "))
    var failure = failure
    failure.hints = (Browser.isWebAddress(provider) ? failure.hints : []) + ["`\(command)` sets it up."]
    guard shell.terminal.canAsk, !shell.isJSON, !codeOnly else { throw failure }
    let options =
      [("--device", device), ("--manual", manual), ("--no-browser", noBrowser)].filter(\.1).map(\.0)
      + scope.flatMap { ["--scope", $0] } + shell.settings.wish.arguments
    guard let given = try? SetupCommand.parse(words + options) else { throw failure }
    var setup = Setup(given, shell)
    shell.terminal.note(SafeText.line("\(failure.message)."))
    guard try await setup.questions.agrees("Set it up now?", standard: true) else { throw failure }
    try await setup.run()
  }

  private func params(_ provider: String, browser: UInt32?) -> LoginStart.Params {
    func values(_ arguments: [String]) -> [String: String]? {
      arguments.isEmpty ? nil : try? NameValue.parse(arguments, option: "")
    }
    return LoginStart.Params(
      provider: provider, account: account, scopes: Self.scopes(scope), resource: resource,
      audience: audience, destinations: manual ? ["manual"] : device ? ["device"] : nil, prompt: prompt,
      login_hint: loginHint,
      params: values(param), apps: app.isEmpty ? nil : app, idp: idp, prefill: values(prefill),
      exchange: codeOnly ? false : nil, browser_uid: browser, join: codeOnly ? nil : true)
  }

  private func signIn(_ username: String, at provider: String, _ shell: Shell) async throws(Failure) {
    // Nobody should type a password for a broker that is not there.
    _ = try await shell.connect()
    let secret = try await SecretInput(shell: shell, what: "password").readStandardInput()
    let answer = try await shell.ask(
      LoginPassword.self,
      .init(
        provider: provider, account: account, username: username, password: secret,
        scopes: Self.scopes(scope)))
    if shell.isJSON { return shell.print(answer.json) }
    let view = try answer.value()
    shell.terminal.print(shell.signedIn(to: view.account, as: view.identity?.bestName, at: view.provider))
  }

  /// Scopes, also where several stand in one argument (RFC 6749 §3.3).
  static func words(_ arguments: [String]) -> [String] {
    arguments.flatMap { $0.split(separator: " ").map(String.init) }
  }

  /// Nil: none was given.
  static func scopes(_ arguments: [String]) -> [String]? {
    let scopes = words(arguments)
    return scopes.isEmpty ? nil : scopes
  }
}

/// The choices of a login from a resource's URL.
struct ResourceChoice: ParsableArguments {
  @Option(help: ArgumentHelp("With a URL: the authorization server, if there are several.", valueName: "url"))
  var issuer: String?
  @Option(help: ArgumentHelp("With a URL: the identifier of a client registered by hand.", valueName: "id"))
  var clientId: String?
  @Option(help: "With a URL: the name of the new provider. Default: from the URL.")
  var name: String?

  var isEmpty: Bool { issuer == nil && clientId == nil && name == nil }
}
