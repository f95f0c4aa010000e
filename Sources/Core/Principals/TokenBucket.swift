/// A rate limit. The level rises by one in each interval, up to the capacity, and each request lowers it.
///
/// Times are nanoseconds since boot, so that the loop of the socket converts nothing for a line.
public struct TokenBucket: Sendable {
  private let capacity: Double
  /// In nanoseconds.
  private let interval: Double
  /// Below zero after an overdraft.
  private var level: Double
  private var at: Int64

  /// A full bucket.
  public init(capacity: Double, interval: Double, at now: Int64 = 0) {
    (self.capacity, self.interval) = (capacity, interval)
    (level, at) = (capacity, now)
  }

  public init(capacity: Double, perSecond rate: Double, at now: Int64 = 0) {
    self.init(capacity: capacity, interval: 1e9 / rate, at: now)
  }

  /// An amount at once, and the same again in each period.
  public init(_ most: Int, per period: Duration) {
    self.init(capacity: Double(most), interval: Double(period.nanoseconds) / Double(most))
  }

  /// This level under the limits of the other bucket.
  public func limited(like other: TokenBucket) -> TokenBucket {
    var limited = other
    (limited.level, limited.at) = (level, at)
    return limited
  }

  public func level(at now: Int64) -> Double { min(capacity, level + Double(max(0, now - at)) / interval) }

  public func isFull(at now: Int64) -> Bool { level(at: now) >= capacity }

  public mutating func refill(at now: Int64) { (level, at) = (level(at: now), max(at, now)) }

  /// False: less than one is left, and nothing is taken.
  public mutating func acquire(at now: Int64) -> Bool {
    refill(at: now)
    guard level >= 1 else { return false }
    level -= 1
    return true
  }

  /// Lowers the level, at most to a debt. Refill the bucket before.
  public mutating func spend(_ amount: Double, debt: Double = .infinity) { level = max(level - amount, -debt) }

  /// Nanoseconds from the last refill to the level; 0: it is reached.
  public func wait(for wanted: Double = 1) -> Int64 {
    level >= wanted ? 0 : Int64(((wanted - level) * interval).rounded(.up))
  }
}

extension Duration {
  /// Whole nanoseconds, towards zero.
  public var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
