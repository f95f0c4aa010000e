import BrokerAPI
import DequeModule
import Grants
import Principals

/// Limits the requests that callers have sent to a provider at the same time. Each holder has a share of the permits, and
/// waiting holders take turns. A permit is held until the request is over, even if its caller stops waiting before.
@BrokerActor
final class ProviderCallLimiter {
  private struct Line {
    var shares: Shares
    /// The holders in ``waiting``, next one first.
    var turns: Deque<Holder> = []
    var waiting: [Holder: Deque<Waiters.Key>] = [:]
  }

  private let waiters: Waiters
  /// The limits at each provider, with nothing in use.
  private let limits: Shares
  /// The hint of a refusal.
  private let hint: String
  private var lines: [ProviderName: Line] = [:]
  private var granted: Set<Waiters.Key> = []

  /// For requests with an account's token.
  convenience init(_ waiters: Waiters) {
    self.init(
      waiters, Shares(all: Limit.callerConnections, perHolder: Limit.callsPerHolder),
      hint: "Wait for their answers, or ask again with a longer `timeout`.")
  }

  private init(_ waiters: Waiters, _ limits: Shares, hint: String) {
    self.waiters = waiters
    self.limits = limits
    self.hint = hint
  }

  /// For requests that begin a login or test one.
  static func loginStarts(_ waiters: Waiters) -> ProviderCallLimiter {
    ProviderCallLimiter(
      waiters, Shares(all: Limit.loginStarts, perHolder: Limit.loginStartsPerHolder),
      hint: "Wait for their answers, then try again.")
  }

  /// A permit, held until ``release()``.
  @BrokerActor
  final class Permit {
    private var end: (@BrokerActor () -> Void)?

    init(_ end: @escaping @BrokerActor () -> Void) { self.end = end }

    /// Has an effect once.
    func release() {
      end?()
      end = nil
    }
  }

  /// Waits for a permit.
  ///
  /// - Throws: `overloaded` where there is none in time.
  func acquire(
    _ name: ProviderName, for holder: Holder, until deadline: Duration, session: (any Session)? = nil
  ) async throws(RPCError) -> Permit {
    try await wait(name, holder, until: deadline, session)
    return Permit { [weak self] in self?.release(name, of: holder) }
  }

  private func wait(
    _ name: ProviderName, _ holder: Holder, until deadline: Duration, _ session: (any Session)?
  ) async throws(RPCError) {
    let isFirst = lines[name]?.waiting[holder] == nil
    if isFirst, lines[name, default: Line(shares: limits)].shares.acquire(for: holder) == nil { return }
    let key = waiters.newWork()
    if isFirst { lines[name]?.turns.append(holder) }
    lines[name]?.waiting[holder, default: []].append(key)
    var refusal: RPCError?
    do throws(RPCError) {
      try await waiters.callerWaits(for: key, of: holder, until: deadline, session: session)
    } catch {
      refusal = error
    }
    guard granted.remove(key) == nil else { return }
    removeWaiter(name, holder, key)
    throw refusal
      ?? RPCError(
        .overloaded, "as many requests to provider \(name) are under way as \(holder) may have, or as there may be",
        hint: hint)
  }

  private func release(_ name: ProviderName, of holder: Holder) {
    lines[name]?.shares.giveBack(of: holder)
    grant(name)
    if let line = lines[name], line.shares.isEmpty, line.waiting.isEmpty { lines[name] = nil }
  }

  /// The place that became free goes to the next holder that may have it. That one is then the last in turn.
  private func grant(_ name: ProviderName) {
    var isGranted = false
    for _ in 0..<(lines[name]?.turns.count ?? 0) where !isGranted {
      guard let holder = lines[name]?.turns.popFirst() else { return }
      if lines[name]?.shares.acquire(for: holder) == nil, let key = lines[name]?.waiting[holder]?.popFirst() {
        isGranted = true
        granted.insert(key)
        waiters.wake(key)
      }
      if lines[name]?.waiting[holder]?.isEmpty == false {
        lines[name]?.turns.append(holder)
      } else {
        lines[name]?.waiting[holder] = nil
      }
    }
  }

  private func removeWaiter(_ name: ProviderName, _ holder: Holder, _ key: Waiters.Key) {
    lines[name]?.waiting[holder]?.removeAll { $0 == key }
    guard lines[name]?.waiting[holder]?.isEmpty == true else { return }
    lines[name]?.waiting[holder] = nil
    lines[name]?.turns.removeAll { $0 == holder }
  }
}
