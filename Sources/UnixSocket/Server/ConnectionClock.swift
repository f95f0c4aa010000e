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

  private var activity = 0
  private var idle: (activity: Int, since: NIODeadline)
  private var line: (number: Int, since: NIODeadline)?

  init(at now: NIODeadline) { idle = (0, now) }

  mutating func noteActivity() { activity &+= 1 }

  mutating func look(
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
    if isBusy || activity != idle.activity {
      idle = (activity, now)
    } else if limit > .zero, now - idle.since >= TimeAmount(limit) {
      return .idle
    }
    return .good
  }
}
