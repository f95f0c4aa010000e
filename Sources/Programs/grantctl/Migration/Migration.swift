import BrokerAPI
import ProviderTemplates

/// `import --from`: the provider and the account of another program.
struct Migration {
  let source: any ImportSource
  let shell: Shell
  /// The program's name of the account; nil: its only one.
  var entry: String?
  /// The account's name here; nil: made from the program's.
  var account: String?
  /// A provider that exists; nil: it is added.
  var provider: String?
  var clientID: String?
  var clientSecret: SecretText?
  var scopes: [String] = []

  private var terminal: Terminal { shell.terminal }
  private var command: String { shell.command("import --from \(source.name)") }

  func run(_ export: [UInt8]?) async throws(Failure) {
    var found = try chosen(try await source.accounts(export, on: terminal))
    if let clientID { (found.clientID, found.clientSecret) = (clientID, clientSecret ?? found.clientSecret) }
    if !scopes.isEmpty { found.scopes = scopes }
    if let obstacle = found.obstacle, provider == nil, clientID == nil {
      throw Failure(.failure, "\(found.name) cannot be imported: \(obstacle)")
    }
    let name = account ?? Self.name(found.name)
    let status = try await shell.ask(BrokerStatus.self, NoParams()).value()
    let provider = try await provider(for: found, status)
    guard let token = found.refreshToken else { return showLogin(found, provider, name) }
    let answer = try await shell.ask(
      AccountImport.self,
      .init(
        account: name, provider: provider, refresh_token: token, scopes: found.scopes.isEmpty ? nil : found.scopes))
    if shell.isJSON { return shell.print(answer.json) }
    terminal.print(SafeText.line(try answer.value().importedText))
    let notes = source.stop(found)
    if !notes.isEmpty { terminal.print("From now on only the broker may refresh this account.") }
    for note in notes { terminal.printWhole(SafeText.line("  \(note)")) }
    terminal.print("Get a token with:", command: shell.command("token \(ShellWord.quoted(name))"))
  }

  private func chosen(_ all: [ImportedAccount]) throws(Failure) -> ImportedAccount {
    let names = all.map(\.name).joined(separator: ", ")
    if let entry {
      guard let found = all.first(where: { $0.name == entry }) else {
        throw Failure(
          .unknownName, "\(source.name) has no account \(entry)", hints: names.isEmpty ? [] : ["It has: \(names)"])
      }
      return found
    }
    guard let first = all.first else { throw Failure(.failure, "\(source.name) has no accounts that can be imported") }
    guard all.count == 1 else {
      throw Failure(
        .usage, "\(source.name) has several accounts: \(names)", hints: ["Name one: `\(command) --entry NAME`"])
    }
    return first
  }

  /// A name for an account or a provider (1 to 64 characters of `A-Z a-z 0-9 . _ @ + -`).
  static func name(_ text: String) -> String {
    let plain = text.map { $0.isASCII && ($0.isLetter || $0.isNumber || "._@+-".contains($0)) ? $0 : "-" }
    let name = String(plain.prefix(64))
    return name.isEmpty || name.hasPrefix("-") ? "imported" : name
  }

  // MARK: The provider

  private func provider(for found: ImportedAccount, _ status: BrokerStatus.Result) async throws(Failure) -> String {
    if let provider { return provider }
    guard let server = found.server else {
      throw Failure(
        .failure, "\(source.name) does not name the provider of \(found.name)",
        hints: ["Add it with `grantctl setup`, then: `\(command) --provider PROVIDER`"])
    }
    guard let id = found.clientID else {
      throw Failure(
        .failure, "\(source.name) does not name the client of \(found.name)",
        hints: ["Give the client that the refresh token was issued to: `\(command) --client-id ID`"])
    }
    let known = try await shell.ask(ProviderList.self, NoParams()).value().providers
    for provider in known where provider.client_id == id {
      if try await isOf(server, provider) { return provider.provider }
    }
    let taken = Set(known.map(\.provider))
    func free(_ base: String) -> String {
      ([base] + (2...99).map { "\(base)-\($0)" }).first { !taken.contains($0) } ?? base
    }
    switch server {
    case .issuer(let issuer): return try await add(issuer, free, found, id)
    case .template(let template):
      return try await write(free(template), ["profile": .string(template)], found, id, status)
    case .endpoints(let authorization, let token):
      let keys: [String: JSON] = [
        "kind": "oauth2", "authorization_endpoint": .string(authorization), "token_endpoint": .string(token),
      ]
      return try await write(free(Self.name(found.name)), keys, found, id, status)
    }
  }

  /// Some programs add a slash to the issuer, or leave it out.
  private func add(
    _ issuer: String, _ free: (String) -> String, _ found: ImportedAccount, _ id: String
  ) async throws(Failure) -> String {
    guard let text = IssuerText(issuer) else {
      throw Failure(.failure, "\(SafeText.line(issuer)) is not an issuer URL")
    }
    var params = ProviderRegister.Params(
      issuer: issuer, provider: free(Self.name(text.host)), scopes: found.scopes.isEmpty ? nil : found.scopes,
      client_id: id, client_secret: found.clientSecret)
    var first: Failure?
    for candidate in text.candidates {
      params.issuer = candidate
      do throws(Failure) {
        return try await shell.ask(ProviderRegister.self, params).value().provider
      } catch {
        guard error.rpc?.reason == .providerMisconfigured || error.rpc?.reason == .providerError else { throw error }
        first = first ?? error
      }
    }
    throw first ?? Failure(.failure, "there is no issuer")
  }

  private func isOf(_ server: ImportedAccount.Server, _ provider: ProviderView) async throws(Failure) -> Bool {
    switch server {
    case .issuer(let issuer): return IssuerText(issuer)?.candidates.contains(provider.issuer ?? "") == true
    case .template(let name): return provider.profile == name
    // Another server may have issued the same client ID, and must not get the refresh token.
    case .endpoints(_, let token):
      let shown = try await shell.ask(ProviderGet.self, .init(provider: provider.provider)).value()
      return shown.endpoints["token"] == token
    }
  }

  private func write(
    _ name: String, _ keys: [String: JSON], _ found: ImportedAccount, _ id: String, _ status: BrokerStatus.Result
  ) async throws(Failure) -> String {
    var keys = keys
    keys["client_id"] = .string(id)
    if !found.scopes.isEmpty { keys["scopes"] = .array(found.scopes.map { .string($0) }) }
    let path = try await ProviderFile(shell: shell, again: command).write(name, keys, found.clientSecret, status)
    if !shell.isJSON { terminal.note(SafeText.line("Provider \(name): written to \(path)")) }
    return name
  }

  /// The program's refresh token cannot be read: one sign-in replaces it.
  private func showLogin(_ found: ImportedAccount, _ provider: String, _ name: String) {
    let login = shell.command("login \(ShellWord.quoted(provider)) \(ShellWord.quoted(name))")
    if shell.isJSON {
      return shell.print(["provider": .string(provider), "account": .string(name), "login": .string(login)])
    }
    terminal.print(SafeText.line("Provider \(provider) has the client of \(source.name)."))
    terminal.print("\(source.name) does not show its refresh token. Sign in once:", command: login)
    for note in source.stop(found) { terminal.printWhole(SafeText.line("  \(note)")) }
  }
}
