import BrokerAPI
import Grants
import OAuth

extension Broker {
  /// What needs no person's word.
  func token(_ params: TokenGet.Params, caller: Caller) async throws(RPCError) -> TokenGet.Result {
    try await token(params, Clearance(caller: caller))
  }

  /// `token.get`, where the cache had no answer.
  func token(_ params: TokenGet.Params, _ clearance: Clearance) async throws(RPCError) -> TokenGet.Result {
    let account = try accountName(params.account)
    guard let grant = grants[account] else { throw unknownAccount(params.account) }
    let scopes = try capped(params.scopes, of: grant, clearance)
    let key = try key(scopes: scopes, resource: params.resource, grant)
    let (token, saved) = try await token(
      of: account, key, minimumTTL: try minimumTTL(params.min_ttl),
      until: uptime + (try Timeouts.duration(params.timeout)))
    try checkScopes(scopes, of: token, saved)
    // What a rule was when the caller came may be another by now, and the provider may have answered with more.
    try checkCap(of: token.scopes, account, clearance)
    return TokenGet.Result(token, grant: saved, about: providers[saved.provider]?.provider.about, at: now)
  }

  /// A token that is valid now, refreshed first where it has to be.
  func token(
    of account: AccountName, _ key: SavedToken.Key, minimumTTL: Duration?, until deadline: Duration
  ) async throws(RPCError) -> (SavedToken, SavedGrant) {
    let first = grants[account]?.token(for: key)?.generation
    for _ in 0..<Limit.tokenRounds {
      guard let grant = grants[account] else { throw unknownAccount(account.rawValue) }
      let answer = grant.answer(minimumTTL: minimumTTL, at: now, policy: configuration.refresh, key: key)
      switch answer {
      case .token(let token):
        if grants[account]?.served(key) == true { nudge?.yield() }
        return (token, grant.saved)
      case .loginRequired(let reason, let failure): throw loginRequired(grant, reason, failure)
      case .misconfigured(let failure): throw misconfigured(grant, failure)
      case .temporarilyUnavailable(let failure, let retryAt): throw unavailable(grant, failure, retryAt: retryAt)
      case .refused(let failure): throw notGranted(grant, key, failure)
      case .refresh, .wait: break
      }
      do throws(RPCError) {
        // What a fresh token does not have, the next one will not have either.
        let latest = grant.token(for: key)?.generation
        if answer == .refresh, latest != first, latest != nil, grant.rejectedGeneration != latest {
          throw tooShort(grant)
        }
        if answer == .refresh { try begin(account, grant, key) }
        try await waitForRefresh(account, until: deadline)
      } catch {
        // Less time than asked for is better than none.
        guard case .token(let token) = grants[account]?.lastResort(at: now, key: key) else { throw error }
        return (token, grants[account]?.saved ?? grant.saved)
      }
    }
    throw timedOut(account)
  }

  /// `token.report_rejected`.
  func reportRejected(_ params: TokenReportRejected.Params) async throws(RPCError) -> TokenReportRejected.Result {
    let account = try accountName(params.account)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    guard let grant = grants[account] else { throw unknownAccount(params.account) }
    var key = SavedToken.Key()
    switch grants[account]?.rejected(generation: params.generation, at: now) {
    case .stale, nil: return .init(refreshed: false, generation: grant.token?.generation ?? grant.saved.generation)
    case .ended(let saved):
      publish(account)
      await finish(by: deadline) { await self.saveStanding(of: account, "a refused token") }
      if let grant = grants[account], case .loginRequired(let reason, let failure) = grant.saved.standing {
        let error = loginRequired(grant, reason, failure)
        report(saved, error, .loginRequired)
        changed(account)
        throw error
      }
    case .refresh:
      publish(account)
      // A restart must not hand it out again.
      await finish(by: deadline) { await self.dropToken(account, generation: params.generation) }
    case .refreshNarrowed(let narrowed):
      key = narrowed
      await finish(by: deadline) { await self.dropToken(account, narrowed) }
    }
    let (token, _) = try await token(of: account, key, minimumTTL: nil, until: deadline)
    return .init(refreshed: token.generation > params.generation, generation: token.generation)
  }

  private func begin(_ account: AccountName, _ grant: Grant, _ key: SavedToken.Key) throws(RPCError) {
    guard !isDraining else { throw shuttingDown() }
    switch want(account, key) {
    case .underWay: break
    case .suspended(let failure): throw misconfigured(grant, failure)
    case .unreachable(let failure, let retryAt): throw unavailable(grant, failure, retryAt: retryAt)
    case .heldBack(let error): throw storeError(error)
    case .impossible: throw loginRequired(grant, .noRefreshToken, nil)
    }
  }

  private func waitForRefresh(_ account: AccountName, until deadline: Duration) async throws(RPCError) {
    if case .committing = grants[account]?.phase, let storeFailure { throw storeError(storeFailure) }
    guard uptime < deadline else { throw timedOut(account) }
    guard waiting.count < Limit.waiters else { throw RPCError(.overloaded, "too many requests are waiting") }
    guard !isStopped else { throw shuttingDown() }
    await wait(for: .account(account), until: deadline)
  }

