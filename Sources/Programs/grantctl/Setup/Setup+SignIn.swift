import BrokerAPI
import PlainText

// Steps 4 to 6: the provider's answers, the sign-in, and a refresh.
extension Setup {
  /// Warnings that concern the sign-in; later steps try what the others are about.
  private static let mentioned: Set<CheckName> = [
    .configuration, .connection, .issuer, .endpoints, .keys, .clock, .redirect_uri,
  ]

  /// Problems of the provider that would stop the sign-in.
  mutating func examine(_ provider: String) async throws(Failure) {
    let checked = try await shell.ask(ProviderCheck.self, .init(provider: provider)).value()
    let own = checked.checks.filter { $0.account == nil }
    if let wrong = own.first(where: { $0.result == .failed }) {
      failed("Discovery", wrong.message)
      throw Failure(
        .configuration, "provider \(provider): \(wrong.message)", hints: wrong.hint.map { [$0] } ?? [])
    }
    let labels: [(CheckName, (String) -> String)] = [
      (.pkce, { $0.hasPrefix("S256") ? "PKCE" : $0 }), (.grant_types, { $0 }), (.clock, { _ in "clocks agree" }),
    ]
    let words = labels.compactMap { name, label in
      own.first { $0.name == name && $0.result == .ok }.map { label($0.message) }
    }
    done("Discovery", words.isEmpty ? "ok" : words.joined(separator: "; "))
    for check in own where check.result == .warning && Self.mentioned.contains(check.name) {
      mention("Discovery", check.message + (check.hint.map { ". \($0)" } ?? ""))
    }
  }

  // MARK: The probe

  /// Returns whether the provider accepts the client and its redirect URI. Throws if no sign-in shall begin.
  private mutating func probe(_ provider: String, _ account: String) async throws(Failure) -> Bool {
    guard !given.skipProbe else { return false }
    let name = "Request"
    let result: LoginProbe.Result
    do throws(Failure) {
      let scopes = LoginCommand.scopes(given.scope)
      let params = LoginProbe.Params(provider: provider, account: account, scopes: scopes)
      result = try await shell.ask(LoginProbe.self, params).value()
    } catch {
      // Other kinds of providers, and callers that may not sign in to the account: the sign-in reports it.
      guard error.rpc?.reason == .unsupportedByProvider || error.status == .notPermitted else { throw error }
      mention(name, "not tried: \(error.message)")
      return false
    }
    switch result.result {
    case .ok: done(name, result.message)
    case .skipped, .warning: mention(name, result.message + (result.hint.map { ". \($0)" } ?? ""))
    case .failed:
      failed(name, result.message)
      if let hint = result.hint { terminal.note(SafeText.line(hint)) }
      if questions.canAsk, try await questions.agrees("Sign in anyway?", standard: false) { return false }
      var hints: [String] = []
      if result.cause == "client_id" || result.cause == nil && addedProvider == provider {
        // If the client cannot be removed, the refusal is still the error that the user must see.
        hints = (try? await withdraw(provider)) ?? []
      }
      throw Failure(
        .configuration, "no sign-in began: \(provider) refuses the authorization request",
        hints: hints + ["Correct it, then run the same command again; --skip-probe leaves this check out."])
    }
    return result.result == .ok
  }

  /// A client that the provider refuses is not kept: the next run sets up another. One of an earlier run, whose settings
  /// this run may not know, is removed only if the user agrees.
  ///
  /// - Returns: the next step; nil: no other client can be set up here.
  private func withdraw(_ provider: String) async throws(Failure) -> [String]? {
    let shown = try await shell.ask(ProviderGet.self, .init(provider: provider)).value()
    guard shown.isRemovable, let issuer = shown.provider.issuer else { return nil }
    let id = shown.provider.client_id
    if addedProvider != provider {
      guard questions.canAsk, try await questions.agrees("Remove client ID \(id), to set up another?", standard: false)
      else { return given.clientId == nil ? ["Another client: `\(questions.command) --client-id ID`"] : nil }
    }
    try await unregister(provider)
    terminal.note(SafeText.line("Client ID \(id) was not kept."))
    // The provider's name is unknown from now on.
    let words = ["setup", issuer] + [given.account].compactMap(\.self) + ["--name", provider]
    let command = shell.command(words.map(ShellWord.quoted).joined(separator: " "))
    return ["Set up another client: `\(command)`\(given.clientId == nil ? "" : ", with its --client-id")"]
  }

