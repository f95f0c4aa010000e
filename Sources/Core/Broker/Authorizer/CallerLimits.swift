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
  fileprivate struct State {
    var limits = CallerLimits()
    var buckets: [AuditCaller: TokenBucket] = [:]
    /// All callers of one holder together, who can start as many as it likes.
    var holders: [Holder: TokenBucket] = [:]
  }

  /// The share of all callers of a holder, relative to one caller.
  static let callersPerHolder = 4.0

  private let state = Mutex(State())
  private let uptime: @Sendable () -> Duration

  init(uptime: @escaping @Sendable () -> Duration) {
    self.uptime = uptime
  }

  func configure(_ limits: CallerLimits) { state.withLock { $0.configure(limits) } }

  /// Nil: permitted. Otherwise the delay for the caller.
  func acquire(_ who: AuditCaller, of holder: Holder) -> Duration? {
    let now = uptime().nanoseconds
    return state.withLock { state in
      let key = state.key(of: who, at: now)
      var own = state.buckets[key] ?? state.full()
      guard own.acquire(at: now) else { return .nanoseconds(own.wait()) }
      if let wait = state.acquire(of: holder, at: now) { return wait }
      state.buckets[key] = own
      return nil
    }
  }

  /// The caller has no right to its request. This costs more, down to a debt of one burst.
  func refused(_ who: AuditCaller) {
    let now = uptime().nanoseconds
    state.withLock { state in
      let key = state.key(of: who, at: now)
      var own = state.buckets[key] ?? state.full()
      own.refill(at: now)
      own.spend(Double(state.limits.refusalCost - 1), debt: Double(state.limits.burst))
      state.buckets[key] = own
    }
  }

  /// For tests.
  var count: Int { state.withLock { $0.buckets.count } }
}

extension CallerRates.State {
  /// The bucket of a caller, or of several.
  func full(_ callers: Double = 1) -> TokenBucket {
    TokenBucket(capacity: Double(limits.burst) * callers, perSecond: Double(limits.rate) * callers)
  }

  mutating func configure(_ limits: CallerLimits) {
    self.limits = limits
    let (caller, holder) = (full(), full(CallerRates.callersPerHolder))
    buckets = buckets.mapValues { $0.limited(like: caller) }
    holders = holders.mapValues { $0.limited(like: holder) }
  }

  /// root has no more than its callers have.
  mutating func acquire(of holder: Holder, at now: Int64) -> Duration? {
    guard holder != .root else { return nil }
    if holders[holder] == nil, holders.count >= Limit.callerRates {
      holders = holders.filter { !$0.value.isFull(at: now) }
    }
    var shared = holders[holder] ?? full(CallerRates.callersPerHolder)
    defer { holders[holder] = shared }
    return shared.acquire(at: now) ? nil : .nanoseconds(shared.wait())
  }

  /// Full buckets are dropped; if too many remain, new callers share one.
  mutating func key(of caller: AuditCaller, at now: Int64) -> AuditCaller {
    var who = caller
    // A process chooses this name.
    who.parent = nil
    guard buckets[who] == nil, buckets.count >= Limit.callerRates else { return who }
    buckets = buckets.filter { !$0.value.isFull(at: now) }
    return buckets.count < Limit.callerRates ? who : AuditCaller(uid: nil)
  }
}
