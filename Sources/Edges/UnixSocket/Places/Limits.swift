import BrokerAPI
import Listening
import Principals

extension SocketServer {
  /// The costs of clients. Every number of the socket is here.
  public struct Limits: Sendable, Equatable {
    /// Bytes of one line, with its newline.
    public var line = Incoming.maximumLine
    /// Connections of all callers except root and the broker's own user, whose own quota (``connectionsPerUser``)
    /// others cannot use.
    public var connections = 4096
    /// Connections of one holder. A connection counts until the requests it left behind have ended too.
    public var connectionsPerUser = 1024
    /// Requests of one connection that run at a time; then it is not read until one has ended.
    public var requestsInFlight = 64
    /// Bytes of lines that are not answered: of one connection, unless it is one line; of one holder; and of all but root
    /// and the broker's own user. Beyond it connections are not read. What lines take when they are parsed is bounded to
    /// twice as much.
    public var unansweredOfConnection = 1024 * 1024
    public var unansweredPerHolder = 8 * 1024 * 1024
    public var unanswered = 32 * 1024 * 1024
    /// The total share of callers without a rule in all budgets.
    public var unnamedShare = 1.0 / 16
    /// Bytes of notifications waiting for one client to read them: beyond it it is closed.
    public var outbound = 1024 * 1024
    /// Bytes written and not yet read by the client: beyond it nothing more is read from it, and its output waits in
    /// one piece. Small waiting pieces cost several times their size. The loop answers no more than that at a time.
    public var unread = 32 * 1024
    /// Bytes of replies and notifications that wait for a client, beyond the kernel's buffer: of one connection, of one
    /// holder, and of all except root and the broker's own user. Beyond it a reply becomes the error `overloaded`,
    /// unless it is the only one that waits. If as many bytes of errors wait, the connection is closed.
    public var unsent = 1024 * 1024
    public var unsentOfUser = 8 * 1024 * 1024
    public var unsentOfAll = 64 * 1024 * 1024
    /// Lines, and bytes of lines and replies, of one holder in a second, but those of cached tokens. Root and the broker's own
    /// user have no such bound.
    public var linesPerSecond = 10_000
    public var bytesPerSecond = 32 * 1024 * 1024
    /// Connections in a second of one user, with all units and subordinate user ids, unless they get a cached token; twice as
    /// many after a pause. Beyond it connections are refused by user id. Root and the broker's own user have no such bound.
    public var connectsPerSecond = 2_000
    /// A connection without a request in flight that receives nothing for this time is closed. Zero: never.
    public var idle = Duration.seconds(600)
    /// The same for a connection that events are sent to. Zero: never.
    public var idleSubscribed = Duration.zero
    /// From the first byte of a line to its newline. Zero: no limit.
    public var partialLine = Duration.seconds(30)
    /// How long a closing connection waits for its client to read the last reply.
    public var linger = Duration.seconds(2)
    /// Connections that the kernel keeps for us before they are accepted.
    public var backlog: Int32 = 4096

    public init() {}

    var lines: LineQueue.Limits {
      let longest = line + LineQueue.overhead
      func budget(_ times: Int) -> Budget.Limits {
        // Room for two lines at least, so that one can be read while another is answered.
        Budget.Limits(
          all: max(2 * longest, times * unanswered), perHolder: max(2 * longest, times * unansweredPerHolder),
          unnamedShare: unnamedShare, least: 2 * longest)
      }
      return LineQueue.Limits(
        unanswered: budget(1), parsed: budget(2), perConnection: unansweredOfConnection, longest: line)
    }

    var places: Budget.Limits {
      Budget.Limits(all: connections, perHolder: connectionsPerUser, unnamedShare: unnamedShare, least: 1)
    }

    var unreadBudget: Budget.Limits {
      Budget.Limits(all: unsentOfAll, perHolder: unsentOfUser, unnamedShare: unnamedShare, least: 1)
    }

    var rates: PaceRates { PaceRates(requests: Double(linesPerSecond), bytes: Double(bytesPerSecond)) }

    /// The interval of the time-out checks, which is their maximum delay.
    var tick: Duration {
      let waits = [idle, idleSubscribed, partialLine].filter { $0 > .zero }
      guard let shortest = waits.min() else { return .seconds(60) }
      return max(.milliseconds(10), shortest / 8)
    }
  }
}
