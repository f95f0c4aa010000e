import BrokerAPI
import Grants
import OAuth

/// Finds out whose an imported grant is.
@BrokerActor
protocol ImportProofs: AnyObject {
  /// Returns when it is known that the token is of the account's person.
  ///
  /// - Parameter holder: whose request waits; nil: the broker's own.
  /// - Throws: `login_required` where it is another's or nothing says whose it is, `temporarily_unavailable` where the
  ///   provider cannot be asked now, `timed_out`.
  func prove(
    _ account: AccountName, _ token: SavedToken, for holder: Holder?, until deadline: Duration
  ) async throws(RPCError)
}

extension Imports: ImportProofs {
  /// One question at a time for each account; all that wait share its answer.
  func prove(
    _ account: AccountName, _ token: SavedToken, for holder: Holder?, until deadline: Duration
  ) async throws(RPCError) {
    let key = proving[account] ?? waiters.newWork()
    if proving[account] == nil {
      if let failed = failedProofs[account], uptime < failed.until { throw failed.error }
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
    if let failed = failedProofs[account], uptime < failed.until { throw failed.error }
    if uptime >= deadline {
      throw RPCError(
        .timedOut, "account \(account) was imported, and its provider did not say in time whose token it is",
        hint: "Ask again: the question goes on.")
    }
  }

  /// Asks UserInfo, and commits what follows from the answer.
  private func settle(_ account: AccountName, _ token: SavedToken) async {
    let answer = await calls.person(of: account, until: uptime + Timeouts.standard)
    guard let grant = accounts[account], grant.isUnproven, let expected = grant.saved.identity,
      grant.token?.accessToken == token.accessToken
    else { return }
    failedProofs[account] = nil
    switch answer {
    case .success(let subject) where subject == expected.subject:
      accounts[account]?.proved()
      await accounts.saveStanding(of: account, "whose an import is")
    case .success(let subject):
      await disprove(
        account, "the refresh token is of \(subject.isEmpty ? "another person" : subject.printable(limit: 100))")
    case .failure(.tokenRefused(let message, _)): postpone(account, message)
    case .failure(let failure) where failure.isOfProvider: postpone(account, failure.message)
    case .failure(let failure): await disprove(account, "nothing says whose the refresh token is: \(failure.message)")
    case nil:
      await disprove(account, "the provider has no UserInfo, and gave no ID token, to say whose the refresh token is")
    }
    accounts.changed(account)
  }

  /// The provider cannot be asked now: callers are told so for a while, and it is not asked again meanwhile.
  private func postpone(_ account: AccountName, _ message: String) {
    if failedProofs.count >= Limit.failedProofs { failedProofs = [:] }
    let error = RPCError(
      .temporarilyUnavailable,
      "account \(account) was imported, and its provider cannot be asked whose token it is: \(message)",
      hint: "Ask again later.", retryAfter: 5)
    failedProofs[account] = (error, uptime + .seconds(5))
  }

  private func disprove(_ account: AccountName, _ message: String) async {
    accounts[account]?.disproved(Failure(message: message, at: now))
    await accounts.saveStanding(of: account, "that an import is not the account's person's")
    if let grant = accounts[account] { accounts.reportEnd(of: grant) }
  }

  /// Why an import was not taken.
  func refusal(_ grant: Grant, _ failure: Failure) -> RPCError {
    let saved = grant.saved
    let person = saved.identity.map { $0.email ?? $0.username ?? $0.subject } ?? "its person"
    return RPCError(
      .loginRequired, "account \(saved.account) belongs to \(person), and \(failure.message)",
      hint: "\(accounts.loginHint(saved)) With `manage` access another person's token can be imported: "
        + "`grantctl import \(saved.account) --provider \(saved.provider) --replace-identity`.",
      detail: LoginReason.identityChanged.rawValue)
  }
}
