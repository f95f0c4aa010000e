import Listening
import NIOCore

/// How many connections the loop accepts in one turn, for how long, and the pause while there is no descriptor. A rush of
/// new clients delays a request on an open connection by a tenth of a millisecond, and the kernel's queue is still emptied
/// faster than a process can fill it.
struct AcceptPace {
  /// Connections accepted in one turn. After the first ``least`` accepting may take half as long as the turn before,
  /// within ``times``.
  static let most = 512
  static let least = 4
  static let times = (least: TimeAmount.microseconds(100), most: TimeAmount.milliseconds(5))
  /// Between attempts while the process, or the machine, has no descriptor for another connection.
  static let pause = TimeAmount.milliseconds(100)
  /// Connections' descriptors that only root and the broker's own user get; fewer if there are few.
  static let reserved: Int32 = 32

  /// From this number on descriptors are for the rest of the process.
  let lastDescriptor: Int32
  /// From this number on descriptors are for root, the broker's own user and the rest of the process.
  var lastOfUsers: Int32 { lastDescriptor - min(Self.reserved, lastDescriptor / 8) }
  /// How long accepting may take in this turn.
  private var time = times.least
  /// How many connections are accepted in this turn. Doubled while more are waiting in each turn, since a call that finds
  /// none is wasted.
  private var count = 1
  private var lastTurn: UInt64 = 0
  private(set) var isPaused = false
  private var refusals = Refusals()

  init(lastDescriptor: Int32) { self.lastDescriptor = lastDescriptor }

  /// A turn begins.
  ///
  /// - Parameter last: the duration of the one before.
  mutating func begin(after last: TimeAmount) {
    time = max(Self.times.least, min(Self.times.most, .nanoseconds(last.nanoseconds / 2)))
  }

  /// How many connections are accepted now.
  mutating func connections(in turn: UInt64) -> Int {
    if lastTurn == turn &- 1 { count = min(2 * count, Self.most) }
    lastTurn = turn
    return count
  }

  /// No connection waits any more.
  mutating func emptied() { count = 1 }

  func end(from now: NIODeadline) -> NIODeadline { now + time }

  /// The lowest free number is returned for a new connection: as many are taken.
  func isFree(_ descriptor: Int32) -> Bool { descriptor < lastDescriptor }

  /// The same for another user than root and the broker's own.
  func isFreeForUsers(_ descriptor: Int32) -> Bool { descriptor < lastOfUsers }

  struct Pause: Equatable {
    /// The unreported pauses before this one, if it must be reported.
    var report: Int?
    var end: NIODeadline
  }

  /// There is no descriptor. Nil: accepting is paused already.
  mutating func pause(at now: NIODeadline) -> Pause? {
    guard !isPaused else { return nil }
    isPaused = true
    return Pause(report: refusals.refused(at: now), end: now + Self.pause)
  }

  mutating func goOn() { isPaused = false }
}
