import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

extension Broker {
  func accounts(_ params: AccountList.Params, caller: Caller) throws(RPCError) -> AccountList.Result {
    if let name = params.provider, !providers.keys.contains(where: { $0.rawValue == name }),
      !grants.values.contains(where: { $0.saved.provider.rawValue == name })
    {
      throw unknownProvider(name)
    }
    let seen = grants.values.filter { grant in
      (params.provider.map { $0 == grant.saved.provider.rawValue } ?? true)
        && configuration.policy.allows(
          .observe, method: AccountList.name, account: grant.saved.account.rawValue, caller: caller)
    }
    return .init(accounts: seen.sorted { $0.saved.account < $1.saved.account }.map(view))
  }

  func account(_ params: AccountGet.Params) throws(RPCError) -> AccountView {
    guard let grant = grants[try accountName(params.account)] else { throw unknownAccount(params.account) }
    return view(grant)
  }

  /// Forgets at once, with what has still to be revoked on disk in the same commit; then tells the provider.
  func logout(_ params: AccountLogout.Params) async throws(RPCError) -> AccountLogout.Result {
    let account = try accountName(params.account)
    // It would be there again after the next reload.
    if grants[account]?.saved.kind.needsNobody == true {
      throw .invalidParams(
        "account \(account) is declared in the configuration",
        hint: "Remove [account.\(account)] from the configuration, then `grantctl reload`.")
    }
    if let reach = params.where { try check(reach, of: account) }
    let (grant, pending) = try await forget(account, revoke: params.revoke ?? true, reach: params.where)
    changed(account)
    logger.notice(
      "forgot \(account)", metadata: ["account": "\(account)", "provider": "\(grant.saved.provider)"])
    emit(
      Event(
        type: .accountRemoved, at: now.seconds, account: account.rawValue, provider: grant.saved.provider.rawValue))
    var steps = await revoke(pending, of: grant.saved.provider)
    var url: String?
    if params.end_session == true {
      url = await endSession(of: grant.saved)
      steps.append(
        url == nil
          ? .init(
            step: "end_session", result: "unsupported", message: "the provider has no end_session_endpoint")
          : .init(step: "end_session", result: "queued", message: "open the URL in the person's browser"))
    }
    steps.append(.init(step: "forget", result: "done"))
    return .init(steps: steps, end_session_url: url)
  }

  private func check(_ reach: String, of account: AccountName) throws(RPCError) {
    guard let grant = grants[account] else { throw unknownAccount(account.rawValue) }
    let known = providers[grant.saved.provider]?.provider.about.logoutReaches ?? []
    guard !known.contains(reach) else { return }
    throw .invalidParams(
      "params.where: the provider knows no \(reach.prefix(64).debugDescription)",
      hint: known.isEmpty ? "Leave it out: it has no such thing." : "It knows: \(known.joined(separator: ", ")).")
  }

