public import NIOCore

/// The times of reports about refused connections: the first at once, later ones together, so that a burst does not
/// fill the log.
public struct Refusals: Sendable {
  /// Between two lines of the log.
  package static let pause = TimeAmount.seconds(10)

  private var quietUntil = NIODeadline.uptimeNanoseconds(0)
  private var untold = 0

  public init() {}

  /// The number of unreported refusals before it, if this one must be reported; nil: not now.
  public mutating func refused(at now: NIODeadline) -> Int? {
    guard now >= quietUntil else {
      untold += 1
      return nil
    }
    return tell(at: now)
  }

  /// The number of unreported refusals when a report is due; nil: none, or not yet.
  public mutating func due(at now: NIODeadline) -> Int? {
    untold > 0 && now >= quietUntil ? tell(at: now) : nil
  }

  private mutating func tell(at now: NIODeadline) -> Int {
    defer { untold = 0 }
    quietUntil = now + Self.pause
    return untold
  }
}
