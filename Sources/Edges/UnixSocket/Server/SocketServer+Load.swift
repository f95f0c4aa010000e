import Glibc

extension SocketServer {
  /// The connections of a server and its unanswered lines. It is created before the server and before the dispatcher, which
  /// reports its counts.
  public struct Load: Sendable {
    /// Lines that are parsed at a time.
    private static let mostWorkers = 4

    let table: ConnectionTable
    let lines: LineQueue

    public init(limits: Limits) {
      table = ConnectionTable(limits: limits)
      let processors = Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
      lines = LineQueue(limits.lines, workers: max(2, min(processors, Self.mostWorkers)))
    }

    public var statistics: SocketStatistics {
      var statistics = table.statistics
      (statistics.unansweredBytes, statistics.waitingForRoom) = (lines.unansweredBytes, lines.waitingConnections)
      return statistics
    }
  }

  /// The socket's counts.
  public struct SocketStatistics: Sendable, Equatable {
    /// Open connections, and closed ones whose requests still run.
    public var connections: Int
    public var accepted: UInt64
    /// For want of a place: too many were open, in all or of one user.
    public var refused: UInt64
    /// How often callers had to wait, or were refused, by the budget that was used up.
    public var heldBack: [Budgeted: UInt64] = [:]
    /// Who that was most recently, and of what: `request_memory of uid 1000`.
    public var latestHeldBack: String?
    /// Bytes of requests that are not answered, and connections that wait for room.
    public var unansweredBytes = 0
    public var waitingForRoom = 0
  }

  /// The holders' budgets.
  public enum Budgeted: String, Sendable, CaseIterable {
    /// Connections that were refused.
    case connections
    /// Connections that were not read, as their holder, or all, had too much unanswered.
    case requestMemory = "request_memory"
    /// Connections that were not read, as their holder had sent too much in a second.
    case rate
    /// Replies that became errors, as too much was unread.
    case unreadReplies = "unread_replies"
  }
}