  func forget(
    _ account: AccountName, revoke: Bool, reach: String? = nil
  ) async throws(RPCError) -> (Grant, [PendingRevocation]) {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account] else { throw unknownAccount(account.rawValue) }
    let tokens = revoke ? liveTokens(grant) : []
    let context = revocationContext(of: grant.saved, reach: reach)
    let pending = tokens.map { pendingRevocation($0.token, $0.hint, context, provider: grant.saved.provider) }
    do throws(StoreError) {
      try await commit([.removeGrant(account)] + pending.map { .putRevocation($0) })
    } catch {
      throw storeError(error)
    }
    grants[account] = nil
    for revocation in pending { revocations[revocation.id] = revocation }
    return (grant, pending)
  }

  private func revocationContext(of saved: SavedGrant, reach: String?) -> [String: String] {
    guard let provider = providers[saved.provider]?.provider else { return [:] }
    var context = provider.revocationContext(of: saved, reach: reach)
    guard provider.about.revokesByAccessToken else { return context }
    // It ends all that the person gave this client: also what they give after it was queued.
    context["account"] = saved.account.rawValue
    context["subject"] = saved.identity?.subject
    return context
  }

  /// What waits to be revoked and would end the grant of a person who has signed in again.
  func obsoleteRevocations(_ saved: SavedGrant) -> [String] {
    guard providers[saved.provider]?.provider.about.revokesByAccessToken == true else { return [] }
    return revocations.values.filter { revocation in
      guard revocation.provider == saved.provider else { return false }
      guard let subject = saved.identity?.subject, let other = revocation.context["subject"] else {
        return revocation.context["account"] == saved.account.rawValue
      }
      return subject == other
    }.map(\.id)
  }

  /// The refresh token first: nothing new comes of it then (RFC 7009 §2.1). Where access tokens alone are taken, that one,
  /// and the refresh token for when it has ended.
  private func liveTokens(_ grant: Grant) -> [(token: Secret, hint: String)] {
    let about = providers[grant.saved.provider]?.provider.about
    var refresh = grant.saved.refreshToken
    if case .committing(_, let renewal) = grant.phase { refresh = renewal.grant.refreshToken }
    var tokens = refresh.map { [(token: $0, hint: "refresh_token")] } ?? []
    if let access = grant.token, access.expiresAt.map({ $0 > now }) ?? true {
      let place = about?.revokesByAccessToken == true ? 0 : tokens.count
      tokens.insert((access.accessToken, about?.tokenHint ?? "access_token"), at: place)
    }
    return tokens
  }

  // MARK: Revocations

  func pendingRevocation(
    _ token: Secret, _ hint: String, _ context: [String: String] = [:], provider: ProviderName
  ) -> PendingRevocation {
    PendingRevocation(
      id: surroundings.token(bytes: 12), provider: provider, token: token, hint: hint, context: context, attempts: 0,
      retryAt: now + .seconds(60), expiresAt: now + Limit.revocationLife)
  }

  func queueRevocations(
    _ tokens: [(token: Secret, hint: String)], _ context: [String: String] = [:], provider: ProviderName
  ) async {
    guard revocations.count + tokens.count <= Limit.revocations else { return }
    var pending = tokens.map { pendingRevocation($0.token, $0.hint, context, provider: provider) }
    for index in pending.indices { pending[index].retryAt = now }
    for revocation in pending { revocations[revocation.id] = revocation }
    await commitOrWarn(pending.map { .putRevocation($0) }, "a token to revoke")
    nudge?.yield()
  }

  /// Tries them in their order, and tells as much of it as is known in time.
  private func revoke(_ pending: [PendingRevocation], of name: ProviderName) async -> [AccountLogout.Step] {
    let endsAll = providers[name]?.provider.about.revokesByAccessToken == true
    let key = Waiting.Key.work(waiting.ticket())
    let told = Told()
    Task {
      for revocation in pending {
        if endsAll, told.steps.last?.result == "done" {
          await dropRevocation(revocation)
          told.steps.append(.init(step: "revoke_\(revocation.hint)", result: "done"))
        } else {
          told.steps.append(await revoke(revocation))
        }
      }
      waiting.wake(key)
    }
    if !pending.isEmpty { await wait(for: key, until: uptime + Limit.logoutWait) }
    return told.steps
      + pending.dropFirst(told.steps.count).map {
        .init(step: "revoke_\($0.hint)", result: "queued", message: "the provider has not answered yet")
      }
  }

  /// Tries one revocation; keeps it for later where that makes sense.
  @discardableResult
  func revoke(_ revocation: PendingRevocation) async -> AccountLogout.Step {
    let step = "revoke_\(revocation.hint)"
    guard let provider = providers[revocation.provider]?.provider else {
      // It may be configured again: the token is live until somebody revokes it.
      return await settle(revocation, step, .retryLater(after: nil), "the provider is not configured")
    }
    let metadata: ServerMetadata
    switch await self.metadata(of: provider.name) {
    case .success(let known): metadata = known
    case .failure(let failure): return await settle(revocation, step, .retryLater(after: nil), failure.message)
    }
    var revocation = revocation
    var (token, hint) = (revocation.token, revocation.hint)
    if provider.about.revokesByAccessToken, hint == "refresh_token" {
      switch await converse(provider.tokenToRevoke(by: token, metadata: metadata), with: provider.name) {
      case .success(let issued):
        (token, hint) = (issued.accessToken, "access_token")
        await keep(issued.refreshToken, for: &revocation)
      case .failure(let failure): return await settle(revocation, step, failure.ofRevocation, failure.message)
      }
    }
    guard
      let request = provider.revocation(of: token, hint: hint, context: revocation.context, metadata: metadata)
    else {
      await dropRevocation(revocation)
      return .init(step: step, result: "unsupported", message: "the provider has no revocation endpoint")
    }
    switch await send(request, to: provider.name) {
    case .success(let response): return await settle(revocation, step, provider.revocationOutcome(response), nil)
    case .failure(let failure): return await settle(revocation, step, .retryLater(after: nil), failure.message)
    }
  }

  /// The provider rotated it: what ends the grant is now the new one.
  private func keep(_ rotated: Secret?, for revocation: inout PendingRevocation) async {
    guard let rotated, !rotated.isEmpty, rotated != revocation.token else { return }
    revocation.token = rotated
    revocations[revocation.id] = revocation
    await commitOrWarn([.putRevocation(revocation)], "a token to revoke")
  }

  private func settle(
    _ revocation: PendingRevocation, _ step: String, _ outcome: RevocationOutcome, _ message: String?
  ) async -> AccountLogout.Step {
    switch outcome {
    case .revoked:
      await dropRevocation(revocation)
      return .init(step: step, result: "done")
    case .unsupported:
      await dropRevocation(revocation)
      return .init(step: step, result: "unsupported", message: "the provider does not revoke such tokens")
    case .refused(let error):
      await dropRevocation(revocation)
      return .init(step: step, result: "refused", message: message ?? error?.description)
    case .retryLater(let after):
      var later = revocation
      later.attempts += 1
      let wait = Limit.revocationDelays[min(later.attempts, Limit.revocationDelays.count) - 1]
      later.retryAt = now + max(wait, after ?? .zero)
      // A clock that leapt is no week of trying.
      if later.retryAt < later.expiresAt || later.attempts < Limit.revocationAttempts {
        revocations[later.id] = later
        await commitOrWarn([.putRevocation(later)], "a token to revoke")
        nudge?.yield()
        return .init(step: step, result: "queued", message: message ?? "the provider is out of order")
      }
      await dropRevocation(revocation)
      return .init(step: step, result: "refused", message: "given up after a week of trying")
    }
  }

  private func dropRevocation(_ revocation: PendingRevocation) async {
    revocations[revocation.id] = nil
    await commitOrWarn([.removeRevocation(revocation.id)], "a revoked token")
  }
}

extension ProviderFailure {
  /// What it means that no access token could be had to revoke the grant by.
  fileprivate var ofRevocation: RevocationOutcome {
    switch self {
    // There is nothing left to revoke.
    case .ended: .revoked
    case .tryLater, .unclear, .lost, .notSent, .blocked: .retryLater(after: retryAfter)
    case .misconfigured, .invalid, .rejected, .tokenRefused, .denied: .refused(oauth)
    case .unsupported: .unsupported
    }
  }
}

/// What came of the revocations so far. Touched on the broker's actor alone.
private final class Told {
  var steps: [AccountLogout.Step] = []
}
