import AsyncClient
import BlockingClient
import BrokerAPI
import BrokerSocket

/// What a command works with: the terminal, and what every command was told.
struct Shell: Sendable {
  struct Settings: Sendable {
    var wish = SocketChoice.Wish()
    var isJSON = false
    /// Standard output is for the result alone, as with `isJSON`.
    var keepsOutput = false
    /// Seconds; nil: the command's own.
    var timeout: Double?
  }

  /// For an answer, where the person does not say.
  static let patience = Duration.seconds(90)
  /// The same where a person may have to allow it first: the longest that a rule gives them, and then the answer.
  static let patienceForRelease = Duration.seconds(360)
  /// The same for an exchange with an actor: a release of two accounts, each of which may wait for a person.
  static let patienceForTwo = Duration.seconds(660)
  /// What a broker that was told its deadline may be late.
  private static let grace = Duration.seconds(5)
  private static let connecting = Duration.seconds(10)

  let terminal: Terminal
  var settings: Settings

  var isJSON: Bool { settings.isJSON }
  var keepsOutput: Bool { settings.isJSON || settings.keepsOutput }
  var now: Int64 { terminal.now() }

  var choice: SocketChoice {
    SocketChoice(settings.wish, environment: terminal.environment, uid: terminal.uid, exists: terminal.files.exists)
  }

  /// Each broker that may be meant: the one that was named, else the person's own and the system's.
  var choices: [SocketChoice] {
    SocketChoice.all(
      settings.wish, environment: terminal.environment, uid: terminal.uid, system: terminal.systemSocket,
      exists: terminal.files.exists)
  }

  func connect() async throws(Failure) -> SocketClient { try await connect(to: choice) }

  func connect(to choice: SocketChoice) async throws(Failure) -> SocketClient {
    do throws(SocketClientError) {
      return try await SocketClient.connect(path: choice.path, timeout: Self.connecting) { uid in
        choice.isNamed || ServerOwner.isExpected(uid, at: choice.path)
      }
    } catch {
      if case .notRunning = error { throw choice.notRunning(terminal.services) }
      throw Failure(error)
    }
  }

  /// Calls one method on a connection of its own.
  func ask<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params
  ) async throws(Failure) -> MethodResult<Method> {
    let notice = noticeOfConfirmation(Method.name, of: params)
    defer { notice?.cancel() }
    if let text = Self.slow[Method.name] {
      return try await showing(text) { _ throws(Failure) in
        MethodResult(json: try await askOverRestart(Method.name, JSON(encoding: params)))
      }
    }
    return MethodResult(json: try await askOverRestart(Method.name, JSON(encoding: params)))
  }

  func ask<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params, on client: SocketClient
  ) async throws(Failure) -> MethodResult<Method> {
    MethodResult(json: try await ask(Method.name, JSON(encoding: params), on: client))
  }

  func ask(_ method: String, _ params: JSON?, on client: SocketClient) async throws(Failure) -> JSON {
    do throws(SocketClientError) {
      return try await client.call(method: method, params: params, timeout: limit(of: method, params))
    } catch {
      throw Failure(error)
    }
  }

  /// Methods that wait for a provider or for the disk, and the text of the line that shows it.
  private static let slow = [
    AccountRefresh.name: "Refreshing the token", AccountLogout.name: "Revoking the tokens",
    AccountUserinfo.name: "Asking the provider", AccountSessions.name: "Asking the provider",
    AccountImport.name: "Trying the refresh token", TokenIntrospect.name: "Asking the provider",
    LoginPassword.name: "Signing in", ProviderRegister.name: "Registering at the provider",
    ProviderUnregister.name: "Removing the client at the provider", StoreRotateKey.name: "Rotating the key",
  ]

  /// How long an answer may take.
  func limit(of method: String, _ params: JSON?) -> Duration {
    // Where the broker keeps the deadline its answer is the better one.
    let keepsDeadline = params?["timeout"] != nil
    let limit = settings.timeout.map { Duration.seconds($0) + (keepsDeadline ? Self.grace : .zero) }
    return limit ?? Self.standardTimeout(of: method, params)
  }
}

extension Shell {
  /// How long an answer may take where the person does not say.
  static func standardTimeout(of method: String, _ params: JSON?) -> Duration {
    guard Methods.named(method) is any TokenRelease.Type else { return patience }
    return method == TokenExchange.name && params?["actor"] != nil ? patienceForTwo : patienceForRelease
  }
}

/// A method's result: as it came, and as its type.
struct MethodResult<Method: RPCMethod>: Sendable {
  let json: JSON