  /// Waits for what goes on by itself, and no longer: a slow disk keeps no caller beyond its time.
  private func finish(by deadline: Duration, _ work: @escaping @Sendable () async -> Void) async {
    let key = Waiting.Key.work(waiting.ticket())
    Task {
      await work()
      waiting.wake(key)
    }
    await wait(for: key, until: deadline)
  }

  private func dropToken(_ account: AccountName, generation: Int64) async {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account], grant.rejectedGeneration == generation, grant.isTokenRejected else { return }
    do throws(StoreError) {
      try await commit([.removeToken(account, SavedToken.Key())])
    } catch {
      unsaved.insert(account)
    }
  }

  private func dropToken(_ account: AccountName, _ key: SavedToken.Key) async {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account], grant.token(for: key) == nil else { return }
    do throws(StoreError) {
      try await commit([.removeToken(account, key)])
    } catch {
      unsaved.insert(account)
    }
  }

  private func tooShort(_ grant: Grant) -> RPCError {
    RPCError(
      .providerError, "account \(grant.saved.account): the provider's new token was over as it came",
      hint: "Check the clock (timedatectl), and the lifetime of access tokens at the provider.")
  }

  private func timedOut(_ account: AccountName) -> RPCError {
    RPCError(
      .timedOut, "account \(account): the refresh did not end in time",
      hint: "Ask again: the refresh goes on. `grantctl show \(account)` tells how it went.")
  }

  private func minimumTTL(_ seconds: Double?) throws(RPCError) -> Duration? {
    guard let seconds else { return nil }
    guard seconds >= 0 else { throw .invalidParams("params.min_ttl: expected 0 or more seconds, got \(seconds)") }
    return .seconds(min(seconds, 1e9))
  }

  /// Which of the account's tokens serves this request: its own where that is what is asked for, else a narrowed one.
  /// A grant that cannot be renewed, and a provider that does not narrow, have the one token alone.
  func key(scopes: [String]?, resource: String?, _ grant: Grant) throws(RPCError) -> SavedToken.Key {
    let saved = grant.saved
    if let resource {
      guard ResourceIndicator.isValid(resource) else {
        throw .invalidParams("params.resource: expected an absolute URI without a fragment (RFC 8707 §2)")
      }
    }
    guard (scopes ?? []).count <= Limit.scopes, (scopes ?? []).allSatisfy(Self.isScope) else {
      throw .invalidParams("params.scopes: expected at most \(Limit.scopes) texts without spaces and quotes")
    }
    let asked = Set(scopes ?? [])
    let known = Set(saved.grantedScopes).union(saved.requestedScopes)
    // RFC 6749 §6: nothing that was not granted by the person.
    let missing = asked.subtracting(known)
    let isOpen = saved.kind.needsNobody && known.isEmpty
    guard missing.isEmpty || isOpen else { throw notGranted(grant, missing.sorted()) }
    let other = resource.flatMap { $0 == saved.resource ? nil : $0 }
    let isWhole = asked.isEmpty || asked == Set(saved.grantedScopes)
    if isWhole, other == nil { return SavedToken.Key() }
    let narrows = providers[saved.provider]?.provider.about.narrowsTokens ?? false
    guard saved.isRenewable, narrows else {
      guard other == nil else {
        throw RPCError(
          .scopeNotGranted,
          "account \(saved.account) was signed in for "
            + (saved.resource.map { "resource \($0)" } ?? "no particular resource"))
      }
      return SavedToken.Key()
    }
    return SavedToken.Key(scopes: isWhole ? nil : scopes, resource: other)
  }

  /// RFC 6749 §3.3.
  private static func isScope(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 1024
      && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
  }

  /// A token must have all that was asked for.
  private func checkScopes(_ scopes: [String]?, of token: SavedToken, _ saved: SavedGrant) throws(RPCError) {
    let missing = Set(scopes ?? []).subtracting(token.scopes)
    guard !missing.isEmpty, let grant = grants[saved.account] else { return }
    throw notGranted(grant, missing.sorted())
  }

  private func notGranted(_ grant: Grant, _ missing: [String]) -> RPCError {
    RPCError(
      .scopeNotGranted, "account \(grant.saved.account) was not granted \(missing.joined(separator: " ").prefix(200))",
      hint: "Sign in again with all the scopes that are needed: `grantctl login \(grant.saved.provider) "
        + "\(grant.saved.account) --scope …`.")
  }

  private func notGranted(_ grant: Grant, _ key: SavedToken.Key, _ failure: Failure) -> RPCError {
    let what = [key.scope, key.resource].filter { !$0.isEmpty }.joined(separator: " for ").prefix(200)
    return RPCError(
      .scopeNotGranted, "the provider gives account \(grant.saved.account) no token of \(what): \(failure.message)",
      hint: "Ask for other scopes or another resource, or without both for all that was granted.",
      oauth: failure.oauth.map { OAuthDetail($0) })
  }

  func accountName(_ text: String) throws(RPCError) -> AccountName {
    guard let name = AccountName(rawValue: text) else {
      throw .invalidParams("params.account: expected 1 to 128 characters of A-Z a-z 0-9 . _ @ + -")
    }
    return name
  }

  func providerName(_ text: String) throws(RPCError) -> ProviderName {
    guard let name = ProviderName(rawValue: text) else {
      throw .invalidParams("params.provider: expected 1 to 64 characters of A-Z a-z 0-9 . _ @ + -")
    }
    return name
  }
}
