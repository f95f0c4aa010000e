import BrokerAPI
import ProviderTemplates

// Steps 2 and 3: the provider, and a client there.
extension Setup {
  /// What the user named.
  private enum Target {
    case existing(ProviderView)
    case template(SetupTemplate)
    case issuer(IssuerText)
  }

  /// Returns the provider's name.
  mutating func provider(_ status: BrokerStatus.Result) async throws(Failure) -> String {
    let known = try await shell.ask(ProviderList.self, NoParams()).value().providers
    switch try await target(among: known) {
    case .existing(let provider):
      if try await isReplaced(provider) { return try await replaceClient(of: provider, status) }
      done("Provider", "\(provider.provider), as before")
      return provider.provider
    case .template(let template): return try await byTemplate(template, status)
    case .issuer(let issuer): return try await byIssuer(issuer, status)
    }
  }

  private func target(among known: [ProviderView]) async throws(Failure) -> Target {
    if let word = given.provider {
      guard let found = target(word, among: known) else { throw unknown(word) }
      return found
    }
    let names = known.map(\.provider)
    if questions.canAsk {
      if !names.isEmpty { terminal.note(SafeText.line("Providers here: \(names.joined(separator: ", "))")) }
      terminal.note("Templates: \(SetupTemplate.names)")
      for program in ImportSources.present(on: terminal) {
        terminal.note("Accounts of \(program) can be imported: `\(shell.command("import --from \(program)"))`")
      }
    }
    return try await questions.answer("Template or issuer URL", flag: "https://ISSUER") { word throws(Failure) in
      guard !word.isEmpty, let found = target(word, among: known) else { throw wrongAnswer(word) }
      return found
    }
  }

  /// Nil: the word is not a provider, a template or an issuer URL.
  private func target(_ word: String, among known: [ProviderView]) -> Target? {
    let wanted = given.name ?? word
    if let provider = known.first(where: { $0.provider == wanted }) { return .existing(provider) }
    if let template = SetupTemplate.named(word) {
      let same = given.name == nil ? known.first { $0.profile == template.name } : nil
      return same.map { .existing($0) } ?? .template(template)
    }
    guard let issuer = IssuerText(word) else { return nil }
    // A name that no provider has is for a further one.
    let same = given.name == nil ? known.first { issuer.candidates.contains($0.issuer ?? "") } : nil
    if let same { return .existing(same) }
    if let template = issuer.candidates.lazy.compactMap(SetupTemplate.of).first { return .template(template) }
    return .issuer(issuer)
  }

  /// The templates are listed above the question.
  private func wrongAnswer(_ word: String) -> Failure {
    if SetupTemplate.writtenByHand.contains(word.lowercased()) { return unknown(word) }
    let example = "Enter the name of a template, or an issuer URL such as https://login.example.com."
    guard !word.isEmpty else { return Failure(.usage, "there was no answer", hints: [example]) }
    let meant = UsageHints.near(word, SetupTemplate.all.map(\.name)).map { "Did you mean \($0)?" }
    return Failure(.unknownName, "“\(word)” is not a provider, a template or an issuer URL", hints: [meant ?? example])
  }

  private func unknown(_ word: String) -> Failure {
    if SetupTemplate.writtenByHand.contains(word.lowercased()) {
      return Failure(
        .unknownName, "the section of the template \(word.lowercased()) is written by hand",
        hints: ["Write it as docs/providers.md describes. Then: `\(shell.command("reload"))`"])
    }
    let meant = UsageHints.near(word, SetupTemplate.all.map(\.name))
    return Failure(
      .unknownName, "\(SafeText.line(word)) is not a provider, a template or an issuer URL",
      hints: (meant.map { ["Did you mean `\(shell.command("setup \($0)"))`?"] } ?? []) + [
        "Templates: \(SetupTemplate.names)", "An issuer: `\(shell.command("setup https://login.example.com"))`",
      ])
  }

  /// A client that was entered wrongly, or without its secret, is replaced by the given one, as long as no account uses it.
  private mutating func isReplaced(_ provider: ProviderView) async throws(Failure) -> Bool {
    guard let id = given.clientId?.trimmed else { return false }
    let isSame = id == provider.client_id
    guard !isSame || given.clientSecretFile != nil else { return false }
    let shown = try await shell.ask(ProviderGet.self, .init(provider: provider.provider)).value()
    guard shown.isRemovable else {
      guard !isSame else {
        let show = shell.command("provider show \(ShellWord.quoted(provider.provider)) --toml")
        let reason =
          provider.accounts > 0 && shown.section != nil
          ? "accounts use this client; for another secret, write its section: `\(show)`"
          : "its section in the configuration decides"
        mention("Client", "\(id), as before. --client-secret-file has no effect: \(reason)")
        return false
      }
      throw Failure(
        .failure, "provider \(provider.provider) has another client ID: \(provider.client_id)",
        hints: [
          "Choose another name for a second client: `\(questions.command) --client-id \(ShellWord.quoted(id)) --name NAME`"
        ])
    }
    return true
  }

