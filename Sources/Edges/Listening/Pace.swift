public import NIOCore
public import Principals

/// Requests, and bytes of requests and replies, that a holder may send in a second.
public struct PaceRates: Sendable, Equatable {
  public var requests: Double
  public var bytes: Double

  /// A holder has what this many seconds bring after a pause.
  static let burst = 4.0

  public init(requests: Double, bytes: Double) {
    self.requests = requests
    self.bytes = bytes
  }

  func part(_ part: Double) -> PaceRates { PaceRates(requests: requests * part, bytes: bytes * part) }
}

/// How much a holder may still send now; for one event loop. Requests that are answered from the cache are not counted.
/// The last request may overdraw the allowance: then the holder's connections wait.
public final class Pace<Waiter> {
  private var requests: TokenBucket
  private var bytes: TokenBucket
  /// The pace of all units of the user, or of all callers without a rule.
  private let common: Pace?
  /// It belongs to all callers without a rule.
  private let isOfAll: Bool
  /// Open connections of the holder.
  public var connections = 0
  /// Those that wait, in their order, while a timer runs.
  private var waiting: [Waiter] = []
  private var first = 0
  private var isTimed = false

  package init(_ rates: PaceRates, within common: Pace? = nil, isOfAll: Bool = false, at now: NIODeadline) {
    func bucket(_ rate: Double) -> TokenBucket {
      TokenBucket(capacity: rate * PaceRates.burst, perSecond: rate, at: Int64(now.uptimeNanoseconds))
    }
    (requests, bytes) = (bucket(rates.requests), bucket(rates.bytes))
    self.isOfAll = isOfAll
    self.common = common
  }

  /// The time at which the next request may be taken; nil: now.
  public func due(at now: NIODeadline) -> NIODeadline? { later(dueAlone(at: now), common?.due(at: now)) }

  /// The same without regard to the share of all callers without a rule.
  public func ownDue(at now: NIODeadline) -> NIODeadline? {
    later(dueAlone(at: now), common.flatMap { $0.isOfAll ? nil : $0.ownDue(at: now) })
  }

  private func dueAlone(at now: NIODeadline) -> NIODeadline? {
    requests.refill(at: Int64(now.uptimeNanoseconds))
    bytes.refill(at: Int64(now.uptimeNanoseconds))
    let wait = max(requests.wait(for: 0), bytes.wait(for: 0))
    return wait > 0 ? now + .nanoseconds(wait) + .milliseconds(1) : nil
  }

  private func later(_ one: NIODeadline?, _ other: NIODeadline?) -> NIODeadline? {
    one.map { max($0, other ?? $0) } ?? other
  }

  public func spend(requests count: Int = 0, bytes size: Int) {
    requests.spend(Double(count))
    bytes.spend(Double(size))
    common?.spend(requests: count, bytes: size)
  }

  /// Whether a new pace would allow the same.
  func isIdle(at now: NIODeadline) -> Bool {
    let now = Int64(now.uptimeNanoseconds)
    return connections == 0 && requests.isFull(at: now) && bytes.isFull(at: now)
  }

  // MARK: those that wait

  /// True: the caller must start a timer.
  public func wait(_ waiter: Waiter) -> Bool {
    waiting.append(waiter)
    defer { isTimed = true }
    return !isTimed
  }

  /// The next waiter that may continue. Nil: none waits, or it is too early; then the caller starts the timer for `due`.
  /// One waiter at a time: of many, each would find that the first had used the allowance.
  public func next(at now: NIODeadline) -> (waiter: Waiter?, due: NIODeadline?) {
    guard first < waiting.count else {
      (waiting, first, isTimed) = ([], 0, false)
      return (nil, nil)
    }
    if let due = due(at: now) { return (nil, due) }
    defer {
      first += 1
      if first > 64, first > waiting.count / 2 { (waiting, first) = (Array(waiting[first...]), 0) }
    }
    return (waiting[first], nil)
  }
}

/// The paces of the holders that have connections, or had some a moment ago.
public struct Paces<Waiter> {
  /// Holders that are remembered; further ones share a pace.
  static var most: Int { 4096 }

  private static var partOfUser: Double { 1.25 }

  private let named: PaceRates
  private let unnamed: PaceRates
  private let unnamedTogether: Pace<Waiter>
  private let further: Pace<Waiter>
  private var paces: [Share: Pace<Waiter>] = [:]
  /// The paces of users, for all units together.
  private var users: [Share: Pace<Waiter>] = [:]

  /// - Parameters:
  ///   - rates: of a holder that some rule names.
  ///   - unnamedShare: the part of it that all callers without a rule have together.
  public init(_ rates: PaceRates, unnamedShare: Double, at now: NIODeadline = .now()) {
    named = rates
    let together = rates.part(unnamedShare)
    unnamed = together.part(1 / Double(Budget.Limits.partOfUnnamed))
    unnamedTogether = Pace<Waiter>(together, isOfAll: true, at: now)
    further = Pace<Waiter>(unnamed, within: unnamedTogether, at: now)
  }

  /// Nil: without a bound.
  public mutating func pace(of share: Share, at now: NIODeadline) -> Pace<Waiter>? {
    guard !share.hasOwnPlaces, share.callerClass != .privileged else { return nil }
    if let known = paces[share] { return known }
    if paces.count >= Self.most { removeIdle(at: now) }
    guard paces.count < Self.most else { return further }
    let pace = Pace<Waiter>(share.isUnnamed ? unnamed : named, within: userPace(of: share, at: now), at: now)
    paces[share] = pace
    return pace
  }

  /// As in ``Shares``, a user with several units may send a quarter more than one of them.
  private mutating func userPace(of share: Share, at now: NIODeadline) -> Pace<Waiter> {
    let user = Share(holder: share.holder.user, callerClass: share.callerClass)
    if let known = users[user] { return known }
    let pace = Pace<Waiter>(
      (share.isUnnamed ? unnamed : named).part(Self.partOfUser), within: share.isUnnamed ? unnamedTogether : nil,
      at: now)
    users[user] = pace
    return pace
  }

  /// - Parameter count: what is kept without a look at it.
  public mutating func removeIdle(at now: NIODeadline, beyond count: Int = 0) {
    guard paces.count > count else { return }
    paces = paces.filter { !$0.value.isIdle(at: now) }
    let used = Set(paces.keys.map { Share(holder: $0.holder.user, callerClass: $0.callerClass) })
    users = users.filter { used.contains($0.key) || !$0.value.isIdle(at: now) }
  }
}
