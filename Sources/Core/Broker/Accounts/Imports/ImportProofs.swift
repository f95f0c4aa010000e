import BrokerAPI
import Grants
import OAuth
import Principals

/// The provider was asked in vain whose an import is.
struct FailedProof {
  /// Nil: it may be asked at once.
  fileprivate let error: RPCError?
  /// Callers get this error until then. A time since boot.
  fileprivate var until: Duration
  /// When the access token was last replaced because UserInfo refused it. A time since boot.
  fileprivate let replacedAt: Duration?

  fileprivate func error(at uptime: Duration) -> RPCError? { uptime < until ? error : nil }

  mutating func isAskedAgain() { until = .zero }
}

/// Finds out whose an imported grant is.
@BrokerActor
final class ImportProofs: Piece {
  let runtime: Runtime
  let checks: TokenChecks
  private let accounts: Accounts
  private let providers: ProviderDirectory
  /// Running questions, and their waiters.
  private var proving: [AccountName: Waiters.Key] = [:]
  private var failed: [AccountName: FailedProof] = [:]
  /// For how long an access token that UserInfo refuses is not replaced again for that.
  private static let replacementPause = Duration.seconds(3600)

  init(_ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, checks: TokenChecks) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.checks = checks
  }

  /// The account was imported again, by the same token: its provider may be asked at once.
  func askAgain(_ account: AccountName) { failed[account]?.isAskedAgain() }

  /// The account has another token.
  func clear(_ account: AccountName) { failed[account] = nil }

  /// Returns when the token is known to be the account's user's. One question at a time for each account; all that wait
  /// share its answer.
  ///
  /// - Parameter holder: the holder of the waiting request; nil: the broker.
  /// - Throws: `login_required` if it is another user's or no answer names a user, `temporarily_unavailable` if the
  ///   provider cannot be asked now, `timed_out`.
  func prove(
    _ account: AccountName, _ token: SavedToken, for holder: Holder?, until deadline: Duration
  ) async throws(RPCError) {
    let key = proving[account] ?? waiters.newWork()
    if proving[account] == nil {
      if let error = failed[account]?.error(at: uptime) { throw error }
      proving[account] = key
      Task {
        await settle(account, token)
        proving[account] = nil
        waiters.wake(key)
      }
    }
    if let holder {
      try await waiters.callerWaits(for: key, of: holder, until: deadline)
    } else {
      await wait(for: key, until: deadline)
    }
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    guard grant.isUnproven else { return }
    if case .loginRequired(_, let failure) = grant.saved.standing { throw refusal(grant, failure) }
    if let error = failed[account]?.error(at: uptime) { throw error }
    if uptime >= deadline {
      throw RPCError(
        .timedOut, "account \(account) was imported, and its provider did not say in time whose token it is",
        hint: "Ask again: the question goes on.")
    }
  }

  /// Asks UserInfo, and commits the result. Only the name of another user ends the import: its refresh token may be the
  /// only one.
  private func settle(_ account: AccountName, _ token: SavedToken) async {
    let answer = await checks.person(of: account, until: uptime + Timeouts.standard)
    guard let grant = accounts[account], grant.isUnproven, let expected = grant.saved.identity,
      grant.token?.accessToken == token.accessToken
    else { return }
    let replacedAt = failed.removeValue(forKey: account)?.replacedAt
    func postpone(_ error: RPCError?) { self.postpone(account, error, replacedAt: replacedAt) }
    switch answer {
    case .success(let subject) where subject == expected.subject:
      accounts[account]?.proved()
      await accounts.saveStanding(of: account, "whose an import is")
    case .success(let subject) where !subject.isEmpty:
      await disprove(account, "the refresh token is of \(subject.printable(limit: 100))")
    case .success: postpone(unnamed(grant, "the provider's UserInfo names no user"))
    case nil: postpone(unnamed(grant, "the provider has no UserInfo, and gave no ID token"))
    case .failure(.tokenRefused(let message, _)):
      let isTried = replacedAt.map { uptime < $0 + Self.replacementPause } ?? false
      guard checks.isForUserInfo(account), !isTried else {
        let scope = checks.isForUserInfo(account) ? "" : "; it takes tokens with the scope openid"
        return postpone(unnamed(grant, "UserInfo refuses the token: \(message)\(scope)"))
      }
      // Perhaps only the access token has ended. The next request uses a new one.
      _ = accounts[account]?.rejected(generation: token.generation, at: now)
      self.postpone(account, nil, replacedAt: uptime)
    case .failure(.misconfigured(let message, let oauth)):
      postpone(providers.error(.misconfigured(message: message, oauth), at: grant.saved.provider))
    case .failure(let failure) where failure.isOfProvider: postpone(unreachable(grant, failure.message))
    case .failure(let failure): postpone(unnamed(grant, failure.message))
    }
    accounts.changed(account)
  }

  private func unreachable(_ grant: Grant, _ message: String) -> RPCError {
    RPCError(
      .temporarilyUnavailable,
      "account \(grant.saved.account) was imported, and its provider cannot be asked whose token it is: \(message)",
      hint: "Ask again later.", retryAfter: 5)
  }

  private func unnamed(_ grant: Grant, _ message: String) -> RPCError {
    refusal(grant, FailureRecord(message: "nothing says whose the imported refresh token is: \(message)", at: now))
  }

  /// Callers get this error for a time, during which the provider is not asked again.
  ///
  /// - Parameter error: nil: the provider may be asked at once.
  private func postpone(_ account: AccountName, _ error: RPCError?, replacedAt: Duration?) {
    if failed.count >= Limit.failedProofs { failed = [:] }
    let pause: Duration =
      switch error?.reason {
      case nil: .zero
      case .temporarilyUnavailable: .seconds(5)
      default: .seconds(60)
      }
    failed[account] = FailedProof(error: error, until: uptime + pause, replacedAt: replacedAt)
  }

  private func disprove(_ account: AccountName, _ message: String) async {
    accounts[account]?.disproved(FailureRecord(message: message, at: now))
    await accounts.saveStanding(of: account, "that an import is not the account's person's")
    if let grant = accounts[account] { accounts.reportEnd(of: grant) }
  }

  /// Why an import was not taken.
  func refusal(_ grant: Grant, _ failure: FailureRecord) -> RPCError {
    let saved = grant.saved
    let person = saved.identity.map { $0.email ?? $0.username ?? $0.subject } ?? "its person"
    return RPCError(
      .loginRequired, "account \(saved.account) belongs to \(person), and \(failure.message)",
      hint: "\(accounts.loginHint(saved)) With `manage` access another user's token can be imported: "
        + "`grantctl import \(saved.account) --provider \(saved.provider) --replace-identity`.",
      detail: LoginReason.identityChanged.rawValue)
  }
}
