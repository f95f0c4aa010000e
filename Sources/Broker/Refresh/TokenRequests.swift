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
  private var verify: (@BrokerActor (AccountName, Duration) async -> Bool?)?
  /// Of which token each account's provider was asked, and when.
  private var verified: [AccountName: (generation: Int64, at: Duration)] = [:]

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
      of: account, key, minimumTTL: try minimumTTL(params.min_ttl), for: Asker(permission.caller),
      until: uptime + (try Timeouts.duration(params.timeout)))
    try checkScopes(scopes, of: token, saved)
    // What a rule was when the caller came may be another by now, and the provider may have answered with more.
    try authorizer.checkCap(of: token.scopes, account, try authorizer.renewed(permission))
    accounts.cache.handouts.note(account.rawValue, token.generation, to: Reporter(permission.caller))
    if !token.key.isNarrowed { accounts.serve(account) }
    return TokenGet.Result(token, grant: saved, provider: providers[saved.provider]?.provider, at: now)
  }

  /// `token.report_rejected`. What a caller says of a token binds that caller alone; everybody else keeps the token until
  /// another is there, or the provider itself says that it is dead.
  func reportRejected(
    _ params: TokenReportRejected.Params, _ permission: Permission
  ) async throws(RPCError) -> TokenReportRejected.Result {
    let account = try accountName(params.account)
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    // Who may do everything may have it refreshed anyway.
    guard authorizer.policy.isPrivileged(permission.caller) || wasGiven(params.generation, grant, permission) else {
      throw .invalidParams(
        "params.generation: token \(params.generation) of account \(account) was not handed out to this caller",
        hint: "Report the generation that token.get returned, as the same user and from the same unit.")
    }
    return try await reportRejected(params, by: Asker(permission.caller))
  }

  /// The same of a token that the broker itself used for the caller.
  ///
  /// - Parameter isProvidersWord: the account's provider itself refused it.
  func reportRejected(
    _ params: TokenReportRejected.Params, by asker: Asker, isProvidersWord: Bool = false
  ) async throws(RPCError) -> TokenReportRejected.Result {
    let account = try accountName(params.account)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    let key: SavedToken.Key
    switch accounts[account]?.reported(generation: params.generation, by: asker.reporter, at: now) {
    case .stale, nil: return .init(refreshed: false, generation: grant.token?.generation ?? grant.saved.generation)
    case .known(let known): key = known
    case .new(let new):
      key = new
      accounts.publish(account)
      // Another process of the caller, and the next run, must know it too.
      await finish(by: deadline) { await self.saveReport(account, key) }
    }
    if !grant.saved.isRenewable {
      try await askProvider(account, params.generation, isDead: isProvidersWord, until: deadline)
    }
    let (token, _) = try await engine.token(of: account, key, minimumTTL: nil, for: asker, until: deadline)
    return .init(refreshed: token.generation > params.generation, generation: token.generation)
  }

  /// Whether the caller had this token from the broker. Of one that an earlier run handed out, it is enough that the caller
  /// would be handed it without a person's word.
  private func wasGiven(_ generation: Int64, _ grant: Grant, _ permission: Permission) -> Bool {
    let reporter = Reporter(permission.caller)
    let account = grant.saved.account.rawValue
    if let known = accounts.cache.handouts.has(account, generation, reporter) { return known }
    guard let token = grant.livingTokens.first(where: { $0.generation == generation }) else {
      // Nothing comes of it.
      return true
    }
    return !grant.isOfThisRun(token.key) && permission.confirmation == nil
  }

  /// Nothing can be had in the token's place: only the provider's own word ends the grant for everybody. It is asked once
  /// for all that report the token within ``Limit/verifiedToken``.
  private func askProvider(
    _ account: AccountName, _ generation: Int64, isDead: Bool, until deadline: Duration
  ) async throws(RPCError) {
    guard let grant = accounts[account], let token = grant.token, token.generation == generation else { return }
    let isKnown = verified[account].map { $0.generation == generation && uptime - $0.at < Limit.verifiedToken } ?? false
    if isDead || !isKnown {
      verified[account] = (generation, uptime)
      switch isDead ? false : await verify?(account, deadline) {
      case false?:
        guard accounts[account]?.token?.accessToken == token.accessToken,
          case .ended? = accounts[account]?.rejected(generation: generation, at: now)
        else { break }
        verified[account] = nil
        await finish(by: deadline) { [accounts] in await accounts.saveStanding(of: account, "a dead token") }
        if let grant = accounts[account] { accounts.reportEnd(of: grant) }
        accounts.changed(account)
      case true?: break
      // It may say so later.
      case nil: verified[account] = nil
      }
    }
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    if case .loginRequired(let reason, let failure) = grant.saved.standing {
      throw accounts.loginRequired(grant, reason, failure)
    }
    throw RPCError(
      .loginRequired,
      "account \(account) has no refresh token: nothing can be had in place of the token that this caller reported",
      hint: accounts.loginHint(grant.saved), detail: LoginReason.noRefreshToken.rawValue)
  }

  /// Names who asks an account's provider whether its token is alive; nil: it does not say.
  func verifies(_ verify: @escaping @BrokerActor (AccountName, Duration) async -> Bool?) { self.verify = verify }

  /// `account.refresh`: a new token. The one of now is served to everybody until the new one is there.
  func refresh(_ params: AccountRefresh.Params, _ permission: Permission) async throws(RPCError)
    -> AccountRefresh.Result
  {
    let account = try accountName(params.account)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    guard grant.saved.isRenewable else {
      throw RPCError(
        .unsupportedByProvider, "provider \(grant.saved.provider) gives nothing to refresh account \(account) with",
        hint: accounts.loginHint(grant.saved))
    }
    var asker = Asker(permission.caller)
    asker.beyond = grant.mainGeneration
    // Whoever manages the account waits for nothing.
    asker.isPaced = !authorizer.policy.allows(
      .manage, method: AccountRefresh.name, account: params.account, caller: permission.caller)
    if !asker.isPaced { engine.release(account) }
    let (token, _) = try await engine.token(
      of: account, SavedToken.Key(), minimumTTL: nil, for: asker, until: deadline)
    return .init(refreshed: token.generation > grant.mainGeneration, generation: token.generation)
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

  private func saveReport(_ account: AccountName, _ key: SavedToken.Key) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let grant = accounts[account], let token = grant.token(for: key), !token.reports.isEmpty else { return }
    try? await journal.commitOrKeep([.putToken(token)], of: account, onDisk: grant.saved.generation)
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
    try await broker.tokens.refresh(call.params, call.permission)
  }
}

extension TokenReportRejected: Served {
  static var subject: Subject<Params> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.reportRejected(call.params, call.permission)
  }
}
