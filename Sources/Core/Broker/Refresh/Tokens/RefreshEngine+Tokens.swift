import BrokerAPI
import Grants
import OAuth
import Principals

// Tokens for callers: the current one, or the result of a refresh that all callers share.
extension RefreshEngine {
  /// A token that is valid now, refreshed first where it has to be.
  ///
  /// - Parameters:
  ///   - asker: whose request waits for it; nil: it is for the broker itself.
  ///   - beyond: a generation that does not satisfy the broker itself.
  func token(
    of account: AccountName, _ key: SavedToken.Key, minimumTTL: Duration?, for asker: TokenRequester?,
    beyond: Int64? = nil,
    until deadline: Duration
  ) async throws(RPCError) -> (SavedToken, SavedGrant) {
    let first = accounts[account].flatMap { $0.token(for: $0.isUnproven ? .init() : key)?.generation }
    let firstOwn = accounts[account]?.token?.generation
    let asked = now
    let turn = asker.map { "\($0.holder)" } ?? ""
    var hasPaid = false
    var hasSlept = false
    for _ in 0..<Limit.tokenRounds {
      guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
      let unwanted =
        asker.map { $0.unwanted(grant, key) } ?? beyond.flatMap { $0 == grant.token(for: key)?.generation ? $0 : nil }
      let answer = grant.answer(
        minimumTTL: minimumTTL, at: now, policy: accounts.refreshPolicy, key: key, unwanted: unwanted)
      var isProbe = false
      switch answer {
      case .token(let token):
        if key.isNarrowed, accounts[account]?.served(key) == true { wakeScheduler() }
        return (token, grant.saved)
      case .loginRequired(let reason, let failure):
        // A refresh by request, while callers get the access token: only a second refusal ends the grant.
        if asker?.beyond != nil, let failure, grant.awaitsSecondTry,
          let moment = grant.nextMoment(policy: accounts.refreshPolicy, at: now)
        {
          throw accounts.unavailable(grant, failure, retryAt: moment)
        }
        throw accounts.loginRequired(grant, reason, failure)
      case .misconfigured(let failure): throw accounts.misconfigured(grant, failure)
      case .temporarilyUnavailable(let failure, let retryAt):
        // In an outage the account's own wait does not count.
        guard let connection = providers[grant.saved.provider], mayProbe(connection) || awaitsProbe(connection),
          !isExchangeOnly(key, of: grant, connection)
        else {
          throw accounts.unavailable(grant, failure, retryAt: retryAt)
        }
        isProbe = true
      case .refused(let failure): throw accounts.notGranted(grant, key, failure)
      case .unproven(let token) where !isOwn(token, grant.saved):
        // The provider of now would not know it.
        _ = accounts[account]?.rejected(generation: token.generation, at: now)
        continue
      case .unproven(let token):
        try await proofs.prove(account, token, for: asker?.holder, until: deadline)
        continue
      case .refresh, .wait: break
      }
      // Whose an import is tells the login's own token.
      let key = grant.isUnproven ? SavedToken.Key() : key
      do throws(RPCError) {
        if answer == .refresh { try checkNarrowing(key, of: grant, since: firstOwn) }
        // A lifetime that a fresh token lacks, the next one will lack too. One from another broker may be old.
        if answer == .refresh, let latest = grant.token(for: key), latest.generation != first,
          grant.rejectedGeneration != latest.generation, unwanted != latest.generation,
          !journal.isShared || latest.issuedAt >= asked
        {
          // The machine slept longer than the token lives, while the answer was on its way. The token is not too short.
          guard !hasSlept, now - latest.issuedAt > Limit.lateAnswer, wasLongEnough(latest, grant, key, minimumTTL)
          else { throw tooShort(grant) }
          hasSlept = true
        }
        let isReplacement =
          asker?.isForExpired != true && !isUnderWay(account) && isGood(grant, key)
          && (unwanted != nil || isUsable(grant, key, without: minimumTTL, of: asker))
        if let asker {
          if isReplacement {
            try checkBudget(of: asker, account)
          } else if key.isNarrowed, !hasPaid, !grant.isRequested(key, by: turn) {
            try payForNarrowed(asker, account)
            hasPaid = true
          }
        }
        if answer == .refresh || isProbe {
          try begin(account, grant, key, by: turn, until: wall(deadline))
          if isReplacement, let asker { budgets.replacements.begin(account, for: asker.holder, at: uptime) }
        } else if key.isNarrowed {
          accounts[account]?.wants(key, by: turn, until: wall(deadline))
        }
        // Another account's probe is not waited for any longer once it is stuck.
        let probe = isUnderWay(account) ? nil : providers[grant.saved.provider].flatMap(probeEnd)
        let end = probe.flatMap { $0 > uptime ? $0 : nil } ?? secondTry(of: account) ?? deadline
        // At its end this broker may refresh, although the token is not due.
        let lease = leaseElsewhere(account) ?? deadline
        try await waitForRefresh(account, for: asker, until: min(deadline, end, lease))
      } catch {
        if key.isNarrowed, accounts[account]?.isWanted(key, by: turn) == true {
          accounts[account]?.unwants(key, by: turn)
        }
        // Less time than asked for is better than none.
        guard let grant = accounts[account],
          case .token(let token) = grant.lastResort(at: now, key: key, unwanted: asker?.unwanted(grant, key))
        else { throw error }
        return (token, grant.saved)
      }
    }
    throw timedOut(account)
  }

