import NIOCore

/// How long one client has been silent, or busy with the same line: looked at now and then, as to note the time with each
/// request would cost more than it is worth.
struct ConnectionClock {
  enum Verdict {
    case good
    /// A line was begun and not finished in time.
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
