import BrokerAPI
import CLinux
import Glibc

/// The process at the other end, as the kernel recorded it at connect(2).
struct Peer: ~Copyable {
  private(set) var caller: Caller
  /// A descriptor of the process itself (SO_PEERPIDFD, Linux 6.5), so that a reused pid cannot be mistaken for it.
  /// Negative where the kernel has none.
  private let pidfd: Int32

  /// Nil where the kernel does not say who it is.
  ///
  /// - Parameters:
  ///   - orOpened: whether its pid will do where the kernel hands out no descriptor of the process itself. It may be
  ///     another's by now if the process ended at once, so only where nobody gains by that.
  ///   - groups: where callers were found before, where there are many of them.
  init?(of socket: Int32, orOpened: Bool = false, groups known: ControlGroups? = nil) {
    var credentials = clinux_peer(pid: 0, uid: 0, gid: 0)
    guard clinux_peer_credentials(socket, &credentials) == 0, let groups = Self.groups(of: socket) else { return nil }
    caller = Caller(uid: credentials.uid, gid: credentials.gid, groups: groups, pid: credentials.pid)
    let own = clinux_peer_pidfd(socket)
    pidfd = own < 0 && orOpened ? clinux_pidfd_open(credentials.pid) : own
    // Nothing that is read in /proc counts without it.
    guard pidfd >= 0 else { return }
    let origin = Self.origin(credentials.pid, pidfd, known)
    caller.unit = origin.unit
    caller.userUnit = origin.userUnit
    caller.executable = origin.executable
  }

  deinit {
    if pidfd >= 0 { close(pidfd) }
  }

  private static func origin(_ pid: Int32, _ pidfd: Int32, _ known: ControlGroups?) -> CallerOrigin {
    if let known, !known.lacksInfo {
      let told = CallerOrigin(
        pid: pid, known, info: { known.info(of: pidfd) }, contents: { CallerOrigin.contents(of: "/proc/\(pid)/cgroup") }
      )
      if let told { return told }
    }
    return CallerOrigin(pid: pid) { isAlive(pidfd) }
  }

  /// Whether the process still runs; nil where the kernel cannot tell.
  var isAlive: Bool? { Self.isAlive(pidfd) }

  private static func isAlive(_ pidfd: Int32) -> Bool? {
    guard pidfd >= 0 else { return nil }
    switch clinux_pidfd_alive(pidfd) {
    case 1: return true
    case 0: return false
    default: return nil
    }
  }

  /// Enough for nearly everybody; asked again with more where it is not.
  private static let usualGroups = 32

  private static func groups(of socket: Int32) -> [UInt32]? {
    var capacity = usualGroups
    while true {
      var count = -1
      let groups = [UInt32](unsafeUninitializedCapacity: capacity) { buffer, initialized in
        count = clinux_peer_groups(socket, buffer.baseAddress, capacity)
        initialized = max(0, min(count, capacity))
      }
      guard count >= 0 else { return nil }
      guard count > capacity else { return groups }
      capacity = count
    }
  }
}
