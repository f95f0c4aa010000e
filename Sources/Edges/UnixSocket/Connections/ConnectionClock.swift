import NIOCore

/// The idle and partial-line time-outs of one connection. They are checked at the tick, so that no request has to read
/// the clock.
struct ConnectionClock {
  enum Verdict {
    case good
    /// The current line was not finished in time.
    case unfinished
    case idle
  }

  /// The loop's last turn in which the connection asked or was answered.
  private(set) var lastActive: UInt64
  /// The line that is not finished, and the turn in which it began.
  private(set) var unfinished: (line: Int, since: UInt64)?
  private var idle: (lastActive: UInt64, since: NIODeadline)
  private var line: (number: Int, since: NIODeadline)?

  init(at now: NIODeadline, in turn: UInt64) {
    lastActive = turn
    idle = (turn, now)
  }

  mutating func recordActivity(in turn: UInt64) { lastActive = turn }

  mutating func recordLine(_ line: Int?, in turn: UInt64) {
    if line != unfinished?.line { unfinished = line.map { ($0, turn) } }
  }

  mutating func check(
    at now: NIODeadline, _ limits: SocketServer.Limits, isBusy: Bool, isHeldOpen: Bool, unfinishedLine: Int?
  ) -> Verdict {
    if limits.partialLine > .zero, let unfinishedLine {
      if let line, line.number == unfinishedLine {
        if now - line.since >= TimeAmount(limits.partialLine) { return .unfinished }
      } else {
        line = (unfinishedLine, now)
      }
    } else {
      line = nil
    }
    let limit = isHeldOpen ? limits.idleSubscribed : limits.idle
    if isBusy || lastActive != idle.lastActive {
      idle = (lastActive, now)
    } else if limit > .zero, now - idle.since >= TimeAmount(limit) {
      return .idle
    }
    return .good
  }
}