  /// The account's token for a request to a server: one of the server and the client that are configured for its
  /// provider.
  ///
  /// A reload may have moved the provider. Then an earlier token is treated as refused, as the current server would refuse
  /// it, and is not sent there; the next one is requested from the current server. If none can be obtained without a
  /// user, the token stays: it is valid again under the earlier configuration.
  func ownToken(
    of account: AccountName, for asker: TokenRequester?, until deadline: Duration
  ) async throws(RPCError) -> (SavedToken, SavedGrant) {
    // An answer of the server of before may be under way, and be there first.
    for _ in 0..<Limit.conflicts {
      let (token, saved) = try await token(of: account, SavedToken.Key(), minimumTTL: nil, for: asker, until: deadline)
      guard !isOwn(token, saved) else { return (token, saved) }
      guard saved.isRenewable else { throw foreignToken(saved) }
      if accounts[account]?.token?.accessToken == token.accessToken {
        _ = accounts[account]?.rejected(generation: token.generation, at: now)
        accounts.publish(account)
      }
    }
    throw providerMoved(account)
  }

  /// Whether the token is of the server and the client that are configured now.
  func isOwn(_ token: SavedToken, _ saved: SavedGrant) -> Bool { providers.isOwn(token.issuedAt, of: saved.provider) }

  private func foreignToken(_ saved: SavedGrant) -> RPCError {
    RPCError(
      .loginRequired,
      "the token of account \(saved.account) is of another server or client than provider \(saved.provider) is now",
      hint: accounts.loginHint(saved))
  }

  /// When the account's refused refresh token is tried once more; nil: it is not, or may be at any moment.
  private func secondTry(of account: AccountName) -> Duration? {
    guard let grant = accounts[account], grant.awaitsSecondTry,
      let moment = grant.nextMoment(policy: accounts.refreshPolicy, at: now), moment > now
    else { return nil }
    return uptime + (moment - now)
  }

  /// Whether other callers can still use the token.
  private func isGood(_ grant: Grant, _ key: SavedToken.Key) -> Bool {
    if case .token = grant.lastResort(at: now, key: key) { true } else { false }
  }

  /// Whether only the caller's minimum lifetime excludes the token. Root and the broker's own user are not charged for
  /// that.
  private func isUsable(
    _ grant: Grant, _ key: SavedToken.Key, without minimumTTL: Duration?, of asker: TokenRequester?
  ) -> Bool {
    guard minimumTTL != nil, asker?.holder.hasOwnPlaces == false else { return false }
    if case .token = grant.answer(minimumTTL: nil, at: now, policy: accounts.refreshPolicy, key: key) { return true }
    return false
  }

  /// Narrowing may have become unavailable since the caller asked. A refresh of the account's own token would not
  /// return the wanted one, and each round would begin another.
  ///
  /// - Parameter first: the generation of the account's own token when the caller asked.
  private func checkNarrowing(_ key: SavedToken.Key, of grant: Grant, since first: Int64?) throws(RPCError) {
    guard key.isNarrowed, let connection = providers[grant.saved.provider] else { return }
    switch connection.narrowing(of: grant.saved) {
    case .refresh: break
    case .unavailable:
      throw accounts.notGranted(grant, key, FailureRecord(message: connection.narrowingObstacle, at: now))
    case .exchange:
      // A token that cannot be exchanged although it is new is followed by others like it.
      guard let own = grant.token, own.generation != first, grant.rejectedGeneration != own.generation,
        !isGood(grant, SavedToken.Key())
      else { return }
      throw tooShort(grant)
    }
  }

