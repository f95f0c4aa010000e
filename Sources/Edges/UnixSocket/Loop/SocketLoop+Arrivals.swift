import CLinux
import Callers
import Glibc
import Listening
import Logging
import NIOCore
import Principals

// The first look at a new connection. A process can connect and close tens of thousands of times in a second, so a
// connection that is refused here costs a few system calls and no memory: no handler, and no look at /proc.
extension SocketLoop {
  /// A new connection, as far as the kernel describes it without the process.
  struct Arrival {
    /// Nil: the kernel does not report the user.
    let credentials: clinux_peer?
    /// The credential that is asked for, if the client is the service manager: it is bound to a name for that.
    let wanted: CredentialName?
    /// The user, or the owner of a subordinate user id.
    let user: UInt32

    init(_ credentials: clinux_peer?, _ wanted: CredentialName?) {
      self.credentials = credentials
      self.wanted = wanted
      user = credentials.map { Self.user(of: $0.uid) } ?? .max
    }

    static func user(of uid: UInt32) -> UInt32 { uid == 0 ? 0 : SubordinateUsers.shared.owner(of: uid) ?? uid }

    private static let own = geteuid()

    /// Root and the broker's own user.
    var isUnlimited: Bool { credentials.map { $0.uid == 0 || $0.uid == Self.own } ?? true }

    /// Any process can bind a name like the service manager's.
    var isManager: Bool { wanted != nil && credentials != nil && isUnlimited }

    var share: Share { Share(holder: Holder(uid: user), callerClass: .unnamed) }
  }

  /// False: the socket was closed.
  func isAdmitted(_ socket: Int32, _ arrival: Arrival, mayReceiveDescriptors: Bool, at now: NIODeadline) -> Bool {
    guard !arrival.isUnlimited else { return true }
    let isWithinRate = rates.connects.acquire(arrival.user, at: now)
    let isFull = mayReceiveDescriptors && closer.isFull(arrival.user)
    if shared.system.hasEnded(socket) {
      if isFull { recordRefusal(of: arrival, .closing, at: now) }
      drop(socket, of: arrival, nil, mayReceiveDescriptors: mayReceiveDescriptors)
      return false
    }
    let cause: RefusedClients.Cause
    if !isWithinRate {
      cause = .rate
    } else if isFull {
      cause = .closing
    } else if !accepting.isFreeForUsers(socket) {
      cause = .descriptors
    } else {
      return true
    }
    recordRefusal(of: arrival, cause, at: now)
    // The service manager would take any bytes for the credential.
    let line = arrival.wanted == nil ? refused.line(cause) : nil
    drop(socket, of: arrival, line, mayReceiveDescriptors: mayReceiveDescriptors)
    return false
  }

  private func recordRefusal(of arrival: Arrival, _ cause: RefusedClients.Cause, at now: NIODeadline) {
    shared.table.countRefused()
    shared.table.countHeldBack(.connections, arrival.share)
    guard let others = shared.table.refused(at: now) else { return }
    let (why, hint) = refused.text(cause, of: arrival.user)
    var metadata: Logger.Metadata = ["uid": "\(arrival.credentials?.uid ?? .max)"]
    if let hint { metadata["hint"] = .string(hint) }
    shared.logger.warning(
      "a connection was refused: \(why)\(others > 0 ? "; \(others) more before it" : "")", metadata: metadata)
  }

  private func drop(_ socket: Int32, of arrival: Arrival, _ line: [UInt8]?, mayReceiveDescriptors: Bool) {
    if mayReceiveDescriptors { Self.awaitDescriptors(on: socket) }
    if let line { _ = line.withUnsafeBytes { clinux_send(socket, $0.baseAddress, $0.count) } }
    if mayReceiveDescriptors, !buffers.emptyInput(of: socket) {
      closer.close(socket, of: Closer.Account(user: arrival.user, isUnnamed: true)) {}
    } else {
      close(socket)
    }
  }

  /// Before anything is received from a socket whose client can send descriptors: see `clinux_receive_bytes`.
  static func awaitDescriptors(on socket: Int32) {
    var yes: Int32 = 1
    setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &yes, socklen_t(MemoryLayout.size(ofValue: yes)))
    clinux_refuse_notes(socket)
  }
}