  /// The new client is tried under another name: the old one stays until the provider has accepted it.
  private mutating func replaceClient(
    of old: ProviderView, _ status: BrokerStatus.Result
  ) async throws(Failure) -> String {
    guard let issuer = IssuerText(old.issuer ?? "") else { throw Failure(.usage, "the provider has no issuer URL") }
    var params = try await params(issuer)
    let shown = try await shell.ask(ProviderGet.self, .init(provider: old.provider)).value()
    if given.caFile == nil, shown.section_files?.contains("tls_ca_file") == true {
      throw Failure(
        .usage, "provider \(old.provider) has its own certificate authorities",
        hints: ["Give them for the new client, too: --ca-file FILE"])
    }
    params.scopes = params.scopes ?? shown.section?["scopes"]?.array?.compactMap(\.string)
    params.resource = shown.section?["resource"]?.string
    params.api_base = shown.section?["api_base"]?.string
    let new = try await client()
    (params.client_id, params.client_secret) = (new.id, new.secret)
    // Servers compare the port with that of the registered URI.
    let known = new.id == old.client_id ? shown.section?["redirect_uri"]?.string : nil
    params.redirect_uri = known ?? (status.callback.isEmpty ? nil : redirectURI(status))
    params.provider = try await freeName("\(old.provider.prefix(56))-new")
    let trial = try await shell.ask(ProviderRegister.self, params).value().provider
    let refusal = try await refusal(of: trial)
    try await unregister(trial)
    if let refusal {
      failed("Client", refusal.message)
      throw Failure(
        .configuration,
        "provider \(old.provider) keeps client ID \(old.client_id)"
          + (new.id == old.client_id ? "" : ": \(new.id) is refused"),
        hints: (refusal.hint.map { [$0] } ?? []) + ["--skip-probe replaces it without this check."])
    }
    try await unregister(old.provider)
    params.provider = old.provider
    return try await register(params, issuer)
  }

  /// Nil: the provider accepts an authorization request of this client, or cannot be asked.
  private func refusal(of provider: String) async throws(Failure) -> LoginProbe.Result? {
    guard !given.skipProbe else { return nil }
    let result = try? await shell.ask(LoginProbe.self, .init(provider: provider, account: provider)).value()
    return result.flatMap { $0.result == .failed ? $0 : nil }
  }

  func unregister(_ provider: String) async throws(Failure) {
    _ = try await shell.ask(ProviderUnregister.self, .init(provider: provider))
  }

  // MARK: An issuer with discovery

  private mutating func byIssuer(_ issuer: IssuerText?, _ status: BrokerStatus.Result) async throws(Failure) -> String {
    guard let issuer else { throw Failure(.usage, "the provider has no issuer URL") }
    if given.clientId != nil { return try await enter(try await client(), at: issuer, status) }
    let token = try await shell.secret("initial access token", from: given.initialAccessTokenFile)
    do throws(Failure) {
      var params = try await params(issuer)
      params.initial_access_token = token
      return try await register(params, issuer)
    } catch {
      switch error.rpc?.reason {
      case .unsupportedByProvider:
        mention("Client", "\(issuer.host) does not register clients by itself")
      case .registrationRejected:
        failed("Client", error.message)
        for hint in error.hints where hint.hasPrefix("The provider said") { terminal.note(SafeText.line(hint)) }
      default: throw error
      }
      guard questions.canAsk else { throw byHand(error, issuer, status) }
    }
    explain(issuer, status)
    return try await enter(try await client(), at: issuer, status)
  }

  private func byHand(_ failure: Failure, _ issuer: IssuerText, _ status: BrokerStatus.Result) -> Failure {
    Failure(
      .actionRequired, "\(issuer.host) registers no client by itself: \(failure.message)",
      hints: [
        request(issuer, status),
        "Then: `\(questions.command) --client-id ID --client-secret-file FILE` (without a secret: only --client-id)",
      ])
  }

  /// One line to send to the administrator.
  private func request(_ issuer: IssuerText, _ status: BrokerStatus.Result) -> String {
    "For the administrator of \(issuer.host): please register a native OAuth client “grantd” with redirect URI "
      + "\(redirectURI(status)), grant types authorization_code and refresh_token, and tell me its client ID."
  }

