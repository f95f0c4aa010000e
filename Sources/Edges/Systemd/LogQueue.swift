import Synchronization

/// Log lines in order on a separate thread: a stopped journal, or a reader of standard error that does not read, delays
/// no request.
///
/// Lines beyond ``most`` are dropped, and their number is logged as soon as lines are written again.
public final class LogQueue: Sendable {
  /// Lines that wait at most.
  public static let most = 4096
  /// That of this process.
  public static let shared = LogQueue()

  private let queue = BoundedQueue(label: "grantd.log")
  private let dropped = Atomic<UInt64>(0)

  init() {}

  /// - Parameter write: called on the queue's thread, with how many lines were dropped before this one.
  func add(_ write: @escaping @Sendable (_ dropped: UInt64) -> Void) {
    let isTaken = queue.add(atMost: Self.most) { [self] in write(dropped.exchange(0, ordering: .relaxed)) }
    if !isTaken { dropped.add(1, ordering: .relaxed) }
  }

  /// Before the process ends: waits until the lines are written, but no longer than `limit`.
  public func flush(within limit: Duration = .seconds(1)) { queue.wait(within: limit) }

  static func message(dropped: UInt64) -> String {
    "\(dropped) lines of the log were dropped: they could not be written in time"
  }
}
