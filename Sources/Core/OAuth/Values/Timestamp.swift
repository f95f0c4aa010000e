/// A point in wall-clock time, in milliseconds. It never reads a clock; only the composition root does.
public struct Timestamp: Hashable, Comparable, Sendable, Codable {
  /// Milliseconds since 1970-01-01T00:00:00Z.
  public var milliseconds: Int64

  public init(milliseconds: Int64) {
    self.milliseconds = milliseconds
  }

  public init(seconds: Int64) {
    let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    self.milliseconds = overflow ? (seconds < 0 ? .min : .max) : scaled
  }

  /// Whole seconds since 1970, rounded down: the unit of messages (NumericDate, RFC 7519 §2).
  public var seconds: Int64 { milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000 }

  public init(from decoder: any Decoder) throws {
    milliseconds = try decoder.singleValueContainer().decode(Int64.self)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(milliseconds)
  }

  public static func < (lhs: Timestamp, rhs: Timestamp) -> Bool { lhs.milliseconds < rhs.milliseconds }

  /// Saturates at the limits, so that a hostile lifetime cannot trap.
  public static func + (lhs: Timestamp, rhs: Duration) -> Timestamp {
    let (sum, overflow) = lhs.milliseconds.addingReportingOverflow(rhs.milliseconds)
    return Timestamp(milliseconds: overflow ? (rhs < .zero ? .min : .max) : sum)
  }

  public static func - (lhs: Timestamp, rhs: Duration) -> Timestamp { lhs + (.zero - rhs) }

  public static func - (lhs: Timestamp, rhs: Timestamp) -> Duration {
    let (difference, overflow) = lhs.milliseconds.subtractingReportingOverflow(rhs.milliseconds)
    return .milliseconds(overflow ? (lhs < rhs ? .min : .max) : difference)
  }
}

extension Duration {
  /// Whole milliseconds, towards zero; saturating.
  public var milliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    if overflow { return seconds < 0 ? .min : .max }
    let (sum, overflowed) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
    return overflowed ? (seconds < 0 ? .min : .max) : sum
  }

  /// Whole seconds, towards zero.
  public var wholeSeconds: Int64 { components.seconds }

  /// This share of the duration, to the millisecond.
  public func scaled(by factor: Double) -> Duration {
    let product = Double(milliseconds) * factor
    return .milliseconds(product >= 9.2e18 ? Int64.max : product <= -9.2e18 ? Int64.min : Int64(product))
  }
}
