/// Log lines of one cause that a caller without any right can produce. Beyond its budget they are counted, and the count
/// is logged. Times are since boot.
public struct LogBudget: Sendable {
  private var bucket: TokenBucket
  public private(set) var omitted = 0

  public init(_ lines: Int, per period: Duration = .seconds(60)) { bucket = TokenBucket(lines, per: period) }

  /// How many lines before this one were omitted; nil: omit this one too.
  public mutating func acquire(at uptime: Duration) -> Int? {
    guard bucket.acquire(at: uptime.nanoseconds) else {
      omitted += 1
      return nil
    }
    defer { omitted = 0 }
    return omitted
  }

  /// Whether it is as a new one.
  public func isIdle(at uptime: Duration) -> Bool { omitted == 0 && bucket.isFull(at: uptime.nanoseconds) }

  /// How many lines were omitted and not yet reported; nil: none, or the budget is used up still.
  public mutating func due(at uptime: Duration) -> Int? {
    guard omitted > 0, bucket.acquire(at: uptime.nanoseconds) else { return nil }
    defer { omitted = 0 }
    return omitted
  }
}
