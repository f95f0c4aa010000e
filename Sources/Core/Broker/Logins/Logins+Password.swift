import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

extension Logins {
  /// `login.password` (RFC 6749 §4.3): for providers that give tokens no other way, named in the configuration. Nothing is
  /// on disk before the tokens are, so a restart in between ends it without a trace.
  func signIn(
    _ account: AccountName, _ params: LoginPassword.Params, by session: any Session
  ) async throws(RPCError) -> AccountView {
    guard !isDraining else { throw shuttingDown() }
    let caller = session.principal
    let name = try providerName(params.provider)
    guard let connection = providers[name] else { throw providers.unknown(params.provider) }
    let (provider, settings) = (connection.provider, connection.settings)
    guard provider.authorizationTraits.allowsPassword else {
      throw RPCError(
        .unsupportedByProvider, "provider \(name) takes no passwords",
        hint: "Sign in with a browser: `\(HintedCommand.login(name, account))`. Only if the provider has no other way: "
          + "set allow_password = true in \(provider.section).")
    }
    try checkName(account, provider: name)
    try checkRoom(account, caller: caller)
    guard !params.username.isEmpty, params.username.utf8.count <= 1024, !params.password.exposed.isEmpty,
      params.password.exposed.utf8.count <= 4096
    else { throw .invalidParams("params.username, params.password: expected texts of at most 1024 and 4096 bytes") }
    let permit = try await startPermit(at: name, for: caller.holder, session: session)
    defer { permit.release() }
    let target = try await providers.endpoints(of: name, with: .token)
    // The person typed the password for the server of before, where settings of before allowed it.
    guard target.connection === connection, target.settings == settings else { throw providerChanged(name) }
    guard !isDraining, let id = LoginID(rawValue: system.token(bytes: 16)) else { throw shuttingDown() }
    let tokens = provider.tokenTraits
    let login = SavedLogin(
      id: id, provider: name, account: account, state: Secret(system.token(bytes: 32)), nonce: nil,
      verifier: nil, redirectURI: "", scopes: params.scopes ?? tokens.scopes, resource: nil, maxAge: nil,
      uid: try caller.owner(), startedAt: now, expiresAt: now + provider.authorizationTraits.lifetime,
      dpopKey: tokens.binding.usesDPoP ? dpopKey(of: account).raw : nil)
    // A restart waits for an answer that may hold the tokens.
    table.exchangesInFlight += 1
    defer { table.exchangesInFlight -= 1 }
    let sentAt = uptime
    let step = provider.exchange(
      username: params.username, password: Secret(params.password.exposed), login: login, metadata: target.metadata)
    switch await connection.converse(step, for: .logins) {
    case .failure(.ended(_, let message, let oauth)):
      throw RPCError(
        .loginDenied, "the provider did not take the name and password: \(message)",
        hint: "Try again; mind upper and lower case.", oauth: oauth.map { OAuthDetail($0) })
    case .failure(let failure): throw loginError(failure, at: name, of: account, scopes: login.scopes)
    case .success(let issued):
      switch await adopt(issued, login, provider, sentAt: sentAt, kind: .password) {
      case .adopted: break
      case .refused(let error): throw error
      case .unsaved(let error):
        await revokeUnlessShared(issued, login, provider, sentAt: sentAt, kind: .password)
        throw storeError(error)
      }
    }
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    return accounts.view(grant)
  }
}

extension LoginPassword: RPCHandler {
  static var subject: Subject<Params, AccountName> { .login(\.account, at: \.provider) }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.signIn(call.account, call.params, by: call.session)
  }
}