  private func explain(_ issuer: IssuerText, _ status: BrokerStatus.Result) {
    terminal.note("Register a client on the provider's page, or ask its administrator:")
    terminal.note("Type: native or desktop application, with PKCE and refresh tokens.", after: "  1. ")
    terminal.note("Redirect URI: \(redirectURI(status))", after: "  2. ")
    terminal.note("Enter its client ID and secret here.", after: "  3. ")
    terminal.note(SafeText.line(request(issuer, status)))
  }

  /// With the port of now: servers that compare it must find the registered one (RFC 8252 §7.3 has them ignore it).
  func redirectURI(_ status: BrokerStatus.Result) -> String {
    let port = status.callback.lazy.compactMap { $0.split(separator: ":").last.flatMap { Int($0) } }.first
    return "http://127.0.0.1\(port.map { ":\($0)" } ?? "")/callback"
  }

  private mutating func enter(
    _ client: (id: String, secret: SecretText?), at issuer: IssuerText, _ status: BrokerStatus.Result
  ) async throws(Failure) -> String {
    var params = try await params(issuer)
    (params.client_id, params.client_secret) = (client.id, client.secret)
    if !status.callback.isEmpty { params.redirect_uri = redirectURI(status) }
    return try await register(params, issuer)
  }

  private func params(_ issuer: IssuerText) async throws(Failure) -> ProviderRegister.Params {
    let authorities = try shell.certificates(from: given.caFile)
    return .init(
      issuer: issuer.candidates[0], provider: try await freeName(issuer), scopes: LoginCommand.scopes(given.scope),
      ca_certificates: authorities)
  }

  /// Several issuers may share a host.
  private func freeName(_ issuer: IssuerText) async throws(Failure) -> String {
    if let name = given.name { return name }
    return try await freeName(String(issuer.host.prefix(60)).replacing(":", with: "-"))
  }

  private func freeName(_ base: String) async throws(Failure) -> String {
    let taken = Set(try await shell.ask(ProviderList.self, NoParams()).value().providers.map(\.provider))
    return ([base] + (2...99).map { "\(base)-\($0)" }).first { !taken.contains($0) } ?? base
  }

  private mutating func register(_ params: ProviderRegister.Params, _ issuer: IssuerText) async throws(Failure)
    -> String
  {
    var params = params
    var first: Failure?
    for candidate in issuer.candidates {
      params.issuer = candidate
      do throws(Failure) {
        let result = try await shell.ask(ProviderRegister.self, params).value()
        for warning in result.warnings.flatMap(SafeText.lines) { terminal.note("warning: \(warning)") }
        addedProvider = result.provider
        let verb = params.client_id == nil ? "registered" : "added"
        done("Provider", "\(result.provider) (\(result.issuer))")
        done("Client", "\(verb), \(result.client_id)")
        return result.provider
      } catch {
        if error.rpc?.detail == ProviderRegister.notHTTPS { throw plainHTTP(issuer) }
        // Another run may have been faster.
        if let other = try await sameIssuer(candidate) {
          done("Provider", "\(other), added by another run")
          return other
        }
        guard error.rpc?.reason == .providerMisconfigured || error.rpc?.reason == .providerError else { throw error }
        first = first ?? error
      }
    }
    throw first ?? Failure(.failure, "there is no issuer")
  }

  /// The broker accepts plain http only of this machine.
  private func plainHTTP(_ issuer: IssuerText) -> Failure {
    let words = [issuer.withHTTPS] + [given.account].compactMap(\.self) + given.optionWords
    return Failure(
      .usage, "the issuer \(issuer.candidates[0]) is not https",
      hints: ["Use https: `grantctl setup \(words.map(ShellWord.quoted).joined(separator: " "))`"])
  }

  private func sameIssuer(_ issuer: String) async throws(Failure) -> String? {
    let known = try await shell.ask(ProviderList.self, NoParams()).value().providers
    return known.first { $0.issuer == issuer && (given.name == nil || given.name == $0.provider) }?.provider
  }

  // MARK: The client

  func client() async throws(Failure) -> (id: String, secret: SecretText?) {
    if let id = given.clientId {
      return (id.trimmed, try await shell.secret("client secret", from: given.clientSecretFile))
    }
    let id = try await questions.text("Client ID", flag: "--client-id ID")
    return (id, try await questions.secret("client secret", isRequired: false, flag: "--client-secret-file FILE"))
  }
}
