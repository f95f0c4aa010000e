import BrokerAPI
import Listening
import Principals

/// Clients that the loop refuses: their replies, and the number of clients that have time to read them.
struct RefusedClients {
  /// Refused clients that have time to read why; the others are closed at once.
  static let absorbedAtOnce = 64
  /// The limit of one holder other than root and the broker's own user, and of all callers without a rule.
  static let absorbedPerUser = 8
  static let absorbedUnnamed = 32

  /// Why a client is refused by its user id.
  enum Cause {
    /// The user opens too many connections.
    case rate
    /// Too many of the user's sockets wait to be closed.
    case closing
    /// The remaining descriptors are reserved.
    case descriptors
  }

  private let connectsPerSecond: Int
  private let lines: [Cause: [UInt8]]
  /// Reports of clients that were closed because they did not read.
  var unread = Refusals()
  private var absorbing: [Share: Int] = [:]
  private var latest: (error: RPCError, line: [UInt8])?

  init(connectsPerSecond: Int) {
    self.connectsPerSecond = connectsPerSecond
    let texts: [Cause: String] = [
      .rate: "your user opens more than \(connectsPerSecond) in a second",
      .closing: "your user sent descriptors, and too many of its connections wait to be closed",
      .descriptors: "the remaining file descriptors are reserved",
    ]
    lines = texts.mapValues { RPCReply.failure(.null, ConnectionHandler.tooMany($0)).line() }
  }

  /// The reply.
  func line(_ cause: Cause) -> [UInt8]? { lines[cause] }

  /// For the log.
  func text(_ cause: Cause, of user: UInt32) -> (why: String, hint: String?) {
    switch cause {
    case .rate: ("uid \(user) opens more than \(connectsPerSecond) in a second", nil)
    case .closing:
      (
        "uid \(user) sent descriptors, and too many of its connections wait to be closed",
        "End the user's processes that send descriptors. From Linux 6.16 the kernel refuses descriptors."
      )
    case .descriptors:
      (
        "the remaining file descriptors are reserved for root and the broker's own user",
        "List the open files of the broker, or raise LimitNOFILE= of the service."
      )
    }
  }

  /// Whether one more client may be listened to until it has read why.
  func mayAbsorb(_ share: Share) -> Bool {
    let unnamed = absorbing.reduce(0) { $0 + ($1.key.isUnnamed ? $1.value : 0) }
    return absorbing.values.reduce(0, +) < Self.absorbedAtOnce && (!share.isUnnamed || unnamed < Self.absorbedUnnamed)
      && (share.hasOwnPlaces || absorbing[share, default: 0] < Self.absorbedPerUser)
  }

  mutating func startAbsorbing(of share: Share) -> Bool {
    guard mayAbsorb(share) else { return false }
    absorbing[share, default: 0] += 1
    return true
  }

  mutating func endAbsorbing(of share: Share) {
    let left = absorbing[share, default: 0] - 1
    absorbing[share] = left > 0 ? left : nil
  }

  /// The reply to a client that is refused as it connects. In a storm of them it is the same for most.
  mutating func line(refusing error: RPCError) -> [UInt8] {
    if let latest, latest.error == error { return latest.line }
    let line = RPCReply.failure(.null, error).line()
    latest = (error, line)
    return line
  }
}
