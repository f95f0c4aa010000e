import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

/// `token.get`, `token.report_rejected` and `account.refresh`.
@BrokerActor
final class TokenRequests: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  private let journal: Journal
  let engine: RefreshEngine
  let authorizer: Authorizer
  private let checks: TokenChecks
  /// The token that each account's provider was last asked about, and until when it is not asked again. Bounded by
  /// ``Limit/verifiedTokens``.
  private var verified: [AccountName: (token: Secret, isAlive: Bool?, until: Duration)] = [:]
  /// Questions under way, and their waiters.
  private var verifying: [AccountName: Waiters.Key] = [:]
  /// Reports that wait to be written, and their waiters.
  private var saving: [AccountName: Saving] = [:]

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, engine: RefreshEngine,
    authorizer: Authorizer, checks: TokenChecks
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.engine = engine
    self.authorizer = authorizer
    self.checks = checks
  }

  /// `token.get` without an answer in the cache.
  ///
  /// - Parameter isPaced: the caller's budgets and slots apply; false: the broker asks for its own purpose.
  func token(
    _ account: AccountName, _ params: TokenGet.Params, _ permission: Permission, isPaced: Bool = true
  ) async throws(RPCError) -> TokenGet.Result {
    if params.kind == .idToken { return try await idToken(account, params, permission, isPaced: isPaced) }
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    try authorizer.checkResources([params.resource, params.audience].compactMap(\.self), of: grant, permission)
    let scopes = try authorizer.capped(params.scopes, of: grant, permission)
    let key = try accounts.key(scopes: scopes, resource: params.resource, audience: params.audience, grant)
    let asker = isPaced ? TokenRequester(permission.principal) : nil
    let (token, saved) = try await token(
      of: account, key, minimumTTL: try minimumTTL(params.min_ttl), for: asker,
      until: uptime + (try Timeouts.duration(params.timeout)))
    try checkScopes(scopes, of: token, saved)
    // The rule may have changed since the request, and the provider may have answered with more scopes.
    try authorizer.checkCap(of: token.scopes, saved, try authorizer.renewed(permission))
    accounts.cache.recipients.record(account.rawValue, token.generation, to: Reporter(permission.principal))
    if !token.key.isNarrowed, !accounts.cache.serves(account, token.generation) { accounts.serve(account) }
    return TokenGet.Result(token, grant: saved, provider: providers[saved.provider]?.provider, at: now)
  }

  /// A server that refuses to exchange the account's token for one of fewer scopes leaves that token, for callers that may
  /// have it.
  private func token(
    of account: AccountName, _ key: SavedToken.Key, minimumTTL: Duration?, for asker: TokenRequester?,
    until deadline: Duration
  ) async throws(RPCError) -> (SavedToken, SavedGrant) {
    do throws(RPCError) {
      return try await engine.token(of: account, key, minimumTTL: minimumTTL, for: asker, until: deadline)
    } catch {
      guard error.reason == .scopeNotGranted, key.isNarrowed, key.place == nil, let grant = accounts[account],
        providers[grant.saved.provider]?.narrowing(of: grant.saved) != .refresh
      else { throw error }
      return try await engine.token(
        of: account, SavedToken.Key(), minimumTTL: minimumTTL, for: asker, until: deadline)
    }
  }

  /// A unit has loaded the token as a credential, and may report it as whatever user its processes run as.
  ///
  /// - Parameter isUsers: the unit is one of a user's own manager.
  func recordHandout(of account: AccountName, _ generation: Int64, to unit: String, isUsers: Bool) {
    let reporter = Reporter(uid: TokenRecipients.anyUser, unit: isUsers ? nil : unit, userUnit: isUsers ? unit : nil)
    accounts.cache.recipients.record(account.rawValue, generation, to: reporter)
  }

  /// `token.report_rejected`. The report applies only to its caller. Other callers are served the token until a new one
  /// exists, or the provider reports it invalid.
  func reportRejected(
    _ account: AccountName, _ params: TokenReportRejected.Params, _ permission: Permission
  ) async throws(RPCError) -> TokenReportRejected.Result {
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    // Privileged callers may refresh any account.
    guard authorizer.policy.isPrivileged(permission.principal) || wasGiven(params.generation, grant, permission) else {
      throw .invalidParams(
        "params.generation: token \(params.generation) of account \(account) was not returned to this caller",
        hint: "Report the generation that token.get returned, as the same user and from the same unit.")
    }
    guard params.kind != .idToken else {
      return try await idTokenRejected(params, grant, TokenRequester(permission.principal))
    }
    return try await reportRejected(account, params, by: TokenRequester(permission.principal))
  }

  /// A report by the broker, which used the token on the caller's behalf.
  ///
  /// - Parameter isProvidersWord: the account's own provider refused the token.
  func reportRejected(
    _ account: AccountName, _ params: TokenReportRejected.Params, by asker: TokenRequester,
    isProvidersWord: Bool = false
  ) async throws(RPCError) -> TokenReportRejected.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    if !isProvidersWord, isConfirmed(account, grant, params.generation) {
      return .init(refreshed: false, generation: params.generation, confirmed: true)
    }
    let key: SavedToken.Key
    switch accounts[account]?.reported(generation: params.generation, by: asker.reporter, at: now) {
    case .stale, nil: return .init(refreshed: false, generation: grant.token?.generation ?? grant.saved.generation)
    case .known(let known): key = known
    case .new(let new):
      key = new
      accounts.publish(account)
      // On disk, so the caller's next process and a restarted broker know it.
      try await save(
        .init(generation: params.generation, reporter: asker.reporter), of: account, for: asker, until: deadline)
    }
    if !grant.saved.isRenewable {
      try await askProvider(account, params.generation, isDead: isProvidersWord, for: asker, until: deadline)
      if let grant = accounts[account], isConfirmed(account, grant, params.generation) {
        return .init(refreshed: false, generation: params.generation, confirmed: true)
      }
    }
    let (token, _) = try await engine.token(of: account, key, minimumTTL: nil, for: asker, until: deadline)
    return .init(refreshed: token.generation > params.generation, generation: token.generation)
  }

  /// Whether the caller got this token from the broker. If that is unknown (another run released the token, or the
  /// record was dropped), it is enough that the caller may have the token now without approval.
  private func wasGiven(_ generation: Int64, _ grant: Grant, _ permission: Permission) -> Bool {
    let reporter = Reporter(permission.principal)
    let account = grant.saved.account.rawValue
    let known = accounts.cache.recipients.has(account, generation, reporter)
    if known == true { return true }
    // A report of a replaced token has no effect.
    guard let token = grant.livingTokens.first(where: { $0.generation == generation }) else { return true }
    guard known == nil || !grant.isOfThisRun(token.key), permission.confirmation == nil else { return false }
    guard permission.access != .idToken else { return true }
    return (try? authorizer.checkCap(of: token.scopes, grant.saved, permission)) != nil
  }

  /// The grant cannot be renewed, and only the provider's own answer ends it. The provider is asked once for all reports of
  /// a token within ``Limit/verifiedToken``, and its answer counts however long a reporter waits for it.
  private func askProvider(
    _ account: AccountName, _ generation: Int64, isDead: Bool, for asker: TokenRequester, until deadline: Duration
  ) async throws(RPCError) {
    guard let grant = accounts[account], let token = grant.token, token.generation == generation else { return }
    if isDead {
      try await finish(for: asker, by: deadline) { await self.end(account, token) }
    } else if let key = verifying[account] {
      try await waiters.callerWaits(for: key, of: asker.holder, until: deadline)
    } else if verified[account].map({ $0.token == token.accessToken && uptime < $0.until }) != true {
      let key = waiters.newWork()
      verifying[account] = key
      Task {
        let isAlive = await checks.isAlive(account, until: uptime + Timeouts.standard)
        if verified[account] == nil, verified.count >= Limit.verifiedTokens { dropVerified() }
        let pause = isAlive == nil ? Limit.unverifiedToken : Limit.verifiedToken
        verified[account] = (token.accessToken, isAlive, uptime + pause)
        if isAlive == false { await end(account, token) }
        if isAlive == true, accounts[account]?.token?.accessToken == token.accessToken {
          await endReports(of: account, generation)
        }
        verifying[account] = nil
        waiters.wake(key)
      }
      try await waiters.callerWaits(for: key, of: asker.holder, until: deadline)
    }
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    if case .loginRequired(let reason, let failure) = grant.saved.standing {
      throw accounts.loginRequired(grant, reason, failure)
    }
    if isConfirmed(account, grant, generation) { return }
    throw RPCError(
      .loginRequired,
      "account \(account) has no refresh token: no other token can be had than the one that this caller reported, and "
        + "provider \(grant.saved.provider) did not say whether it is valid",
      hint: accounts.loginHint(grant.saved), detail: LoginReason.noRefreshToken.rawValue)
  }

  /// Whether nothing can renew the token, and the provider considers it valid.
  private func isConfirmed(_ account: AccountName, _ grant: Grant, _ generation: Int64) -> Bool {
    guard !grant.saved.isRenewable, grant.token?.generation == generation, let verdict = verified[account] else {
      return false
    }
    return verdict.token == grant.token?.accessToken && verdict.isAlive == true && uptime < verdict.until
  }

  /// The provider considers the token valid: its reporters get it again.
  private func endReports(of account: AccountName, _ generation: Int64) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard accounts[account]?.confirmed(generation: generation) == true, let grant = accounts[account],
      let token = grant.token
    else { return }
    accounts.publish(account)
    try? await journal.commitOrKeep([.putToken(token)], of: account)
  }

  /// The provider says that the token is invalid.
  private func end(_ account: AccountName, _ token: SavedToken) async {
    guard accounts[account]?.token?.accessToken == token.accessToken,
      case .ended? = accounts[account]?.rejected(generation: token.generation, at: now)
    else { return }
    verified[account] = nil
    await accounts.saveStanding(of: account, "a dead token")
    if let grant = accounts[account] { accounts.reportEnd(of: grant) }
    accounts.changed(account)
  }

  private func dropVerified() {
    verified = verified.filter { uptime < $0.value.until }
    if verified.count >= Limit.verifiedTokens { verified = [:] }
  }

  /// `account.refresh`: gets a new token. The current one is served to all callers until then.
  func refresh(
    _ account: AccountName, _ params: AccountRefresh.Params, _ permission: Permission
  ) async throws(RPCError) -> AccountRefresh.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    guard grant.saved.isRenewable else {
      throw RPCError(
        .unsupportedByProvider, "provider \(grant.saved.provider) gives nothing to refresh account \(account) with",
        hint: accounts.loginHint(grant.saved))
    }
    var asker = TokenRequester(permission.principal)
    asker.beyond = grant.mainGeneration
    // With `manage` access the refresh starts at once.
    asker.isPaced = !authorizer.policy.allows(
      .manage, method: AccountRefresh.name, account: params.account, caller: permission.principal)
    if params.now == true {
      try stopAwaiting(account, isManaged: !asker.isPaced, permission.principal)
      if accounts[account]?.reopen(at: now) == true { accounts.changed(account) }
    }
    if !asker.isPaced { engine.release(account) }
    let (token, _) = try await engine.token(
      of: account, SavedToken.Key(), minimumTTL: nil, for: asker, until: deadline)
    return .init(refreshed: token.generation > grant.mainGeneration, generation: token.generation)
  }

  /// Another request is sent on demand although the answer to the last one may still arrive.
  private func stopAwaiting(_ account: AccountName, isManaged: Bool, _ caller: Principal) throws(RPCError) {
    guard isManaged else {
      throw RPCError(
        .notPermitted, "`now` may end the grant of account \(account), which takes `manage` access",
        hint: "Ask without it, or an admin can add a [[rule]] with access = [\"manage\"].")
    }
    engine.forceLease(of: account)
    // Another broker may wait for that answer.
    guard !journal.isShared, accounts[account]?.stopsAwaiting(at: now) == true else { return }
    logger.notice(
      "\(account) is refreshed although the answer to the refresh before may still come",
      metadata: ["account": "\(account)", "caller_uid": "\(caller.uidText)"])
  }

  /// Waits for the work until the deadline: the work continues then, so a slow disk delays no caller.
  private func finish(
    for asker: TokenRequester, by deadline: Duration, _ work: @escaping @BrokerActor () async -> Void
  ) async throws(RPCError) {
    let key = waiters.newWork()
    Task {
      await work()
      waiters.wake(key)
    }
    try await waiters.callerWaits(for: key, of: asker.holder, until: deadline)
  }

  /// One commit for all reports that come while it waits for the account's lock.
  private func save(
    _ report: Saving.Report, of account: AccountName, for asker: TokenRequester, until deadline: Duration
  ) async throws(RPCError) {
    let key = saving[account]?.key ?? waiters.newWork()
    saving[account, default: Saving(key: key)].reports.append(report)
    if saving[account]?.reports.count == 1 {
      Task {
        await journal.lock(account)
        let reports = saving.removeValue(forKey: account)?.reports ?? []
        await save(reports, of: account)
        journal.unlock(account)
        waiters.wake(key)
      }
    }
    try await waiters.callerWaits(for: key, of: asker.holder, until: deadline)
  }

  /// Memory may have followed another broker's write before the reports, or because they conflict with it.
  private func save(_ reports: [Saving.Report], of account: AccountName) async {
    for _ in 0..<Limit.conflicts {
      var isNew = false
      for report in reports {
        let outcome = accounts[account]?.reported(generation: report.generation, by: report.reporter, at: now)
        if case .new = outcome { isNew = true }
      }
      if isNew { accounts.publish(account) }
      guard let grant = accounts[account] else { return }
      let changes = grant.livingTokens.filter { !$0.reports.isEmpty }.map { Change.putToken($0) }
      guard !changes.isEmpty else { return }
      do throws(StoreError) {
        return try await journal.commitOrKeep(changes, of: account)
      } catch {
        guard error == .conflict else { return }
      }
    }
  }

  /// Reports that wait for the account's lock.
  private struct Saving {
    struct Report {
      let generation: Int64
      let reporter: Reporter
    }

    let key: Waiters.Key
    var reports: [Report] = []
  }

  func minimumTTL(_ seconds: Double?) throws(RPCError) -> Duration? {
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

extension TokenGet: ReleaseHandler {
  /// The access for a token of this kind.
  static func access(of kind: TokenKind?) -> Access { kind == .idToken ? .idToken : .use }
  static func access(for params: Params) -> Access { access(of: params.kind) }
  static var accesses: [Access] { [.use, .idToken] }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.requests.token(call.account, call.params, call.permission)
  }
}

extension AccountRefresh: RPCHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.requests.refresh(call.account, call.params, call.permission)
  }
}

extension TokenReportRejected: RPCHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }
  static func access(for params: Params) -> Access { TokenGet.access(of: params.kind) }
  static var accesses: [Access] { TokenGet.accesses }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.requests.reportRejected(call.account, call.params, call.permission)
  }
}
