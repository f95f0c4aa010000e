import BrokerAPI
import Grants
import OAuth

/// `token.get`, `token.report_rejected` and `account.refresh`.
@BrokerActor
final class TokenRequests: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory
  private let journal: Journal
  private let engine: RefreshEngine
  private let authorizer: Authorizer

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, engine: RefreshEngine,
    authorizer: Authorizer
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.engine = engine
    self.authorizer = authorizer
  }

  /// `token.get`, where the cache had no answer.
  func token(_ params: TokenGet.Params, _ permission: Permission) async throws(RPCError) -> TokenGet.Result {
    let account = try accountName(params.account)
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    let scopes = try authorizer.capped(params.scopes, of: grant, permission)
    let key = try accounts.key(scopes: scopes, resource: params.resource, grant)
    let (token, saved) = try await engine.token(
      of: account, key, minimumTTL: try minimumTTL(params.min_ttl), for: permission.caller.holder,
      until: uptime + (try Timeouts.duration(params.timeout)))
    try checkScopes(scopes, of: token, saved)
    // What a rule was when the caller came may be another by now, and the provider may have answered with more.
    try authorizer.checkCap(of: token.scopes, account, try authorizer.renewed(permission))
    if !token.key.isNarrowed { accounts.serve(account) }
    return TokenGet.Result(token, grant: saved, provider: providers[saved.provider]?.provider, at: now)
  }

  /// `token.report_rejected`.
  func reportRejected(
    _ params: TokenReportRejected.Params, for holder: Holder
  ) async throws(RPCError) -> TokenReportRejected.Result {
    let account = try accountName(params.account)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    var key = SavedToken.Key()
    switch accounts[account]?.rejected(generation: params.generation, at: now) {
    case .stale, nil: return .init(refreshed: false, generation: grant.token?.generation ?? grant.saved.generation)
    case .ended:
      accounts.publish(account)
      await finish(by: deadline) { [accounts] in await accounts.saveStanding(of: account, "a refused token") }
      if let grant = accounts[account], case .loginRequired(let reason, let failure) = grant.saved.standing {
        accounts.reportEnd(of: grant)
        accounts.changed(account)
        throw accounts.loginRequired(grant, reason, failure)
      }
    case .refresh:
      accounts.publish(account)
      // A restart must not hand it out again.
      await finish(by: deadline) { await self.dropToken(account, generation: params.generation) }
    case .refreshNarrowed(let narrowed):
      key = narrowed
      await finish(by: deadline) { await self.dropToken(account, narrowed) }
    }
    let (token, _) = try await engine.token(of: account, key, minimumTTL: nil, for: holder, until: deadline)
    return .init(refreshed: token.generation > params.generation, generation: token.generation)
  }

  /// `account.refresh`: what somebody asks for who manages the account waits for nothing.
  func refresh(_ params: AccountRefresh.Params, for holder: Holder) async throws(RPCError) -> AccountRefresh.Result {
    let account = try accountName(params.account)
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    guard grant.saved.isRenewable else {
      throw RPCError(
        .unsupportedByProvider, "provider \(grant.saved.provider) gives nothing to refresh account \(account) with",
        hint: accounts.loginHint(grant.saved))
    }
    engine.release(account)
    return try await reportRejected(
      .init(account: params.account, generation: grant.mainGeneration, timeout: params.timeout), for: holder)
  }

  /// Waits for what goes on by itself, and no longer: a slow disk keeps no caller beyond its time.
  private func finish(by deadline: Duration, _ work: @escaping @BrokerActor () async -> Void) async {
    let key = waiters.newWork()
    Task {
      await work()
      waiters.wake(key)
    }
    await wait(for: key, until: deadline)
  }

  private func dropToken(_ account: AccountName, generation: Int64) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let grant = accounts[account], grant.rejectedGeneration == generation, grant.isTokenRejected else { return }
    try? await journal.commitOrKeep(
      [.removeToken(account, SavedToken.Key())], of: account, onDisk: grant.saved.generation)
  }

  private func dropToken(_ account: AccountName, _ key: SavedToken.Key) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let grant = accounts[account], grant.token(for: key) == nil else { return }
    try? await journal.commitOrKeep([.removeToken(account, key)], of: account, onDisk: grant.saved.generation)
  }

  private func minimumTTL(_ seconds: Double?) throws(RPCError) -> Duration? {
    guard let seconds else { return nil }
    guard seconds >= 0 else { throw .invalidParams("params.min_ttl: expected 0 or more seconds, got \(seconds)") }
    return .seconds(min(seconds, 1e9))
  }

  /// A token must have all that was asked for.
  private func checkScopes(_ scopes: [String]?, of token: SavedToken, _ saved: SavedGrant) throws(RPCError) {
    let missing = Set(scopes ?? []).subtracting(token.scopes)
    guard !missing.isEmpty, let grant = accounts[saved.account] else { return }
    throw accounts.notGranted(grant, missing.sorted())
  }
}

// MARK: Methods

extension TokenGet: Served {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.token(call.params, call.permission)
  }
}

extension AccountRefresh: Served {
  static var subject: Subject<Params> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.refresh(call.params, for: call.session.caller.holder)
  }
}

extension TokenReportRejected: Served {
  static var subject: Subject<Params> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.reportRejected(call.params, for: call.session.caller.holder)
  }
}
