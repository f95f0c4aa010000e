import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

extension Broker {
  func accounts(_ params: AccountList.Params, caller: Caller) -> AccountList.Result {
    let seen = grants.values.filter { grant in
      (params.provider.map { $0 == grant.saved.provider.rawValue } ?? true)
        && configuration.policy.allows(.observe, account: grant.saved.account.rawValue, caller: caller)
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
    let (grant, pending) = try await forget(account, revoke: params.revoke ?? true)
    changed(account)
    logger.notice(
      "forgot \(account)", metadata: ["account": "\(account)", "provider": "\(grant.saved.provider)"])
    emit(
      Event(
        type: .accountRemoved, at: now.seconds, account: account.rawValue, provider: grant.saved.provider.rawValue))
    var steps: [AccountLogout.Step] = []
    for revocation in pending { steps.append(await revoke(revocation)) }
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

  func forget(
    _ account: AccountName, revoke: Bool
  ) async throws(RPCError) -> (Grant, [PendingRevocation]) {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account] else { throw unknownAccount(account.rawValue) }
    let tokens = revoke ? liveTokens(grant) : []
    let pending = tokens.map { pendingRevocation($0.token, $0.hint, provider: grant.saved.provider) }
    do throws(StoreError) {
      try await commit([.removeGrant(account)] + pending.map { .putRevocation($0) })
    } catch {
      throw storeError(error)
    }
    grants[account] = nil
    for revocation in pending { revocations[revocation.id] = revocation }
    return (grant, pending)
  }

  /// The refresh token first: nothing new comes of it then (RFC 7009 §2.1).
  private func liveTokens(_ grant: Grant) -> [(token: Secret, hint: String)] {
    var refresh = grant.saved.refreshToken
    if case .committing(_, let renewal) = grant.phase { refresh = renewal.grant.refreshToken }
    var tokens = refresh.map { [(token: $0, hint: "refresh_token")] } ?? []
    if let access = grant.token, access.expiresAt.map({ $0 > now }) ?? true {
      tokens.append((access.accessToken, "access_token"))
    }
    return tokens
  }

  // MARK: Revocations

  private func pendingRevocation(_ token: Secret, _ hint: String, provider: ProviderName) -> PendingRevocation {
    PendingRevocation(
      id: surroundings.token(bytes: 12), provider: provider, token: token, hint: hint, attempts: 0,
      retryAt: now + .seconds(60), expiresAt: now + Limit.revocationLife)
  }

  func queueRevocations(_ tokens: [(token: Secret, hint: String)], provider: ProviderName) async {
    guard revocations.count + tokens.count <= Limit.revocations else { return }
    var pending = tokens.map { pendingRevocation($0.token, $0.hint, provider: provider) }
    for index in pending.indices { pending[index].retryAt = now }
    for revocation in pending { revocations[revocation.id] = revocation }
    await commitOrWarn(pending.map { .putRevocation($0) }, "a token to revoke")
    nudge?.yield()
  }

  /// Tries one revocation; keeps it for later where that makes sense.
  @discardableResult
  func revoke(_ revocation: PendingRevocation) async -> AccountLogout.Step {
    let step = "revoke_\(revocation.hint)"
    guard let provider = providers[revocation.provider]?.provider else {
      // It may be configured again: the token is live until somebody revokes it.
      return await settle(revocation, step, .retryLater(after: nil), "the provider is not configured")
    }
    var outcome: RevocationOutcome
    var message: String?
    switch await metadata(of: provider.name) {
    case .failure(let failure):
      outcome = .retryLater(after: nil)
      message = failure.message
    case .success(let metadata):
      guard let request = provider.revocation(of: revocation.token, hint: revocation.hint, metadata: metadata) else {
        await dropRevocation(revocation)
        return .init(step: step, result: "unsupported", message: "the provider has no revocation endpoint")
      }
      switch await send(request, to: provider.name) {
      case .success(let response): outcome = provider.revocationOutcome(response)
      case .failure(let failure):
        outcome = .retryLater(after: nil)
        message = failure.message
      }
    }
    return await settle(revocation, step, outcome, message)
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
      return .init(step: step, result: "refused", message: error?.description)
    case .retryLater(let after):
      var later = revocation
      later.attempts += 1
      let wait = Limit.revocationDelays[min(later.attempts, Limit.revocationDelays.count) - 1]
      later.retryAt = now + max(wait, after ?? .zero)
      // A clock that leapt is no week of trying.
      if later.retryAt < later.expiresAt || later.attempts < Limit.revocationAttempts {
        revocations[later.id] = later
        await commitOrWarn([.putRevocation(later)], "a token to revoke")
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
