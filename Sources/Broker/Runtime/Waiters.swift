import BrokerAPI
import Grants

/// Tasks that wait for a grant, a login or a release to move. Each is woken once, and then looks again.
@BrokerActor
final class Waiters {
  enum Key: Hashable {
    case account(AccountName)
    case login(LoginID)
    /// A release that waits for approval, by its id.
    case release(String)
    /// The check of a provider that is under way.
    case check(ProviderName)
    /// The store works again.
    case store
    /// No commit is under way.
    case commits
    /// Work that goes on whether or not anybody waits for it.
    case work(UInt64)
  }

  private let clock: BrokerClock
  private var byKey: [Key: [UInt64: CheckedContinuation<Void, Never>]] = [:]
  private var tickets: UInt64 = 0
  private(set) var count = 0
  /// Of callers' requests.
  private var shares = Shares(all: Limit.waiters, perHolder: Limit.waitersPerHolder)

  init(_ clock: BrokerClock) { self.clock = clock }

  /// Returns when the key moves or the deadline passes. `deadline` is a time since boot.
  func wait(for key: Key, until deadline: Duration) async {
    guard deadline > clock.uptime else { return }
    let ticket = ticket()
    let surroundings = clock.surroundings
    let timer = Task {
      await surroundings.sleep(deadline - surroundings.uptime())
      wake(ticket, of: key)
    }
    await withCheckedContinuation {
      byKey[key, default: [:]][ticket] = $0
      count += 1
    }
    timer.cancel()
  }

  /// The same for a caller's request, of which only so many may wait, and only a share of them for one holder.
  func callerWaits(for key: Key, of holder: Holder, until deadline: Duration) async throws(RPCError) {
    switch shares.take(for: holder) {
    case nil: break
    case .ofAll: throw RPCError(.overloaded, "too many requests are waiting")
    case .ofHolder: throw RPCError(.overloaded, "too many requests of \(holder) are waiting")
    }
    await wait(for: key, until: deadline)
    shares.giveBack(of: holder)
  }

  /// Names work that somebody may wait for.
  func newWork() -> Key { .work(ticket()) }

  private func ticket() -> UInt64 {
    tickets += 1
    return tickets
  }

  func wake(_ key: Key) {
    guard let waiters = byKey.removeValue(forKey: key) else { return }
    count -= waiters.count
    for waiter in waiters.values { waiter.resume() }
  }

  private func wake(_ ticket: UInt64, of key: Key) {
    guard let waiter = byKey[key]?.removeValue(forKey: ticket) else { return }
    if byKey[key]?.isEmpty == true { byKey[key] = nil }
    count -= 1
    waiter.resume()
  }

  func wakeAccounts() {
    for key in Array(byKey.keys) { if case .account = key { wake(key) } }
  }

  func wakeAll() {
    for key in Array(byKey.keys) { wake(key) }
  }
}
