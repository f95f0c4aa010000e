import BrokerAPI
import Grants
import Logging
import OAuth

// Tokens of logins on a disk that takes nothing: they stay in memory until it does. The code is spent, so no other
// request can bring them again.
extension Logins {
  /// The tokens become the account's and the login is completed, or it ends with the error that is returned. If the disk
  /// does not take them, the login continues.
  @discardableResult
  func adoptOrFail(
    _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration, kind: GrantKind
  ) async -> RPCError? {
    let adoption = await adopt(issued, login, provider, sentAt: sentAt, kind: kind)
    guard case .unsaved(let error) = adoption, error != .conflict else {
      return await conclude(adoption, issued, login, provider, sentAt: sentAt, kind: kind)
    }
    table[login.id]?.phase = .unsaved(error)
    waiters.wake(.login(login.id))
    logger.error(
      "the new tokens of \(login.account) are in memory until the disk takes them: \(error.message)",
      metadata: ["account": "\(login.account)", "provider": "\(login.provider)", "hint": "\(error.hint)"])
    Task { await keepTrying(issued, login, provider, sentAt: sentAt, kind: kind) }
    return nil
  }

  private func conclude(
    _ adoption: Adoption, _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration,
    kind: GrantKind
  ) async -> RPCError? {
    switch adoption {
    case .adopted:
      table[login.id]?.identity = issued.identity
      complete(login, .completed(login.account, at: now))
      return nil
    case .refused(let error): return await fail(login.id, error)
    case .unsaved(let error):
      await revokeUnlessShared(issued, login, provider, sentAt: sentAt, kind: kind)
      return await fail(login.id, storeError(error))
    }
  }

  /// Tries until the disk takes the tokens, within ``Limit/unsavedLogin``. The end of the broker treats them as a renewal
  /// that is not on disk.
  private func keepTrying(
    _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration, kind: GrantKind
  ) async {
    let end = uptime + Limit.unsavedLogin
    while true {
      await wait(for: .store, until: min(end, uptime + Limit.unsavedLoginTries))
      let adoption = await adopt(
        issued, login, provider, sentAt: sentAt, kind: kind, tries: 1, inMemory: isDraining)
      if case .unsaved(let error) = adoption, error != .conflict, !isStopped, uptime < end {
        table[login.id]?.phase = .unsaved(error)
        continue
      }
      _ = await conclude(adoption, issued, login, provider, sentAt: sentAt, kind: kind)
      return
    }
  }
}
