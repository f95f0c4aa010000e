import BrokerAPI
import Grants
import Logging
import OAuth

/// `account.logout`: an account is forgotten, and its provider told.
@BrokerActor
final class Logouts: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory
  private let journal: Journal
  private let revocations: Revocations
  private let endings: SessionEndings

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, revocations: Revocations,
    endings: SessionEndings
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.revocations = revocations
    self.endings = endings
  }

  /// Removes the account at once, with its pending revocations in the same commit; then informs the provider.
  func logout(
    _ account: AccountName, _ params: AccountLogout.Params
  ) async throws(RPCError) -> AccountLogout.Result {
    // It would be there again after the next reload.
    if accounts[account]?.saved.kind.isUnattended == true {
      throw .invalidParams(
        "account \(account) is declared in the configuration",
        hint: "Remove [account.\(account)] from the configuration, then `grantctl reload`.")
    }
    if let reach = params.where { try check(reach, of: account) }
    let (grant, pending) = try await remove(account, revoke: params.revoke ?? true, reach: params.where)
    accounts.changed(account)
    logger.notice(
      "forgot \(account)", metadata: ["account": "\(account)", "provider": "\(grant.saved.provider)"])
    emit(
      Event(
        type: .accountRemoved, at: now.seconds, account: account.rawValue, provider: grant.saved.provider.rawValue))
    var steps = await revoke(pending, of: grant.saved.provider)
    var url: String?
    if params.end_session == true {
      let step = "end_session"
      do throws(Objection) {
        url = try await endings.begin(of: grant.saved)
        steps.append(.init(step: step, result: "opened", message: "open the URL in the user's browser"))
      } catch {
        steps.append(.init(step: step, result: "unsupported", message: error.message))
      }
    }
    steps.append(.init(step: "forget", result: "done"))
    return .init(steps: steps, end_session_url: url)
  }

  private func check(_ reach: String, of account: AccountName) throws(RPCError) {
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    do throws(Objection) {
      try (providers[grant.saved.provider]?.provider.logoutTraits ?? LogoutTraits()).check(reach: reach)
    } catch {
      throw .invalidParams(error)
    }
  }

  /// - Parameters:
  ///   - replacing: also a row that cannot be read.
  ///   - isMeant: called under the account's lock; if false nothing is removed.
  func remove(
    _ account: AccountName, revoke: Bool, reach: String? = nil, replacing: Bool = true,
    where isMeant: (Grant) -> Bool = { _ in true }
  ) async throws(RPCError) -> (Grant, [PendingRevocation]) {
    await journal.lock(account)
    defer { journal.unlock(account) }
    for _ in 0..<Limit.conflicts {
      guard let grant = accounts[account], isMeant(grant) else { throw unknownAccount(account.rawValue) }
      let tokens = revoke ? liveTokens(grant) : []
      let context = revocations.context(of: grant.saved, reach: reach)
      let pending = tokens.map {
        revocations.new(
          $0.token, $0.hint, context, provider: grant.saved.provider, issuer: revocations.issuer(of: $0.token, grant))
      }
      do throws(StoreError) {
        try await journal.commit(
          [.removeGrant(account)] + pending.map { .putRevocation($0) },
          expecting: journal.expectations(account, replacing: replacing))
      } catch {
        guard error == .conflict else { throw storeError(error) }
        // Another broker has renewed it: another token must be revoked.
        await accounts.follow(account, replacing: true)
        continue
      }
      accounts[account] = nil
      revocations.takeOver(pending)
      return (grant, pending)
    }
    throw storeError(.conflict)
  }

  private func liveTokens(_ grant: Grant) -> [(token: Secret, hint: String)] {
    let provider = providers[grant.saved.provider]?.provider
    return (provider?.revocationTraits ?? RevocationTraits())
      .tokens(of: grant, provider?.tokenTraits.credential ?? .accessToken, at: now)
  }

  /// Tries them in their order, and tells as much of it as is known in time.
  private func revoke(_ pending: [PendingRevocation], of name: ProviderName) async -> [AccountLogout.Step] {
    guard !pending.isEmpty else { return [] }
    let endsAll = providers[name]?.provider.revocationTraits.scope == .client
    let results = RevocationResults()
    await waiters.run(until: uptime + Limit.logoutWait) { [revocations] in
      for revocation in pending {
        if endsAll, results.steps.last?.result == "done" {
          await revocations.drop(revocation)
          results.steps.append(.init(step: "revoke_\(revocation.hint)", result: "done"))
        } else {
          results.steps.append(await revocations.revoke(revocation))
        }
      }
    }
    return results.steps
      + pending.dropFirst(results.steps.count).map {
        .init(step: "revoke_\($0.hint)", result: "queued", message: "the provider has not answered yet")
      }
  }
}

/// The results of the revocations so far.
@BrokerActor
private final class RevocationResults {
  var steps: [AccountLogout.Step] = []
}

extension AccountLogout: RPCHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logout.accounts.logout(call.account, call.params)
  }
}
