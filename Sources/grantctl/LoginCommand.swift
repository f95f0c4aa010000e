import ArgumentParser
import BrokerAPI

struct LoginCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "login", abstract: "Sign in at a provider in the browser, or on another device.",
    discussion: """
      Opens the browser where there is one, else prints the address to open, and waits until you have signed in. \
      On a machine without a browser, use --device: open a short address on your telephone and enter the code that \
      is shown here (RFC 8628). Where the provider has no such thing, use --manual: open the address anywhere, and \
      paste the address that the browser ends at.

      Examples:
        grantctl login google work
        grantctl login google work --scope openid --scope email
        grantctl login google work --device
        grantctl login google work --manual
        grantctl login --list
      """)

  @Argument(help: "The provider's name in the configuration.")
  var provider: String?
  @Argument(help: "The name that the account will have. Default: the provider's name.")
  var account: String?
  @Option(help: "A scope to ask for, instead of the configured ones; may be repeated.")
  var scope: [String] = []
  @Option(help: "The resource that the tokens are for (RFC 8707).")
  var resource: String?
  @Option(help: "How the provider should prompt: consent, login, select_account, …")
  var prompt: String?
  @Option(help: ArgumentHelp("Who is going to sign in, such as an e-mail address.", valueName: "who"))
  var loginHint: String?
  @Option(
    help: ArgumentHelp("A further parameter of the authorization request; may be repeated.", valueName: "name=value"))
  var param: [String] = []
  @Flag(help: "Print the address on standard output instead of opening the browser.")
  var noBrowser = false
  @Flag(help: "Read the address that the browser ended at from standard input.")
  var manual = false
  @Flag(help: "Sign in on another device, with a code that is shown here (RFC 8628).")
  var device = false
  @Option(help: "With --device: draw a QR code. By default, where the terminal can show it.")
  var qr: QRWish?
  @Option(
    help: ArgumentHelp(
      "Sign in with this name, and a password from standard input (RFC 6749 §4.3).", valueName: "username"))
  var password: String?
  @Flag(help: "List the logins that wait for a person.")
  var list = false
  @Option(help: ArgumentHelp("End a login that waits.", valueName: "id"))
  var cancel: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard [list, cancel != nil, provider != nil].filter({ $0 }).count == 1 else {
      throw ValidationError(
        provider == nil && !list && cancel == nil
          ? "Missing expected argument '<provider>'. “grantctl providers” lists the configured ones."
          : "Only one of a provider, --list and --cancel can be given.")
    }
    guard !(device && manual) else { throw ValidationError("Only one of --device and --manual can be given.") }
    guard password == nil || !(device || manual || resource != nil || !param.isEmpty) else {
      throw ValidationError("--password goes with --scope alone.")
    }
    guard device || qr == nil else { throw ValidationError("--qr goes with --device.") }
    _ = try parameters()
  }

  func run(in shell: Shell) async throws(Failure) {
    if list { return try await sayLogins(shell) }
    if let cancel { return try await end(cancel, shell) }
    guard let provider else { return }
    let scopes = Self.words(scope)
    if let password { return try await signIn(password, at: provider, scopes, shell) }
    let params = LoginStart.Params(
      provider: provider, account: account, scopes: scopes.isEmpty ? nil : scopes, resource: resource,
      destinations: manual ? ["manual"] : device ? ["device"] : nil, prompt: prompt, login_hint: loginHint,
      params: try? parameters())
    let flow = LoginFlow(
      shell: shell, client: try await shell.connect(), isBrowserWanted: !noBrowser, qr: qr ?? .auto)
    try await flow.run(params)
  }

  private func signIn(
    _ username: String, at provider: String, _ scopes: [String], _ shell: Shell
  ) async throws(Failure) {
    // Nobody should type a password for a broker that is not there.
    _ = try await shell.connect()
    let secret = try await SecretInput(shell: shell, what: "password").readStandardInput()
    let answer = try await shell.ask(
      LoginPassword.self,
      .init(
        provider: provider, account: account, username: username, password: secret,
        scopes: scopes.isEmpty ? nil : scopes))
    if shell.isJSON { return shell.say(answer.json) }
    let view = try answer.value()
    shell.terminal.say(SafeText.line("Signed in: \(view.account) at \(view.provider)"))
  }

  /// Scopes, also where several stand in one argument (RFC 6749 §3.3).
  static func words(_ arguments: [String]) -> [String] {
    arguments.flatMap { $0.split(separator: " ").map(String.init) }
  }

  private func parameters() throws -> [String: String]? {
    var parameters: [String: String] = [:]
    for text in param {
      let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, !parts[0].isEmpty else { throw ValidationError("--param is name=value, not “\(text)”.") }
      guard parameters.updateValue(String(parts[1]), forKey: String(parts[0])) == nil else {
        throw ValidationError("--param \(parts[0]) is given twice.")
      }
    }
    return parameters.isEmpty ? nil : parameters
  }

  private func sayLogins(_ shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(LoginList.self, NoParams())
    if shell.isJSON { return shell.say(answer.json) }
    let logins = try answer.value().logins
    if logins.isEmpty { return shell.terminal.say("No logins wait.") }
    let rows = logins.map { login in
      Table.Row(cells: [
        Cell(login.login_id), Cell(login.account), Cell(login.provider),
        Cell(TimeText.ago(login.started_at, now: shell.now)), Cell(TimeText.expiry(login.expires_at, now: shell.now)),
      ])
    }
    shell.say(Table(titles: ["ID", "ACCOUNT", "PROVIDER", "STARTED", "ENDS IN"], shrinkable: [1, 2], rows: rows))
  }

  private func end(_ id: String, _ shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(LoginCancel.self, .init(login_id: id))
    if shell.isJSON { return shell.say(answer.json) }
    shell.terminal.say(try answer.value().cancelled ? "Cancelled." : "It had ended already.")
  }
}