  func value() throws(Failure) -> Method.Result {
    do throws(ParamsError) {
      return try json.decode(Method.Result.self, root: "result")
    } catch {
      throw Failure(SocketClientError.malformed(error.description))
    }
  }
}

// MARK: What is printed

extension Shell {
  /// One JSON object: over several lines for people, on one for programs.
  func print(_ json: JSON) {
    terminal.printWhole(SafeText.json(terminal.isOutTTY ? json.pretty() : Self.line(json)))
  }

  /// On one line in any case.
  static func line(_ json: JSON) -> String { SafeText.json(json.text()) }

  func print(_ table: TextTable) {
    terminal.print(table.lines(width: terminal.width, colour: terminal.usesColour))
  }

  func print(_ fields: FieldList) {
    terminal.print(fields.lines(within: terminal.width, colour: terminal.usesColour, isCut: false))
  }

  func report(_ failure: Failure) {
    if isJSON {
      terminal.note(SafeText.json(terminal.isErrTTY ? failure.json.pretty() : Self.line(failure.json)))
      return
    }
    terminal.note(
      broken(SafeText.lines("grantctl: " + terminal.users.named(failure.message))).joined(separator: "\n  "))
    let hints = failure.hints.flatMap(SafeText.lines).map { adapted(terminal.users.named($0)) }
    for line in broken(hints) { terminal.note("  " + line) }
  }

  /// Lines that fit a terminal with two columns before them; whole where nobody looks, for logs and programs.
  private func broken(_ lines: [String]) -> [String] {
    guard terminal.isErrTTY else { return lines }
    let columns = max(24, (terminal.screen?.columns ?? 80) - 2)
    // Of one that fits, such as a rule to copy, the spaces stay as they are.
    return lines.flatMap { SafeText.width($0) <= columns ? [$0] : SafeText.wrapped($0, columns: columns) }
  }

  /// Opens a web address; false where no browser did.
  ///
  /// - Parameter user: whose browser it has to be, where that is another user than runs this program.
  func openBrowser(_ url: String, to purpose: String, of user: UInt32? = nil) async -> Bool {
    // With sudo the variable is root's.
    if user == nil { noteAbsentBrowser() }
    var commands = Browser.commands(for: url, on: terminal)
    if let user { commands = commands.compactMap { BrowserOwner.command($0, as: user, on: terminal) } }
    for command in commands {
      let isOpen = await terminal.programs.launch(command)
      // The user has ended it.
      guard !Task.isCancelled else { return false }
      guard isOpen else {
        let opener = user.map { "the session of \(terminal.users($0))" } ?? command[0]
        terminal.note(SafeText.line("\(opener) did not open the browser."))
        continue
      }
      terminal.note(
        "Your browser opens to \(purpose). If it does not, open this URL:\n\n\(SafeText.line(url))\n")
      return true
    }
    return false
  }

  private func noteAbsentBrowser() {
    let absent = Browser.absent(on: terminal)
    guard let first = absent.first else { return }
    let words =
      absent.count == 1
      ? "The program \(first) of $BROWSER was not found."
      : "The programs \(absent.joined(separator: ", ")) of $BROWSER were not found."
    terminal.note(SafeText.line(words))
  }

  /// Prints a URL for the user to open.
  ///
  /// - Parameter user: the required user of the browser, such as `of uid 1000`; nil: any user.
  func show(_ url: String, to purpose: String, whose user: String? = nil) {
    terminal.note("To \(purpose), open this URL in a browser\(user.map { " \($0)" } ?? ""):")
    let line = SafeText.line(url)
    if keepsOutput { terminal.note(line) } else { terminal.printWhole(line) }
  }

  /// The lines that say who was signed in.
  func signedIn(to account: String, as person: String?, at place: String) -> [String] {
    let who = person.map { " as \($0)" } ?? ""
    let line = SafeText.line("Signed in to \(account)\(who) at \(place)")
    return terminal.width.map { SafeText.wrapped(line, columns: $0) } ?? [line]
  }

  /// A command for people to copy that reaches the same broker: `grantctl token work --system`.
  func command(_ words: String) -> String { "grantctl \(words)\(settings.wish.options)" }

  /// A hint whose commands reach the same broker. A command that names the broker already is unchanged.
  func adapted(_ hint: String) -> String {
    let options = settings.wish.options
    guard !options.isEmpty else { return hint }
    let parts = hint.split(separator: "`", omittingEmptySubsequences: false)
    return parts.enumerated().map { index, part in
      let isCommand = index % 2 == 1 && index < parts.count - 1 && part.hasPrefix("grantctl ")
      let words = String(part)
      let isNamed = (words + " ").contains(options + " ")
      return isCommand && !isNamed ? words + options : words
    }.joined(separator: "`")
  }
}
