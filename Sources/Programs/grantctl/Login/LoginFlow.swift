import AsyncClient
import BrokerAPI

/// One login, from its start to its end, as a person sees it.
struct LoginFlow: Sendable {
  /// A login that waits, and where the person is.
  struct Waiting: Sendable {
    var id: String
    /// As the person named them; nil where they named only the login.
    var provider: String?
    var account: String?
    /// When it is too late, in Unix seconds.
    var expiresAt: Int64
    var place: LoginDestinations.Opened?
    /// The first place that was offered.
    var offered: LoginWait.Opened?
    /// Another process began it, and shows its page.
    var isJoined = false
    /// What to do about an error page of the provider in the browser; nil: nothing is known, or no browser is used.
    var advice: String?
    let interrupts: LoginInterrupts
  }

  let shell: Shell
  let client: SocketClient
  var places: LoginDestinations
  /// Answers for a provider that requires more than a sign-in.
  var given = LoginAnswers()
  /// The next step after a login that did not complete; nil: the same `grantctl login`.
  var continuation: String?
  /// Whether an error page in the browser may be about the client.
  var advises = true
  /// Whether the result of a completed login is printed; a command that does more reports it itself.
  var reportsResult = true
  static let ending = Duration.seconds(5)
  /// A login that `login.list` does not name has ended, or is not ours: `login.wait` says which.
  private static let unlisted: Int64 = 600

  var terminal: Terminal { shell.terminal }

  func run(_ params: LoginStart.Params) async throws(Failure) {
    let login = try await start(params)
    let interrupts = LoginInterrupts(terminal.interrupts())
    for warning in login.warnings.flatMap(SafeText.lines) { terminal.note("warning: \(warning)") }
    let isJoined = login.joined ?? false
    let tell: LoginDestinations.Tell = { opened in
      // The process that began it has reported its destination.
      if isJoined { return }
      let params = LoginWait.Params(login_id: login.login_id, timeout: 0, opened: opened)
      _ = try? await client.call(LoginWait.self, params, timeout: Self.ending)
    }
    var places = places
    if isJoined {
      places.isBrowserWanted = false
      terminal.note("Another process has begun this sign-in, and its page may be open already.")
    }
    let again = continuation(params.provider, params.account)
    let opened = try await interruptible(login, isJoined, again, interrupts) { [places] in
      await places.open(login.destinations, at: params.provider, tell: tell)
    }
    guard var place = opened else {
      if !isJoined { await cancel(login.login_id) }
      throw Failure(
        .failure, "the broker offers no way to sign in that grantctl knows",
        hints: ["grantctl and grantd may be of different versions: `grantctl version`."])
    }
    let advice = advice(login, place)
    if isJoined { place.destination = nil }
    let waiting = Waiting(
      id: login.login_id, provider: params.provider, account: params.account ?? params.provider,
      expiresAt: min(place.expiresAt ?? .max, login.expires_at), place: place,
      offered: login.destinations.first.map { .init(kind: $0.kind, app: $0.app) }, isJoined: isJoined,
      advice: advice, interrupts: interrupts)
    try await follow(waiting)
  }

  private enum Outcome: Sendable {
    case opened(LoginDestinations.Opened?)
    case interrupted
  }

  /// Opens the page. An interrupt during this time ends the login, and not only this process.
  private func interruptible(
    _ login: LoginStart.Result, _ isJoined: Bool, _ again: String, _ interrupts: LoginInterrupts,
    _ open: @escaping @Sendable () async -> LoginDestinations.Opened?
  ) async throws(Failure) -> LoginDestinations.Opened? {
    let (outcomes, feed) = AsyncStream.makeStream(of: Outcome.self)
    let opening = Task { _ = feed.yield(.opened(await open())) }
    interrupts.handle { feed.yield(.interrupted) }
    defer {
      interrupts.handle(by: nil)
      opening.cancel()
    }
    for await outcome in outcomes {
      if case .opened(let opened) = outcome { return opened }
      break
    }
    // First: no other browser opens.
    opening.cancel()
    if !isJoined { await cancel(login.login_id) }
    throw Self.interrupted(isJoined: isJoined, hints: [again])
  }

  static func interrupted(isJoined: Bool, hints: [String]) -> Failure {
    Failure(
      .interrupted, isJoined ? "interrupted: the login stays pending" : "interrupted: the login is cancelled",
      hints: hints)
  }

  /// The next step after a login that did not complete.
  func continuation(_ provider: String?, _ account: String?) -> String {
    let words = [provider, account].compactMap(\.self).map { " " + ShellWord.quoted($0) }.joined()
    return continuation ?? "Start again with `\(shell.command("login\(words)"))`."
  }

  /// Servers report a wrong client ID or redirect URI to the user alone (RFC 6749 §4.1.2.1).
  private func advice(_ login: LoginStart.Result, _ place: LoginDestinations.Opened) -> String? {
    guard advises, place.destination?.kind != "device",
      let uri = login.destinations.lazy.compactMap(\.redirect_uri).first, let client = login.client_id
    else { return nil }
    return "Error page in the browser? Register \(uri) for client ID \(client), or check the client ID."
  }

