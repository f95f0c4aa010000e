public import NIOCore

/// How many connections each user opens in a second, by the user id that the kernel reports. For the loop only.
///
/// Identifying a client costs ten times as much as its user id, so a user over the limit is refused without it. A
/// connection that gets a cached token is not counted.
public struct ConnectRates: Sendable {
  /// Users with a separate allowance. All further users share one.
  package static let mostUsers = 4096
  /// The table is searched for idle users so often at most when it is full.
  private static let cleaning = TimeAmount.seconds(1)
  /// Seconds of the rate that are available after a pause.
  static let burst = 2.0

  private struct Allowance: Sendable {
    var left: Double
    var at: NIODeadline
  }

  public let perSecond: Int
  private var allowances: [UInt32: Allowance] = [:]
  private var further: Allowance
  private var cleaned: NIODeadline

  public init(perSecond: Int, at now: NIODeadline = .now()) {
    self.perSecond = perSecond
    further = Allowance(left: Double(perSecond) * Self.burst, at: now)
    cleaned = now
  }

  /// Counts a connection of the user. False: the user is over the limit.
  public mutating func acquire(_ user: UInt32, at now: NIODeadline) -> Bool {
    guard let known = allowances[user] else {
      if allowances.count >= Self.mostUsers, now - cleaned >= Self.cleaning { removeIdle(at: now) }
      guard allowances.count < Self.mostUsers else { return Self.acquire(from: &further, perSecond, now) }
      var allowance = Allowance(left: Double(perSecond) * Self.burst, at: now)
      defer { allowances[user] = allowance }
      return Self.acquire(from: &allowance, perSecond, now)
    }
    var allowance = known
    defer { allowances[user] = allowance }
    return Self.acquire(from: &allowance, perSecond, now)
  }

  /// The connection is not counted after all.
  public mutating func giveBack(_ user: UInt32) {
    if allowances[user] != nil { allowances[user]?.left += 1 } else { further.left += 1 }
  }

  /// Removes the users that have opened nothing for ``burst`` seconds.
  public mutating func removeIdle(at now: NIODeadline) {
    cleaned = now
    allowances = allowances.filter { now - $0.value.at < .nanoseconds(Int64(Self.burst * 1e9)) }
  }

  private static func acquire(from allowance: inout Allowance, _ perSecond: Int, _ now: NIODeadline) -> Bool {
    let seconds = Double(max(0, (now - allowance.at).nanoseconds)) / 1e9
    let rate = Double(perSecond)
    allowance = Allowance(left: min(rate * burst, allowance.left + seconds * rate), at: now)
    guard allowance.left >= 1 else { return false }
    allowance.left -= 1
    return true
  }
}
