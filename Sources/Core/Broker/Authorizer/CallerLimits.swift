import Principals
import Synchronization

/// How much each caller may ask of the broker. Tokens from memory cost nothing here: the socket serves them in turn.
public struct CallerLimits: Sendable, Equatable {
  /// Requests in a second, in the long run.
  public var rate = 2000
  /// Requests that may come at once after a pause.
  public var burst = 8000
  /// The cost of a refused request, in requests.
  public var refusalCost = 10

  public init() {}
}

/// The remaining requests of each caller: a bucket that fills with time. Callers are grouped as in the audit trail; a
/// caller that asks too often, or for something not permitted, delays no other.
final class CallerRates: Sendable {
  struct Bucket {
    /// Requests that are left; refusals may take it below zero.
    var level: Double
    /// Since the machine started.
    var at: Duration
  }

  fileprivate struct State {
    var limits = CallerLimits()
    var buckets: [AuditCaller: Bucket] = [:]
    /// All callers of one holder together, who can start as many as it likes.
    var holders: [Holder: Bucket] = [:]
  }

  /// The share of all callers of a holder, relative to one caller.
  static let callersPerHolder = 4.0

  private let state = Mutex(State())
  private let uptime: @Sendable () -> Duration

  init(uptime: @escaping @Sendable () -> Duration) {
    self.uptime = uptime
  }

  func configure(_ limits: CallerLimits) { state.withLock { $0.limits = limits } }

  /// Nil: permitted. Otherwise the delay for the caller.
  func acquire(_ who: AuditCaller, of holder: Holder) -> Duration? {
    let now = uptime()
    return state.withLock { state in
      let key = state.key(of: who, at: now)
      let level = state.level(of: key, at: now)
      guard level >= 1 else { return .seconds((1 - level) / Double(state.limits.rate)) }
      if let wait = state.acquire(of: holder, at: now) { return wait }
      state.buckets[key] = Bucket(level: level - 1, at: now)
      return nil
    }
  }

  /// The caller has no right to its request. This costs more, down to a debt of one burst.
  func refused(_ who: AuditCaller) {
    let now = uptime()
    state.withLock { state in
      let key = state.key(of: who, at: now)
      let cost = Double(state.limits.refusalCost - 1)
      state.buckets[key] = Bucket(
        level: max(state.level(of: key, at: now) - cost, -Double(state.limits.burst)), at: now)
    }
  }

  /// For tests.
  var count: Int { state.withLock { $0.buckets.count } }
}

extension CallerRates.State {
  func level(of key: AuditCaller, at now: Duration) -> Double {
    let most = Double(limits.burst)
    guard let bucket = buckets[key] else { return most }
    return min(most, bucket.level + (now - bucket.at).inSeconds * Double(limits.rate))
  }

  /// root has no more than its callers have.
  mutating func acquire(of holder: Holder, at now: Duration) -> Duration? {
    guard holder != .root else { return nil }
    let (rate, most) = (
      Double(limits.rate) * CallerRates.callersPerHolder, Double(limits.burst) * CallerRates.callersPerHolder
    )
    func level(_ bucket: CallerRates.Bucket) -> Double {
      min(most, bucket.level + (now - bucket.at).inSeconds * rate)
    }
    if holders[holder] == nil, holders.count >= Limit.callerRates {
      holders = holders.filter { level($0.value) < most }
    }
    let left = holders[holder].map(level) ?? most
    guard left >= 1 else { return .seconds((1 - left) / rate) }
    holders[holder] = CallerRates.Bucket(level: left - 1, at: now)
    return nil
  }

  /// Full buckets are dropped; if too many remain, new callers share one.
  mutating func key(of caller: AuditCaller, at now: Duration) -> AuditCaller {
    var who = caller
    // A process chooses this name.
    who.parent = nil
    guard buckets[who] == nil, buckets.count >= Limit.callerRates else { return who }
    let most = Double(limits.burst)
    buckets = buckets.filter { level(of: $0.key, at: now) < most }
    return buckets.count < Limit.callerRates ? who : AuditCaller(uid: nil)
  }
}
