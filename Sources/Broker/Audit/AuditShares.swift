/// How many records the trail has, by whose refusals they are, and which it forgets when there are too many.
public struct AuditCounts: Sendable, Equatable {
  /// Whose refusals, as it is stored.
  public struct Refuser: Sendable, Hashable {
    public var name: String
    public var standing: AuditRefuser.Standing

    public init(name: String, standing: AuditRefuser.Standing) {
      self.name = name
      self.standing = standing
    }
  }

  /// All that is no refusal: releases, logins, logouts, changes.
  public var events = 0
  public var refusals: [Refuser: Int] = [:]

  public init() {}

  public var refused: Int { refusals.values.reduce(0, +) }
  public var all: Int { events + refused }

  public mutating func add(_ refuser: Refuser?, _ number: Int) {
    guard let refuser else { return events += number }
    let count = refusals[refuser, default: 0] + number
    refusals[refuser] = count > 0 ? count : nil
  }
}

/// The shares of a trail of so many records. Refusals have a sixteenth that no event takes, so that a full trail still
/// records them; everything else of the trail is the events', whatever is refused.
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
    left.reduce(Array(left.refusals.keys), to: max(refusals, left.refused - max(0, left.all - most)))
    left.events -= min(left.events, max(0, left.all - most))
    var excess: [AuditCounts.Refuser?: Int] = [:]
    if counts.events > left.events { excess[nil] = counts.events - left.events }
    for (refuser, count) in counts.refusals where count > left.refusals[refuser, default: 0] {
      excess[refuser] = count - left.refusals[refuser, default: 0]
    }
    return excess
  }
}

extension AuditCounts {
  /// Who has most of these gives most.
  fileprivate mutating func reduce(_ refusers: [Refuser], to most: Int) {
    guard refusers.reduce(0, { $0 + refusals[$1, default: 0] }) > most else { return }
    // From the fewest on, each keeps at most an equal part of what is left to keep.
    let ordered = refusers.sorted { refusals[$0, default: 0] < refusals[$1, default: 0] }
    var room = most
    for (index, refuser) in ordered.enumerated() {
      let kept = min(refusals[refuser, default: 0], room / (ordered.count - index))
      add(refuser, kept - refusals[refuser, default: 0])
      room -= kept
    }
  }
}
