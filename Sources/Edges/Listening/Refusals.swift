public import NIOCore
import Principals

/// The times of reports about refused connections: the first at once, later ones together, so that a burst does not
/// fill the log.
public struct Refusals: Sendable {
  /// Between two lines of the log.
  package static let pause = TimeAmount.seconds(10)

  private var lines = LogBudget(1, per: .nanoseconds(Self.pause.nanoseconds))

  public init() {}

  /// The number of unreported refusals before it, if this one must be reported; nil: not now.
  public mutating func refused(at now: NIODeadline) -> Int? { lines.acquire(at: Duration(now)) }

  /// The number of unreported refusals when a report is due; nil: none, or not yet.
  public mutating func due(at now: NIODeadline) -> Int? { lines.due(at: Duration(now)) }
}

extension Duration {
  /// The time since boot, by NIO's clock.
  fileprivate init(_ time: NIODeadline) { self = .nanoseconds(Int64(time.uptimeNanoseconds)) }
}
