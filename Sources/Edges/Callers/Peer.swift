package import CLinux
import Glibc
package import Principals

/// The process at the other end, as the kernel recorded it at connect(2).
package struct Peer: ~Copyable {
  package enum Failure: Error, Equatable {
    /// The kernel does not say.
    case unidentified
    /// There is no descriptor or memory to ask with (errno): it may be known later.
    case exhausted(Int32)

    /// Nil where the answer is final.
    package static func exhausted(by code: Int32) -> Failure? {
      switch code {
      case EMFILE, ENFILE, ENOMEM: .exhausted(code)
      default: nil
      }
    }
  }

  package let caller: Caller
  /// A descriptor of the process itself (SO_PEERPIDFD, Linux 6.5), so that a reused pid cannot be mistaken for it.
  /// Negative where the kernel has none.
  private let pidfd: Int32

  package static func credentials(of socket: Int32) -> clinux_peer? {
    var credentials = clinux_peer(pid: 0, uid: 0, gid: 0)
    return clinux_peer_credentials(socket, &credentials) == 0 ? credentials : nil
  }

  /// - Parameters:
  ///   - orOpened: whether its pid suffices if the kernel returns no descriptor of the process itself. It may belong to
  ///     another process if the first ended at once, so only without an advantage for that.
  ///   - groups: where many callers were found before.
  package init(
    of socket: Int32, _ credentials: clinux_peer, orOpened: Bool = false, groups known: ControlGroups? = nil
  ) throws(Failure) {
    guard let groups = Self.groups(of: socket) else { throw .unidentified }
    var caller = Caller(uid: credentials.uid, gid: credentials.gid, groups: groups, pid: credentials.pid)
    let pidfd = try Self.pidfd(of: socket, credentials.pid, orOpened: orOpened)
    var slice: UInt32?
    // Nothing that is read in /proc counts without it.
    if pidfd >= 0 {
      do throws(Failure) {
        let origin = try Self.origin(credentials.pid, pidfd, known)
        caller.unit = origin.unit
        caller.userUnit = origin.userUnit
        caller.executable = origin.executable
        if let parent = HelperParent.name(of: credentials.pid, executable: origin.executable),
          Self.isAlive(pidfd) == true
        {
          caller.parent = parent
        }
        slice = origin.userSlice
      } catch {
        close(pidfd)
        throw error
      }
    }
    caller.isSubordinate = SubordinateUsers.shared.owner(of: credentials.uid) != nil
    caller.holder = Holder(uid: credentials.uid, slice: slice, unit: caller.unit)
    self.caller = caller
    self.pidfd = pidfd
  }

  /// A descriptor of the process that connected, which the caller closes; nil: it has ended, or the kernel has none.
  package static func process(of socket: Int32) -> Int32? {
    let pidfd = clinux_peer_pidfd(socket)
    return pidfd >= 0 ? pidfd : nil
  }

  /// The present view of the file system of a process; nil: it has ended, or the kernel does not show its view. Without
  /// the descriptor, which is closed, the pid could be another process's.
  package static func fileView(of pidfd: Int32, _ pid: Int32) -> FileView? {
    defer { close(pidfd) }
    let view = FileView(process: "\(pid)")
    return isAlive(pidfd) == true ? view : nil
  }

  private static func pidfd(of socket: Int32, _ pid: Int32, orOpened: Bool) throws(Failure) -> Int32 {
    var pidfd = clinux_peer_pidfd(socket)
    if pidfd < 0, Failure.exhausted(by: errno) == nil, orOpened { pidfd = clinux_pidfd_open(pid) }
    if pidfd < 0, let failure = Failure.exhausted(by: errno) { throw failure }
    return pidfd
  }

  deinit {
    if pidfd >= 0 { close(pidfd) }
  }

  private static func origin(_ pid: Int32, _ pidfd: Int32, _ known: ControlGroups?) throws(Failure) -> CallerOrigin {
    if let known, !known.lacksInfo {
      let told = try CallerOrigin(
        pid: pid, known, info: { known.info(of: pidfd) },
        contents: { () throws(Failure) in try CallerOrigin.contents(of: "/proc/\(pid)/cgroup") })
      if let told { return told }
    }
    return try CallerOrigin(pid: pid) { isAlive(pidfd) }
  }

  /// Whether the process still runs; nil if the kernel cannot tell.
  package var isAlive: Bool? { Self.isAlive(pidfd) }

  private static func isAlive(_ pidfd: Int32) -> Bool? {
    guard pidfd >= 0 else { return nil }
    switch clinux_pidfd_alive(pidfd) {
    case 1: return true
    case 0: return false
    default: return nil
    }
  }

  /// Enough for nearly all users; repeated with more if not.
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
