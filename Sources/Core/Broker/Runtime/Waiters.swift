import BrokerAPI
import Grants
import Principals

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
    /// Work that continues without waiting callers.
    case work(UInt64)
  }

  /// Whether a key moved while a task was busy with other steps. See ``watching(_:_:)``.
  private final class Watch {
    var hasMoved = false
  }

  private let clock: BrokerClock
  private var byKey: [Key: [UInt64: CheckedContinuation<Void, Never>]] = [:]
  private var watches: [Key: [UInt64: Watch]] = [:]
  private var tickets: UInt64 = 0
  /// The deadline of each wait, by its ticket, and the key that it waits for.
  private var ends = KeyedHeap<UInt64, Duration>()
  private var keys: [UInt64: Key] = [:]
  private var timer: (until: Duration, task: Task<Void, Never>)?
  private(set) var count = 0
  /// Sessions whose requests wait, or have waited, until they close; and the tickets of the waiting requests.
  private var sessions: [ObjectIdentifier: (session: any Session, waiting: [UInt64: Key])] = [:]
  /// The work of callers' requests.
  private var shares = Shares(all: Limit.waiters, perHolder: Limit.waitersPerHolder)

  init(_ clock: BrokerClock) { self.clock = clock }

  /// Returns when the key moves or the deadline passes. `deadline` is a time since boot.
  func wait(for key: Key, until deadline: Duration) async { await wait(for: key, until: deadline, ticket()) }

  private func wait(for key: Key, until deadline: Duration, _ ticket: UInt64) async {
    guard deadline > clock.uptime else { return }
    ends.set(ticket, to: deadline)
    keys[ticket] = key
    schedule()
    await withCheckedContinuation {
      byKey[key, default: [:]][ticket] = $0
      count += 1
    }
    ends.remove(ticket)
    keys[ticket] = nil
    guard ends.isEmpty else { return }
    timer?.task.cancel()
    timer = nil
  }

  /// One task for all that wait.
  private func schedule() {
    guard let first = ends.first() else { return }
    // One whose sleep is late is not relied on.
    guard timer.map({ first.at < $0.until || $0.until <= clock.uptime }) ?? true else { return }
    timer?.task.cancel()
    let system = clock.system
    let task = Task { [weak self] in
      await system.sleep(first.at - system.uptime())
      guard !Task.isCancelled else { return }
      self?.wakeOverdue(at: first.at)
    }
    timer = (first.at, task)
  }

  /// - Parameter end: of the sleep. Each sleep ends a wait, even if the clock is behind: else it could repeat without end.
  private func wakeOverdue(at end: Duration) {
    timer = nil
    let now = max(end, clock.uptime)
    while let first = ends.first(), first.at <= now {
      ends.remove(first.key)
      if let key = keys.removeValue(forKey: first.key) { wake(first.key, of: key) }
    }
    schedule()
  }

  /// The same for a caller's request. The number of waiting requests is limited, in all and for each holder.
  ///
  /// - Parameter session: the connection of the request: its end ends the wait, with an error. Nil: the wait is no longer
  ///   than a caller may have to wait anyway.
  func callerWaits(
    for key: Key, of holder: Holder, until deadline: Duration, session: (any Session)? = nil
  ) async throws(RPCError) {
    switch shares.acquire(for: holder) {
    case nil: break
    case .ofAll: throw RPCError(.overloaded, "too many requests are waiting")
    case .ofHolder, .ofUser: throw RPCError(.overloaded, "too many requests of \(holder) are waiting")
    }
    defer { shares.giveBack(of: holder) }
    guard let session else { return await wait(for: key, until: deadline) }
    let ticket = ticket()
    watch(session, ticket, key)
    await wait(for: key, until: deadline, ticket)
    guard sessions[ObjectIdentifier(session)] != nil else {
      throw RPCError(.overloaded, "the caller has closed the connection")
    }
    sessions[ObjectIdentifier(session)]?.waiting[ticket] = nil
  }

  /// The session is held until its end, so that no other one has its name.
  private func watch(_ session: any Session, _ ticket: UInt64, _ key: Key) {
    let name = ObjectIdentifier(session)
    let isKnown = sessions[name] != nil
    sessions[name, default: (session, [:])].waiting[ticket] = key
    if !isKnown { session.onClose { [weak self] in Task { await self?.closed(name) } } }
  }

  private func closed(_ session: ObjectIdentifier) {
    for (ticket, key) in sessions.removeValue(forKey: session)?.waiting ?? [:] { wake(ticket, of: key) }
  }

  /// Runs work of several steps, and returns whether the key moved during it: then a wait would miss that.
  func watching<Output: Sendable>(_ key: Key, _ work: () async -> Output) async -> (output: Output, hasMoved: Bool) {
    let (watch, ticket) = (Watch(), ticket())
    watches[key, default: [:]][ticket] = watch
    let output = await work()
    watches[key]?[ticket] = nil
    if watches[key]?.isEmpty == true { watches[key] = nil }
    return (output, watch.hasMoved)
  }

  /// Returns at the end of the work, or at the deadline: the work continues then. `deadline` is a time since boot.
  func run(until deadline: Duration, _ work: @escaping @BrokerActor () async -> Void) async {
    let key = newWork()
    Task {
      await work()
      wake(key)
    }
    await wait(for: key, until: deadline)
  }

  /// Identifies work with waiters.
  func newWork() -> Key { .work(ticket()) }

  private func ticket() -> UInt64 {
    tickets += 1
    return tickets
  }

  func wake(_ key: Key) {
    for watch in (watches[key] ?? [:]).values { watch.hasMoved = true }
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
    for key in Set(byKey.keys).union(watches.keys) { if case .account = key { wake(key) } }
  }

  func wakeAll() {
    for key in Set(byKey.keys).union(watches.keys) { wake(key) }
  }
}
