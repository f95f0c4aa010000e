import BrokerAPI
import Grants
import OAuth

/// The broker's own questions about an account's token: whether the provider still accepts it, and whose it is.
@BrokerActor
final class TokenChecks: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory

  init(_ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
  }

  /// Whether the provider still knows the account's token, as introspection, userinfo or its list of sessions tells; nil:
  /// it does not say.
  func isAlive(_ account: AccountName, until deadline: Duration) async -> Bool? {
    let introspection = await answer(.introspection, account, until: deadline) { token, _, target in
      target.provider.introspection(of: token.accessToken, hint: "access_token", metadata: target.metadata)
    }
    // A refused introspection concerns this client, or the token that authenticates it.
    if case .success(let told)? = introspection { return told.active }
    let info = await answer(.userinfo, account, until: deadline) { token, saved, target in
      target.provider.userInfo(of: saved, token: token, metadata: target.metadata)
    }
    if let info, let told = Self.isAlive(info) {
      // Without its scope UserInfo refuses a good token too.
      guard !told, !isForUserInfo(account) else { return told }
    }
    guard let name = accounts[account]?.saved.provider, providers[name]?.provider.logoutTraits.listsSessions == true
    else { return nil }
    let sessions = await answer(nil, account, until: deadline) { token, saved, target in
      target.provider.sessions(of: saved, token: token, metadata: target.metadata)
    }
    return sessions.flatMap { Self.isAlive($0) }
  }

  /// The subject that UserInfo names for the account's token; nil: the provider has no UserInfo.
  func person(of account: AccountName, until deadline: Duration) async -> Result<String, ProviderFailure>? {
    guard let name = accounts[account]?.saved.provider else { return nil }
    let target: ProviderEndpoints
    switch await providers.endpoints(of: name) {
    case .success(let endpoints): target = endpoints
    case .failure(let failure): return .failure(failure)
    }
    guard (try? providers.demand(.userinfo, of: target.metadata, target.provider)) != nil else { return nil }
    guard let grant = accounts[account], let token = grant.token,
      providers.isOwn(token.issuedAt, of: grant.saved.provider),
      providers.isCurrent(target)
    else { return .failure(.notSent(message: "the provider's configuration has changed")) }
    // The answer names the user; whether that is the account's user is not checked.
    var anonymous = grant.saved
    anonymous.identity = nil
    let step = target.provider.userInfo(of: anonymous, token: token, metadata: target.metadata)
    do throws(RPCError) {
      return try await outcome(step, target, in: nil, until: deadline).map(\.subject)
    } catch {
      return .failure(.lost(message: error.message))
    }
  }

  /// Whether UserInfo takes the account's token: OpenID Connect's takes those with the scope `openid`.
  func isForUserInfo(_ account: AccountName) -> Bool {
    guard let grant = accounts[account], let token = grant.token,
      let provider = providers[grant.saved.provider]?.provider
    else { return false }
    return Self.isForUserInfo(token, provider)
  }

  private static func isAlive<Output>(_ answer: Result<Output, ProviderFailure>) -> Bool? {
    switch answer {
    case .success: true
    case .failure(.tokenRefused): false
    case .failure: nil
    }
  }

  /// The provider's answer to a request with the current token, for any reporter; nil: it cannot be asked.
  private func answer<Output: Sendable>(
    _ endpoint: Endpoint?, _ account: AccountName, until deadline: Duration,
    _ step: (SavedToken, SavedGrant, ProviderEndpoints) -> Step<Output>
  ) async -> Result<Output, ProviderFailure>? {
    guard let grant = accounts[account], let token = grant.token,
      providers.isOwn(token.issuedAt, of: grant.saved.provider),
      let target = try? await providers.endpoints(of: grant.saved.provider, with: endpoint),
      accounts[account]?.token?.accessToken == token.accessToken, providers.isCurrent(target)
    else { return nil }
    return try? await outcome(step(token, grant.saved, target), target, in: nil, until: deadline)
  }

  /// UserInfo of OpenID Connect refuses every token without the scope `openid` (Core §5.3).
  static func isForUserInfo(_ token: SavedToken, _ provider: any Provider) -> Bool {
    !provider.tokenTraits.usesIDTokens || token.scopes.contains("openid")
  }
}

extension Piece {
  /// A conversation with a provider, for as long as the deadline allows; it goes on without its caller.
  ///
  /// - Parameter place: given back when the conversation is over, which may be long after the caller was answered; nil:
  ///   the broker itself asks.
  func outcome<Output: Sendable>(
    _ step: Step<Output>, _ target: ProviderEndpoints, in place: ProviderCallLimiter.Permit?, until deadline: Duration
  ) async throws(RPCError) -> Result<Output, ProviderFailure> {
    let box = Answer<Output>()
    await waiters.run(until: deadline) {
      let result = await target.connection.converse(step, for: .callers)
      place?.release()
      box.result = result
    }
    guard let result = box.result else {
      let name = target.provider.name
      throw RPCError(
        .timedOut, "provider \(name) did not answer in time",
        hint: "Ask again, with a longer `timeout`. `grantctl doctor \(name)` tells how the provider is.")
    }
    return result
  }
}

/// The result of an exchange, for a caller that may have stopped waiting.
@BrokerActor
private final class Answer<Output: Sendable> {
  var result: Result<Output, ProviderFailure>?
}
