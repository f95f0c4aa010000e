public import NIOCore
import Principals

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

  public let perSecond: Int
  private let full: TokenBucket
  private var allowances: [UInt32: TokenBucket] = [:]
  private var further: TokenBucket
  private var cleaned: NIODeadline

  public init(perSecond: Int, at now: NIODeadline = .now()) {
    self.perSecond = perSecond
    full = TokenBucket(capacity: Double(perSecond) * Self.burst, perSecond: Double(perSecond))
    further = full
    cleaned = now
  }

  /// Counts a connection of the user. False: the user is over the limit.
  public mutating func acquire(_ user: UInt32, at now: NIODeadline) -> Bool {
    let time = Int64(now.uptimeNanoseconds)
    if allowances.count >= Self.mostUsers, allowances[user] == nil {
      if now - cleaned >= Self.cleaning { removeIdle(at: now) }
      guard allowances.count < Self.mostUsers else { return further.acquire(at: time) }
    }
    return allowances[user, default: full].acquire(at: time)
  }

  /// The connection is not counted after all.
  public mutating func giveBack(_ user: UInt32) {
    if allowances[user] != nil { allowances[user]?.spend(-1) } else { further.spend(-1) }
  }

  /// Removes the users whose allowance is full.
  public mutating func removeIdle(at now: NIODeadline) {
    cleaned = now
    let time = Int64(now.uptimeNanoseconds)
    allowances = allowances.filter { !$0.value.isFull(at: time) }
  }
}