  /// Whether the token would have done when it was issued.
  private func wasLongEnough(
    _ token: SavedToken, _ grant: Grant, _ key: SavedToken.Key, _ minimumTTL: Duration?
  ) -> Bool {
    let answer = grant.answer(
      minimumTTL: minimumTTL, at: token.issuedAt, policy: accounts.refreshPolicy, key: key)
    return if case .token = answer { true } else { false }
  }

  /// Only an exchange of the account's own token, which is valid, can return this one: its refresh does not help.
  private func isExchangeOnly(_ key: SavedToken.Key, of grant: Grant, _ connection: ProviderConnection) -> Bool {
    key.isNarrowed && (key.needsExchange || connection.narrowing(of: grant.saved) == .exchange)
      && isGood(grant, SavedToken.Key())
  }

  /// Each narrowed token is a request to the provider with the account's one refresh token, and takes another's place.
  private func payForNarrowed(_ asker: TokenRequester, _ account: AccountName) throws(RPCError) {
    guard !asker.holder.hasOwnPlaces else { return }
    if let wait = budgets.narrowings.wait(account, asker.holder, at: uptime) {
      throw RPCError(
        .temporarilyUnavailable,
        "account \(account): \(asker.holder) has asked for too many tokens of different scopes or resources",
        hint: "Use the same `scopes` and `resource` again, or none.", retryAfter: wait.inSeconds.rounded(.up))
    }
    budgets.narrowings.charge(account, asker.holder, at: uptime)
  }

  /// A caller that has valid tokens replaced uses its own budget.
  private func checkBudget(of asker: TokenRequester, _ account: AccountName) throws(RPCError) {
    guard asker.isPaced, let wait = budgets.replacements.wait(account, asker.holder, at: uptime) else { return }
    throw RPCError(
      .temporarilyUnavailable,
      "account \(account): \(asker.holder) has had its tokens replaced too often, and gets the next one later",
      hint: "Find out why they are refused: their scopes, their audience, the clock. Other callers are served.",
      retryAfter: wait.inSeconds.rounded(.up))
  }

  private func begin(
    _ account: AccountName, _ grant: Grant, _ key: SavedToken.Key, by turn: String, until: Timestamp
  ) throws(RPCError) {
    guard !isDraining else { throw shuttingDown() }
    switch want(account, key, by: turn, until: until) {
    case .underWay: break
    case .suspended(let failure): throw accounts.misconfigured(grant, failure)
    case .unreachable(let failure, let retryAt): throw accounts.unavailable(grant, failure, retryAt: retryAt)
    case .heldBack(let error): throw storeError(error)
    case .impossible: throw accounts.loginRequired(grant, .noRefreshToken, nil)
    }
  }

  private func waitForRefresh(
    _ account: AccountName, for asker: TokenRequester?, until deadline: Duration
  ) async throws(RPCError) {
    if case .committing = accounts[account]?.phase, let failure = journal.failure { throw storeError(failure) }
    guard uptime < deadline else { throw isElsewhere(account) ?? timedOut(account) }
    guard !isStopped else { throw shuttingDown() }
    guard let asker else { return await wait(for: .account(account), until: deadline) }
    try await waiters.callerWaits(for: .account(account), of: asker.holder, until: deadline)
  }

  private func tooShort(_ grant: Grant) -> RPCError {
    RPCError(
      .providerError, "account \(grant.saved.account): the provider issued a token that had already expired",
      hint: "Check the clock (timedatectl), and the lifetime of access tokens at the provider.")
  }

  /// Another machine refreshes the account; nil: none does.
  private func isElsewhere(_ account: AccountName) -> RPCError? {
    guard accounts[account]?.phase == .idle, let holder = leases.holder(of: account, at: uptime) else { return nil }
    let wait = max(1, (holder.end - uptime).wholeSeconds)
    return RPCError(
      .temporarilyUnavailable,
      "account \(account): the refresh that machine \(holder.name) began has no answer yet",
      hint: "Wait: this machine tries in \(wait) s. With `manage` access, "
        + "`grantctl refresh --now \(account)` takes it over; that may end the grant.",
      retryAfter: Double(wait))
  }

  private func timedOut(_ account: AccountName) -> RPCError {
    RPCError(
      .timedOut, "account \(account): the refresh did not end in time",
      hint: "Ask again: the refresh goes on. `grantctl show \(account)` tells how it went.")
  }
}
