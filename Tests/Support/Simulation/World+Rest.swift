import Broker
import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals

// The end of a run: all faults have ended, and every account must reach a correct state.
extension World {
  /// A refused client is tried again after a quarter of an hour; the broker obeys a provider's wait for at most five
  /// minutes.
  static let rest = 35 * minute
  static let patience = 6 * minute

  func heal() {
    trace.add(now, "from here on no fault occurs")
    stillness.coming = nil
    stillness.awaited = nil
    thaw()
    setDisk(nil)
    disk.crashesOneIn = 0
    for provider in providers { provider.faults = [] }
    setClockRight()
    time.after(Self.rest) { self.examine() }
  }

  /// Each account proves its refresh token: its access token is reported as refused, so a new one has to come.
  private func examine() {
    guard let machine, machine.isServing else {
      return violated(.rest, "the broker does not run, \(Self.rest / minute) min after the last fault")
    }
    if disk.trouble == .missing { return violated(.store, "a database that was removed was never rebuilt") }
    let few = accounts.count > 40 ? accounts.filter { _ in plan.chance(0.1) } : accounts
    trace.add(now, "every account has to prove its refresh token")
    for account in few {
      guard account.session != nil, let grant = disk.contents.grants[account.key] else {
        checkForgotten(account)
        continue
      }
      examined.insert(account.index)
      if case .loginRequired = grant.standing { continue }
      // A grant that was refused already is requested again.
      guard let token = disk.contents.tokens[account.key] else {
        call(
          TokenGet.self, .init(account: account.name, timeout: 120), account: account, timeout: 120, hasDeadline: true
        ) { _, _ in }
        continue
      }
      call(
        TokenReportRejected.self, .init(account: account.name, generation: token.generation, timeout: 120),
        account: account, timeout: 120, hasDeadline: true
      ) { _, _ in }
    }
    time.after(Self.patience) { self.conclude() }
  }

  private func checkForgotten(_ account: ModelAccount) {
    // One without a refresh token may be of a login that is not known: the provider gave it with an answer that was lost.
    if account.session == nil, disk.contents.grants[account.key]?.refreshToken != nil {
      violated(.rest, "\(account.name) was forgotten and is on disk")
    }
  }

  private func conclude() {
    for account in accounts { checkRevoked(account) }
    for account in accounts { conclude(account, tries: 5) }
    // Each has answered by then.
    time.after(minute) {
      if self.concluded.count < self.accounts.count { self.violated(.rest, "account.get does not answer") }
      self.isDone = true
    }
  }

  /// A removed grant must not stay alive at the provider.
  private func checkRevoked(_ account: ModelAccount) {
    for number in account.removed.sorted() {
      let session = account.provider.sessions[number]
      guard session.isAlive, !session.refreshTokens.isEmpty else { continue }
      let isQueued = disk.contents.revocations.values.contains { revocation in
        Token(revocation.token.exposed).map { account.provider.session($0) === session } ?? false
      }
      if !isQueued {
        violated(.revokedLater, "\(account.name) was forgotten, and its grant is alive at \(account.provider.name)")
      }
    }
  }

  private func conclude(_ account: ModelAccount, tries: Int) {
    // A refresh under way is not the end.
    if let session = account.session, session.refreshesUnderWay > 0, tries > 0 {
      time.after(7 * second) { self.conclude(account, tries: tries - 1) }
      return
    }
    call(AccountGet.self, .init(account: account.name), account: account) { result, _ in
      if case .success(let view) = result, view.state == .refreshing, tries > 0 {
        self.time.after(7 * second) { self.conclude(account, tries: tries - 1) }
        return
      }
      self.concluded.insert(account.index)
      guard let session = account.session else { return }
      switch result {
      case .success(let view): self.conclude(account, session, view)
      case .failure(let error): self.violated(.rest, "\(account.name) does not exist: \(error.message)")
      }
    }
  }

  private func conclude(_ account: ModelAccount, _ session: ModelProvider.Session, _ view: AccountView) {
    let fate = fate(account, session)
    counts.add("at rest: \(view.state.rawValue)")
    // The access token lives, and its end brings the second attempt.
    let isRefusedOnce = disk.contents.grants[account.key]?.isRefusedOnce == true && view.state == .degraded
    switch fate {
    case .live:
      // A token that has expired on arrival is fetched again each minute; between the two there is none.
      guard view.state != .ok, view.state != .refreshing else { return }
      violated(
        .rest,
        "\(account.name) is \(view.state.rawValue), and its refresh token is good: \(view.last_error?.message ?? "")")
    case .lost(let excuse):
      // Without a request, the loss shows with the next refresh.
      guard view.state != .loginRequired, !isRefusedOnce, examined.contains(account.index) else { return }
      // Its answer is on the way.
      if excuse == nil, session.refreshesUnderWay > 0 { return }
      violated(
        .saysLost,
        "\(account.name) is \(view.state.rawValue), though its refresh token is lost (\(excuse?.rawValue ?? "?"))")
    case .over:
      guard view.state != .loginRequired, !isRefusedOnce, examined.contains(account.index) else { return }
      violated(.rest, "\(account.name) is \(view.state.rawValue), though the provider ended it")
    case .withoutRefreshToken: break
    }
  }
}
