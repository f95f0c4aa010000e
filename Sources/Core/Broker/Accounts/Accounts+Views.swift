import BrokerAPI
import Grants
import OAuth

// Accounts as callers see them.
extension Accounts {
  func state(of grant: Grant) -> AccountState {
    switch grant.saved.standing {
    case .loginRequired where grant.awaitsSecondTry: return .degraded
    case .loginRequired: return .loginRequired
    case .misconfigured where grant.isRefusedAlone: return .loginRequired
    case .misconfigured where !grant.isRefusedLately: return .actionRequired
    case .misconfigured:
      return providers[grant.saved.provider].map { $0.suspended == nil } ?? false ? .degraded : .actionRequired
    case .good, .failing: break
    }
    guard let connection = providers[grant.saved.provider], connection.suspended == nil else {
      return .actionRequired
    }
    switch (grant.phase, grant.saved.standing) {
    case (.refreshing, .good), (.committing, .good): return .refreshing
    case (_, .failing), (.overdue, _): return .degraded
    case (.idle, _): return heldUp(grant) == nil && !grant.isUnproven && blocked(grant) == nil ? .ok : .degraded
    case (.refreshing, .loginRequired), (.refreshing, .misconfigured), (.committing, .loginRequired),
      (.committing, .misconfigured):
      return .actionRequired
    }
  }

  /// Its refresh is due and rests, since the provider does not answer.
  private func heldUp(_ grant: Grant) -> (failure: FailureRecord, retryAt: Timestamp)? {
    guard grant.phase == .idle, let connection = providers[grant.saved.provider],
      case .unreachable(let failure, _, let retryAt) = connection.condition,
      let moment = grant.nextMoment(policy: refreshPolicy, at: now), moment <= now
    else { return nil }
    return (failure, retryAt)
  }

  /// When the account's refresh token will end, where that is known.
  func refreshTokenEnd(of grant: Grant) -> RefreshTokenEnd? {
    grant.refreshTokenEnd(learned: providers[grant.saved.provider]?.learned.lifetime)
  }

  /// Whether the user should sign in again before the refresh token ends.
  func endsSoon(_ grant: Grant) -> Bool { endsSoonAfter(grant).map { $0 < now } ?? false }

  func endsSoonAfter(_ grant: Grant) -> Timestamp? {
    grant.refreshTokenEndsSoonAfter(
      learned: providers[grant.saved.provider]?.learned.lifetime, policy: refreshPolicy)
  }

  func view(_ grant: Grant) -> AccountView {
    let saved = grant.saved
    let end = refreshTokenEnd(of: grant)
    return AccountView(
      account: saved.account.rawValue, provider: saved.provider.rawValue, state: state(of: grant),
      identity: saved.identity.map {
        .init(subject: $0.subject, issuer: $0.issuer, email: $0.email, name: $0.name, username: $0.username)
      }, scopes: scopes(of: grant), generation: saved.generation, expires_at: grant.token?.expiresAt?.seconds,
      next_refresh_at: nextRefresh(of: grant)?.seconds,
      refresh_expires_at: end?.at.seconds, refresh_expiry_learned: end?.isLearned == true ? true : nil,
      refresh_expires_soon: endsSoon(grant) ? true : nil,
      refresh_issued_at: saved.refreshToken == nil ? nil : saved.refreshTokenIssuedAt?.seconds,
      last_refresh_at: grant.token?.issuedAt.seconds,
      logged_in_at: saved.loggedInAt.seconds, last_error: lastError(grant), grant: saved.kind.rawValue,
      token_binding: binding(of: saved), tokens: narrowed(grant), renewable: saved.isRenewable,
      reports: reports(grant), lost_scopes: lost(grant), scopes_unverified: areUnverified(saved) ? true : nil,
      required_scopes: stepUp(of: grant).map { missing($0.scopes, grant) })
  }

  /// Not before the end of the provider's `Retry-After`.
  private func nextRefresh(of grant: Grant) -> Timestamp? {
    guard grant.saved.isRenewable, let moment = grant.nextMoment(policy: refreshPolicy, at: now) else { return nil }
    guard let hold = providers[grant.saved.provider]?.gate.limit.heldUntil, hold > uptime else { return moment }
    return max(moment, wall(hold))
  }

  private func lost(_ grant: Grant) -> [String]? {
    let lost = lostScopes(of: grant)
    return lost.isEmpty ? nil : lost
  }