  /// A sign-in that failed. Servers check the client's secret when they answer the code (`invalid_client`, RFC 6749 §5.2).
  private func failed(signIn failure: Failure, at provider: String) async -> Failure {
    guard failure.rpc?.oauth?.error == "invalid_client", let next = try? await withdraw(provider) else {
      return failure
    }
    var failure = failure
    // The broker's hint is about the section of a client that is kept.
    failure.hints.removeAll { $0 == failure.rpc?.hint }
    failure.hints += next
    return failure
  }

  // MARK: The sign-in

  /// Returns the account's name.
  mutating func signIn(at provider: String) async throws(Failure) -> String {
    let all = try await shell.accounts(.init(), on: shell.connect()).value().accounts
    let own = all.filter { $0.provider == provider }
    let name = given.account ?? (own.count == 1 ? own[0].account : provider)
    if let other = all.first(where: { $0.account == name && $0.provider != provider }) {
      throw Failure(
        .failure, "account \(name) is at provider \(other.provider)",
        hints: ["Choose another name: `\(shell.command("setup \(ShellWord.quoted(provider)) NAME"))`"])
    }
    if let account = own.first(where: { $0.account == name }), account.state != .loginRequired {
      done("Signed in", "\(account.identity.map { "as \($0.bestName)" } ?? name), as before")
      report(account)
      return name
    }
    let isAccepted = try await probe(provider, name)
    noteTunnel(try await shell.ask(BrokerStatus.self, NoParams()).value())
    let browser = BrowserOwner.invoker(terminal)
    var places = LoginDestinations(shell: shell, isBrowserWanted: !given.noBrowser)
    places.otherUser = browser == terminal.uid ? nil : browser
    var flow = LoginFlow(shell: shell, client: try await shell.connect(), places: places)
    flow.reportsResult = false
    flow.continuation = "The same command continues from here."
    // A client that the provider accepts, or that has an account, is not the cause of an error page.
    flow.advises = own.isEmpty && !isAccepted
    do throws(Failure) {
      try await flow.run(
        .init(
          provider: provider, account: name, scopes: LoginCommand.scopes(given.scope),
          destinations: given.manual ? ["manual"] : given.device ? ["device"] : nil, browser_uid: browser))
    } catch {
      throw await failed(signIn: error, at: provider)
    }
    let account = try await shell.ask(AccountGet.self, .init(account: name)).value()
    done("Signed in", account.identity.map { "as \($0.bestName)" } ?? name)
    try await refresh(name)
    return name
  }

  /// A browser on the other side of ssh cannot reach the callback port, unless it is forwarded.
  private func noteTunnel(_ status: BrokerStatus.Result) {
    guard !given.device, let words = terminal.environment["SSH_CONNECTION"]?.split(separator: " "), words.count == 4,
      let port = redirectURI(status).split(separator: ":").last?.prefix(while: \.isNumber), !port.isEmpty
    else { return }
    let user = terminal.environment["USER"].map { "\($0)@" } ?? ""
    let other = words[3] == "22" ? "" : "-p \(words[3]) "
    terminal.note("This is an ssh session. If your browser is on the other machine, run this there first:")
    terminal.note(SafeText.line("  ssh -L \(port):127.0.0.1:\(port) \(other)\(user)\(words[2])"))
  }

  // MARK: A refresh

  private mutating func refresh(_ account: String) async throws(Failure) {
    do throws(Failure) {
      _ = try await shell.ask(AccountRefresh.self, .init(account: account)).value()
    } catch {
      switch error.rpc?.reason {
      case .unsupportedByProvider, .loginRequired: break
      default: failed("Refresh", error.message)
      }
    }
    report(try await shell.ask(AccountGet.self, .init(account: account)).value())
  }

  /// When the account needs another sign-in.
  private mutating func report(_ account: AccountView) {
    let isRenewable = account.renewable != false && account.refresh_issued_at != nil
    switch (isRenewable, account.refresh_expires_at) {
    case (false, _):
      let end = account.expires_at.map { " in \(TimeText.duration($0 - shell.now))" } ?? ""
      mention("Refresh", "the provider gave no refresh token: sign in again when the access token ends\(end)")
    case (true, let end?):
      let left = TimeText.duration(max(0, end - shell.now))
      done("Refresh", "works; the refresh token of now ends in \(left)")
    case (true, nil): done("Refresh", "works; the provider reports no end of the refresh token")
    }
    let lost = account.lost_scopes ?? []
    if !lost.isEmpty { mention("Scopes", "a refresh lost \(lost.joined(separator: " "))") }
  }
}

extension ProviderGet.Result {
  /// Whether it is in the broker's store with a separate client that no account uses, and can be set up again.
  var isRemovable: Bool { section != nil && section_base == nil && provider.accounts == 0 && provider.issuer != nil }
}
