import BrokerAPI
import NIOCore

/// How many lines, and bytes of lines and replies, a holder may send in a second; for the loop alone. What is answered from
/// the cache costs nothing. Both may be overdrawn by what is taken last: then the holder's connections wait.
final class Pace {
  /// In the long run, and after a pause.
  struct Rates: Sendable, Equatable {
    var lines: Double
    var bytes: Double

    /// The burst is what so many seconds bring.
    static let burst = 4.0

    func part(_ part: Double) -> Rates { Rates(lines: lines * part, bytes: bytes * part) }
  }

  private let rates: Rates
  /// Of all callers without a rule.
  private let common: Pace?
  private var lines: Double
  private var bytes: Double
  private var at: NIODeadline
  var connections = 0
  /// Those that wait, in their order, while a timer runs.
  private var waiting: [LoopToken] = []
  private var first = 0
  private var isTimed = false

  init(_ rates: Rates, within common: Pace? = nil, at now: NIODeadline) {
    self.rates = rates
    self.common = common
    at = now
    (lines, bytes) = (rates.lines * Rates.burst, rates.bytes * Rates.burst)
  }

  private func fill(_ now: NIODeadline) {
    let seconds = Double(max(0, (now - at).nanoseconds)) / 1e9
    at = now
    lines = min(rates.lines * Rates.burst, lines + seconds * rates.lines)
    bytes = min(rates.bytes * Rates.burst, bytes + seconds * rates.bytes)
  }

  /// Nil where the next line may be taken, else when it may.
  func due(at now: NIODeadline) -> NIODeadline? {
    let own = ownDue(at: now)
    guard let others = common?.due(at: now) else { return own }
    return max(own ?? others, others)
  }

  func ownDue(at now: NIODeadline) -> NIODeadline? {
    fill(now)
    guard lines < 0 || bytes < 0 else { return nil }
    let seconds = max(-lines / rates.lines, -bytes / rates.bytes)
    return now + .nanoseconds(Int64(seconds * 1e9)) + .milliseconds(1)
  }

  func spend(lines count: Int = 0, bytes size: Int) {
    lines -= Double(count)
    bytes -= Double(size)
    common?.spend(lines: count, bytes: size)
  }

  /// Whether nobody would notice if it were made anew.
  func isIdle(at now: NIODeadline) -> Bool {
    fill(now)
    return connections == 0 && lines >= rates.lines * Rates.burst && bytes >= rates.bytes * Rates.burst
  }

  // MARK: those that wait

  /// True: a timer is to be started.
  func wait(_ token: LoopToken) -> Bool {
    waiting.append(token)
    defer { isTimed = true }
    return !isTimed
  }

  /// The next that may go on. Nil: none waits, or it is too early; then the timer is to be started again where `due` tells
  /// when. All at once would each find that the first has taken everything.
  func next(at now: NIODeadline) -> (token: LoopToken?, due: NIODeadline?) {
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
struct Paces {
  /// Holders that are remembered; further ones share a pace.
  static let most = 4096

  private static let partOfUser = 1.25

  private let named: Pace.Rates
  private let unnamed: Pace.Rates
  private let unnamedTogether: Pace
  private let further: Pace
  private var paces: [Share: Pace] = [:]
  /// The paces of users, for all units together.
  private var users: [Share: Pace] = [:]

  /// - Parameters:
  ///   - rates: of a holder that some rule names.
  ///   - unnamedShare: the part of it that all callers without a rule have together.
  init(_ rates: Pace.Rates, unnamedShare: Double, at now: NIODeadline = .now()) {
    named = rates
    let together = rates.part(unnamedShare)
    unnamed = together.part(1 / Double(Budget.Limits.partOfUnnamed))
    unnamedTogether = Pace(together, at: now)
    further = Pace(unnamed, within: unnamedTogether, at: now)
  }

  /// Nil: without a bound.
  mutating func pace(of share: Share, at now: NIODeadline) -> Pace? {
    guard !share.hasOwnPlaces, share.callerClass != .privileged else { return nil }
    if let known = paces[share] { return known }
    if paces.count >= Self.most { removeIdle(at: now) }
    guard paces.count < Self.most else { return further }
    let pace = Pace(share.isUnnamed ? unnamed : named, within: userPace(of: share, at: now), at: now)
    paces[share] = pace
    return pace
  }

  /// As in ``Shares``, a user with several units may send a quarter more than one of them.
  private mutating func userPace(of share: Share, at now: NIODeadline) -> Pace {
    let user = Share(holder: share.holder.user, callerClass: share.callerClass)
    if let known = users[user] { return known }
    let pace = Pace(
      (share.isUnnamed ? unnamed : named).part(Self.partOfUser), within: share.isUnnamed ? unnamedTogether : nil,
      at: now)
    users[user] = pace
    return pace
  }

  mutating func removeIdle(at now: NIODeadline) {
    paces = paces.filter { !$0.value.isIdle(at: now) }
    let used = Set(paces.keys.map { Share(holder: $0.holder.user, callerClass: $0.callerClass) })
    users = users.filter { used.contains($0.key) || !$0.value.isIdle(at: now) }
  }
}