  /// Granted scopes that the account's token has.
  private func scopes(of grant: Grant) -> [String] {
    let lost = Set(lostScopes(of: grant))
    return grant.saved.grantedScopes.filter { !lost.contains($0) }
  }

  /// Scopes that were granted and that the account's current token does not have: the provider left them out at a refresh.
  func lostScopes(of grant: Grant) -> [String] {
    guard let token = grant.token, let provider = providers[grant.saved.provider]?.provider else { return [] }
    return grant.saved.grantedScopes.filter { !provider.isGranted($0, in: token.scopes) }
  }

  /// The provider does not tell the scopes of its tokens, so the requested ones are shown.
  private func areUnverified(_ saved: SavedGrant) -> Bool { providers[saved.provider]?.diagnostics.omitsScope ?? false }

  private func binding(of saved: SavedGrant) -> String? {
    (providers[saved.provider]?.provider.tokenTraits.binding ?? TokenBinding()).method(of: saved)
  }

  private func reports(_ grant: Grant) -> [AccountView.Report]? {
    let reports = grant.reports.map { generation, report in
      AccountView.Report(
        uid: Int64(report.reporter.uid), unit: report.reporter.unit, user_unit: report.reporter.userUnit,
        generation: generation, at: report.at.seconds)
    }
    return reports.isEmpty ? nil : reports
  }

  private func narrowed(_ grant: Grant) -> [AccountView.NarrowedToken]? {
    let tokens = grant.livingTokens.filter(\.key.isNarrowed)
    guard !tokens.isEmpty else { return nil }
    return tokens.sorted { ($0.key.scope, $0.key.target) < ($1.key.scope, $1.key.target) }.map {
      .init(
        scopes: $0.scopes, resource: $0.key.place,
        expires_at: $0.expiresAt?.seconds)
    }
  }

  private func lastError(_ grant: Grant) -> AccountView.LastError? {
    let saved = grant.saved
    func view(_ error: RPCError, _ failure: FailureRecord) -> AccountView.LastError {
      .init(
        reason: error.reason ?? .providerError, message: failure.message, hint: error.hint ?? "",
        at: failure.at.seconds, oauth: error.oauth)
    }
    // A fault of the provider's accounts has precedence over faults of the single account.
    switch saved.standing {
    case .good, .failing:
      guard let connection = providers[saved.provider] else {
        let error = misconfigured(grant, FailureRecord(message: "", at: configuredAt))
        return view(error, FailureRecord(message: error.message, at: configuredAt))
      }
      if let failure = connection.suspended { return view(misconfigured(grant, failure), failure) }
    case .loginRequired, .misconfigured: break
    }
    switch saved.standing {
    case .good where grant.isUnproven:
      let message =
        "it was imported, and its provider has not said yet whose token it is: no program gets it before that"
      return .init(
        reason: .temporarilyUnavailable, message: message,
        hint: "`grantctl token \(saved.account)` asks the provider, and tells what it answers.",
        at: saved.loggedInAt.seconds, oauth: nil)
    case .good:
      if let failure = blocked(grant) {
        return view(RPCError(.providerError, failure.message, hint: Self.blockedHint), failure)
      }
      return heldUp(grant).map { view(unavailable(grant, $0.failure, retryAt: $0.retryAt), $0.failure) }
    case .failing(let failure, _, let retryAt):
      return view(unavailable(grant, failure, retryAt: retryAt), failure)
    case .loginRequired(_, let failure) where grant.awaitsSecondTry:
      let moment = grant.nextMoment(policy: refreshPolicy, at: now) ?? now
      return view(unavailable(grant, failure, retryAt: moment), failure)
    case .loginRequired(let reason, let failure):
      var error = view(loginRequired(grant, reason, failure), failure)
      (error.detail, error.rotation) = (reason.rawValue, rotation(of: saved))
      return error
    case .misconfigured(let failure): return view(misconfigured(grant, failure), failure)
    }
  }
}

extension Accounts {
  /// An account that cannot be read, with the commands that repair, replace or remove it.
  func view(unreadable grant: Grant) -> BrokerStatus.SetAsideView? {
    guard case .loginRequired(.unreadable, let failure) = grant.saved.standing else { return nil }
    let account = grant.saved.account
    return .init(
      row: account.rawValue, account: account.rawValue, message: failure.message,
      hint: "\(loginHint(grant.saved)) Or repair it with `grantctl repair \(account)`, or remove it with "
        + "`grantctl logout \(account)`.")
  }
}
