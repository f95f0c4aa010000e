import BrokerAPI
import Grants
import OAuth

// Late answers. If the provider rotates strictly, or its grace period is over by then, the refresh token may be spent:
// the answer has the only other one, and the old one sent again may end the grant. So it is still read after callers
// got an error, and nothing else is sent for the account before the exchange has ended.
extension RefreshEngine {
  /// How the answer is read after its time; nil: not at all, since the refresh can be asked for again.
  func lateAnswer(
    _ account: AccountName, _ attempt: Grant.Attempt, _ asked: RefreshRequestContext, _ ticket: ProviderGate.Ticket
  ) -> LateAnswer? {
    switch asked.provider.refreshTraits.rotation {
    case .none: return nil
    // It is sent again while the old refresh token is still taken.
    case .grace(let grace) where grace > Limit.retriedGrace: return nil
    case .grace, .strict: break
    }
    return LateAnswer(limit: Limit.lateAnswer) { [weak self] error in
      Task { @BrokerActor in await self?.isOverdue(account, attempt, asked, ticket, error) }
    }
  }

  /// No answer in time: callers are informed, and the slot is free.
  private func isOverdue(
    _ account: AccountName, _ attempt: Grant.Attempt, _ asked: RefreshRequestContext, _ ticket: ProviderGate.Ticket,
    _ error: TransportError
  ) async {
    let told = FailureRecord(message: error.message, at: now)
    // The answer may have been quicker than this.
    guard let saved = accounts[account]?.overdue(attempt, told, policy: accounts.refreshPolicy) else { return }
    let (name, failure) = (asked.provider.name, ProviderFailure.lost(message: error.message))
    asked.connection.diagnostics.lastError = error.message
    // Those beyond the bound keep their places, so that no more requests are sent than can be read.
    if leases.late.values.count(where: { $0 === asked.connection }) < Limit.lateAnswers {
      leases.late[key(account, attempt)] = asked.connection
      recordOutcome(account, ticket, .failure(failure), asked)
    }
    accounts.report(saved, unavailable(account, failure, retryAt: now), .tokenFailed)
    accounts.changed(account)
    if dispatch(name) != nil { wakeScheduler() }
    await accounts.saveStanding(
      of: account, "a refresh without an answer", leased: expectations(account, attempt))
  }
}
