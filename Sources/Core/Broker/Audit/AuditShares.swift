/// How many records the trail has, by whose refusals they are, and which it forgets when there are too many.
public struct AuditCounts: Sendable, Equatable {
  /// The holder of the refusals, as stored.
  public struct Refuser: Sendable, Hashable {
    public var name: String
    public var standing: AuditSubject.RuleCoverage

    public init(name: String, standing: AuditSubject.RuleCoverage) {
      self.name = name
      self.standing = standing
    }
  }

  /// Releases, logins, logouts and changes by root and the broker; and by each user.
  public var events = 0
  public var eventsOfUsers: [Refuser: Int] = [:]
  public var refusals: [Refuser: Int] = [:]

  public init() {}

  public var refused: Int { refusals.values.reduce(0, +) }
  public var all: Int { events + eventsOfUsers.values.reduce(0, +) + refused }

  public mutating func add(_ refuser: Refuser?, _ number: Int) {
    guard let refuser else { return events += number }
    guard refuser.standing != .event else {
      let count = eventsOfUsers[refuser, default: 0] + number
      return eventsOfUsers[refuser] = count > 0 ? count : nil
    }
    let count = refusals[refuser, default: 0] + number
    refusals[refuser] = count > 0 ? count : nil
  }
}

/// The shares of a trail of so many records. Refusals have a sixteenth that no event takes, so that a full trail still
/// records them; all other records are events, regardless of refusals. If there are too many events, those of users that
/// have more than an eighth of the trail are forgotten first.
public struct AuditShares: Sendable {
  /// Refusals of all callers that no rule names; of one holder; that are never forgotten for an event.
  public let unnamed: Int
  public let perHolder: Int
  public let refusals: Int
  private let most: Int

  public init(most: Int) {
    self.most = most
    unnamed = max(1, most / 4)
    perHolder = max(1, most / 8)
    refusals = most / 16
  }

  /// How many of the oldest to forget, of whose refusals; nil: of the events.
  public func excess(of counts: AuditCounts) -> [AuditCounts.Refuser?: Int] {
    var left = counts
    for refuser in counts.refusals.keys { left.reduce([refuser], to: perHolder) }
    left.reduce(left.refusals.keys.filter { $0.standing == .unnamed }, to: unnamed)
    left.reduceUsers(beyond: perHolder, by: max(0, left.all - most))
    left.reduce(Array(left.refusals.keys), to: max(refusals, left.refused - max(0, left.all - most)))
    left.reduceEvents(to: max(0, most - left.refused))
    var excess: [AuditCounts.Refuser?: Int] = [:]
    if counts.events > left.events { excess[nil] = counts.events - left.events }
    for (user, count) in counts.eventsOfUsers where count > left.eventsOfUsers[user, default: 0] {
      excess[user] = count - left.eventsOfUsers[user, default: 0]
    }
    for (refuser, count) in counts.refusals where count > left.refusals[refuser, default: 0] {
      excess[refuser] = count - left.refusals[refuser, default: 0]
    }
    return excess
  }
}

extension AuditCounts {
  fileprivate mutating func reduce(_ refusers: [Refuser], to most: Int) {
    let counts = Dictionary(uniqueKeysWithValues: refusers.map { ($0, refusals[$0, default: 0]) })
    for (refuser, kept) in Self.kept(of: counts, most) { add(refuser, kept - refusals[refuser, default: 0]) }
  }

  /// Events of users that have more than `perUser`, the largest first.
  fileprivate mutating func reduceUsers(beyond perUser: Int, by tooMany: Int) {
    let ofUsers = eventsOfUsers.values.reduce(0, +)
    let beyond = eventsOfUsers.values.reduce(0) { $0 + max(0, $1 - perUser) }
    eventsOfUsers = Self.kept(of: eventsOfUsers, ofUsers - min(tooMany, beyond))
  }

  /// Events of the largest, including root and the broker.
  fileprivate mutating func reduceEvents(to most: Int) {
    var counts: [Refuser?: Int] = [nil: events]
    for (user, count) in eventsOfUsers { counts[user] = count }
    for (user, kept) in Self.kept(of: counts, most) {
      if let user { eventsOfUsers[user] = kept > 0 ? kept : nil } else { events = kept }
    }
  }

  /// How many of each to keep, of `most` in all: the largest lose most.
  private static func kept<Key: Hashable>(of counts: [Key: Int], _ most: Int) -> [Key: Int] {
    guard counts.values.reduce(0, +) > most else { return counts }
    var (kept, room) = (counts, most)
    // From the fewest on, each keeps at most an equal part of the rest.
    for (index, one) in counts.sorted(by: { $0.value < $1.value }).enumerated() {
      let count = min(one.value, room / (counts.count - index))
      kept[one.key] = count
      room -= count
    }
    return kept
  }
}