  /// Where another user's login has to end first, it waits for its turn as long as a person watches.
  private func start(_ params: LoginStart.Params) async throws(Failure) -> LoginStart.Result {
    let longest = Double(Self.unlisted)
    let end = shell.now + Int64(min(shell.settings.timeout ?? longest, longest).rounded(.up))
    var isTold = false
    while true {
      do throws(Failure) {
        return try await shell.showing("Asking \(params.provider)") { activity throws(Failure) in
          let naming = Task { await name(of: params.provider, for: activity) }
          defer { naming.cancel() }
          return try await shell.ask(LoginStart.self, params, on: client).value()
        }
      } catch {
        guard terminal.canAsk, error.rpc?.reason == .loginInProgress, let pause = error.rpc?.retry_after,
          shell.now < end
        else { throw error }
        if !isTold { terminal.note(SafeText.line("\(error.message). Waiting for it; Ctrl-C ends this.")) }
        isTold = true
        try? await Task.sleep(for: .seconds(min(max(pause, 1), 30, Double(max(end - shell.now, 1)))))
      }
    }
  }

  /// Shows the provider's host, once the provider is slow to answer.
  private func name(of provider: String, for activity: Activity) async {
    guard !shell.isJSON, terminal.canRedraw, (try? await Task.sleep(for: .milliseconds(300))) != nil,
      let client = try? await shell.connect(),
      // Not provider.get, which asks the provider for its metadata.
      let views = try? await shell.ask(ProviderList.self, NoParams(), on: client).value().providers,
      let host = views.first(where: { $0.provider == provider })?.host
    else { return }
    activity.update("Asking \(host)")
  }

  /// Goes on with a login that was started before.
  func resume(_ id: String) async throws(Failure) {
    let logins = try await shell.ask(LoginList.self, NoParams(), on: client).value().logins
    let login = logins.first { $0.login_id == id }
    var waiting = Waiting(
      id: id, provider: login?.provider, account: login?.account,
      expiresAt: login?.expires_at ?? shell.now + Self.unlisted, interrupts: LoginInterrupts(terminal.interrupts()))
    if login?.state == .pending, terminal.canAsk {
      terminal.note(
        "If you have signed in already, paste the final URL of the browser, and press Enter.")
      waiting.place = .init(reads: true)
    }
    try await follow(waiting)
  }

  private func follow(_ login: Waiting) async throws(Failure) {
    let progress = Progress(
      terminal: terminal, expiresAt: login.expiresAt, isQuiet: login.place?.reads ?? false)
    progress.begin()
    let result: JSON
    do throws(Failure) {
      result = try await LoginWatch(flow: self, login: login, progress: progress).result()
      progress.end()
    } catch {
      progress.end()
      throw error
    }
    try conclude(result, login)
  }

  private func conclude(_ json: JSON, _ login: Waiting) throws(Failure) {
    if shell.isJSON { return shell.print(json) }
    let result = try MethodResult<LoginWait>(json: json).value()
    if let code = result.authorization_code {
      let code = try TokenCommand.printable(code)
      terminal.note("Signed in\(way(result, login)). Nothing is stored: this is the authorization code.")
      return terminal.printWhole(code)
    }
    for warning in (result.warnings ?? []).flatMap(SafeText.lines) { terminal.note("warning: \(warning)") }
    guard reportsResult else { return }
    let name = result.account?.account ?? login.account ?? ""
    let provider = result.account?.provider ?? login.provider ?? "the provider"
    terminal.print(
      shell.signedIn(to: name, as: result.account?.identity?.bestName, at: "\(provider)\(way(result, login))"))
    terminal.print("Get a token with:", command: shell.command("token \(ShellWord.quoted(name))"))
  }

  /// The place that was used; empty if none was reported.
  private func way(_ result: LoginWait.Result, _ login: Waiting) -> String {
    guard let used = result.destination_used else { return "" }
    // An app is named only if `--app` was given.
    let isNamed = places.namesAbsentApps || login.offered?.kind != "native"
    guard result.fell_back == true, isNamed else { return ", \(used.words)" }
    return ", \(used.words), not \(login.offered?.words ?? "the first way that was offered")"
  }

  func cancel(_ id: String) async {
    _ = try? await client.call(LoginCancel.self, .init(login_id: id), timeout: Self.ending)
  }
}

extension ProviderView {
  /// The host of the issuer.
  var host: String? {
    guard let issuer, let scheme = issuer.firstRange(of: "://") else { return nil }
    let host = issuer[scheme.upperBound...].prefix { $0 != "/" }
    return host.isEmpty ? nil : String(host)
  }
}

extension LoginWait.Opened {
  /// Such as `in the browser`. A kind of a newer broker is said as it came.
  fileprivate var words: String {
    switch (kind, app) {
    case ("native", let app?): SafeText.line("in the app \(app)")
    case ("native", nil): "in an app"
    case ("browser", _): "in the browser"
    case ("device", _): "on another device"
    case ("manual", _): "by a printed URL"
    default: SafeText.line("by \(kind)")
    }
  }
}
