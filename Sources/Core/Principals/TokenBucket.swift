/// An amount at once, and the same again in each period. Times are since boot.
public struct TokenBucket: Sendable {
  private let most: Double
  /// In nanoseconds.
  private let period: Double
  private var left: Double
  private var at = Duration.zero

  public init(_ most: Int, per period: Duration) {
    (self.most, left) = (Double(most), Double(most))
    self.period = Double(Self.nanoseconds(period))
  }

  private static func nanoseconds(_ time: Duration) -> Int64 {
    time.components.seconds * 1_000_000_000 + time.components.attoseconds / 1_000_000_000
  }

  private func left(at now: Duration) -> Double {
    min(most, left + Double(max(0, Self.nanoseconds(now - at))) / period * most)
  }

  public func isFull(at now: Duration) -> Bool { left(at: now) >= most }

  /// False, and nothing is taken: it is used up.
  public mutating func acquire(at now: Duration) -> Bool {
    let rest = left(at: now)
    guard rest >= 1 else { return false }
    (left, at) = (rest - 1, now)
    return true
  }
}
