import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

// Refresh tokens expire too: users are notified before, if the expiry is known or was learned.
extension RefreshEngine {
  /// The granted scopes, if the account's token has lost some of them and the provider was not found to refuse the question;
  /// nil: the refresh names no scopes.
  func scopesToAskFor(_ grant: Grant, _ attempt: Grant.Attempt, _ asked: RefreshRequestContext) -> [String]? {
    let account = grant.saved.account
    guard !attempt.key.isNarrowed, !accounts.lostScopes(of: grant).isEmpty,
      !asked.connection.diagnostics.refusedScopes.contains(account)
    else { return nil }
    return grant.saved.grantedScopes
  }

  /// Whether the provider refuses the lost scopes; if so, they are not requested again.
  func isScopeRefused(
    _ result: Result<RefreshAnswer, ProviderFailure>, _ account: AccountName, _ connection: ProviderConnection
  ) -> Bool {
    guard case .failure(.misconfigured(_, let oauth?)) = result, oauth.code == .invalidScope else { return false }
    if connection.diagnostics.refusedScopes.count >= Limit.reportedLosses { connection.diagnostics.refusedScopes = [] }
    connection.diagnostics.refusedScopes.insert(account)
    return true
  }

  /// The grant with only the scopes that its token has, if the provider refuses the others: with `refresh_scope` each
  /// refresh names them.
  func withoutRefusedScopes(_ grant: Grant, _ connection: ProviderConnection) -> SavedGrant {
    var saved = grant.saved
    guard connection.diagnostics.refusedScopes.contains(saved.account) else { return saved }
    let lost = accounts.lostScopes(of: grant)
    saved.grantedScopes.removeAll { lost.contains($0) }
    return saved
  }

  /// Scopes that are missing from the new token, once for each set of them.
  func reportLostScopes(_ account: AccountName) {
    guard let grant = accounts[account], let connection = providers[grant.saved.provider] else { return }
    let lost = accounts.lostScopes(of: grant)
    guard lost != (connection.diagnostics.lostScopes[account] ?? []) else { return }
    guard !lost.isEmpty else {
      connection.diagnostics.lostScopes[account] = nil
      return
    }
    if connection.diagnostics.lostScopes.count >= Limit.reportedLosses { connection.diagnostics.lostScopes = [:] }
    connection.diagnostics.lostScopes[account] = lost
    let (name, list) = (grant.saved.provider, lost.joined(separator: " ").printable(limit: 512))
    let message = "the token of account \(account) has lost the scopes \(list) at a refresh"
    let hint =
      grant.saved.kind.isUnattended
      ? "Check at the provider which scopes the client may request."
      : "Set refresh_scope = true in \(connection.provider.section) if the provider wants `scope` at each refresh; else sign in again with "
        + "`grantctl login \(name) \(account)`."
    logger.warning("\(message)", metadata: ["account": "\(account)", "provider": "\(name)", "hint": "\(hint)"])
    emit(
      Event(
        type: .scopesLost, at: now.seconds, account: account.rawValue, provider: name.rawValue,
        generation: grant.saved.generation, message: message, hint: hint))
  }

  /// The next time to announce the account's refresh token; nil: never, or already announced.
  func nextAnnouncement(_ grant: Grant) -> Timestamp? {
    grant.nextAnnouncement(
      learned: providers[grant.saved.provider]?.learned.lifetime, policy: accounts.refreshPolicy, at: now)
  }

  func announceIfDue(_ account: AccountName, _ grant: Grant) {
    guard let moment = nextAnnouncement(grant), moment <= now, let end = accounts.refreshTokenEnd(of: grant) else {
      return
    }
    accounts[account]?.announced(at: now)
    announce(grant.saved, end)
    Task { await accounts.saveStanding(of: account, "that an end was announced") }
  }

  private func announce(_ saved: SavedGrant, _ end: RefreshTokenEnd) {
    let left = Self.inWords(end.at - now)
    let message =
      end.isLearned
      ? "the refresh token of \(saved.account) may end in \(left), as others of \(saved.provider) did at that age"
      : "the refresh token of \(saved.account) ends in \(left)"
    let hint = accounts.loginHint(saved)
    logger.warning(
      "\(message)",
      metadata: ["account": "\(saved.account)", "provider": "\(saved.provider)", "hint": "\(hint)"])
    emit(
      Event(
        type: .refreshTokenExpiring, at: now.seconds, account: saved.account.rawValue,
        provider: saved.provider.rawValue, message: message, hint: hint, refresh_expires_at: end.at.seconds))
  }

  static func inWords(_ time: Duration) -> String {
    let seconds = max(0, time.wholeSeconds)
    func some(_ count: Int64, _ unit: String) -> String { "\(count) \(unit)\(count == 1 ? "" : "s")" }
    if seconds >= 2 * 86_400 { return some(seconds / 86_400, "day") }
    if seconds >= 2 * 3600 { return some(seconds / 3600, "hour") }
    return seconds >= 120 ? some(seconds / 60, "minute") : some(seconds, "second")
  }

  // MARK: Learning how old they get

  /// The provider refused a refresh token, without another explanation.
  func refreshTokenEnded(_ saved: SavedGrant) async {
    let age = now - (saved.refreshTokenIssuedAt ?? saved.loggedInAt)
    await learn(at: saved.provider) { $0.ended(atAge: age, at: now) }
  }

  /// The provider took a refresh token of this age.
  func refreshTokenLived(_ before: SavedGrant) async {
    let age = now - (before.refreshTokenIssuedAt ?? before.loggedInAt)
    await learn(at: before.provider) { _ = $0.lived(toAge: age) }
  }

  private func learn(at name: ProviderName, _ change: (inout LearnedLifetime) -> Void) async {
    guard let connection = providers[name] else { return }
    let before = connection.learned
    change(&connection.learned)
    guard connection.learned != before else { return }
    // The announcement of its accounts' ends depends only on the lifetime: many grants may end at once.
    if connection.learned.lifetime != before.lifetime {
      rescheduleAll(accounts.names(at: name))
      wakeScheduler()
    }
    await providers.saveLearned(name)
  }
}
