import CLinux
import Glibc
import Synchronization

/// A cache of the units of control groups, by the kernel's id of the group (cgroups(7)). An id is never reused, and a
/// group of the unified hierarchy is never renamed, so an entry stays true.
package final class ControlGroups: Sendable {
  /// Entries in total, and of one user or unit: a user can make any number of groups.
  static let limit = 4096
  static let limitOfOwner = 256
  /// Parsed texts, of 4 KiB at most each: used where the id does not determine the unit. All are removed when they are more.
  static let textLimit = 256
  /// The time after which a group is looked for again that a search did not find and may have skipped.
  static let partialTime = Duration.seconds(10)

  /// The answer of PIDFD_GET_INFO.
  enum PidfdInfo: Equatable {
    /// The process has not been reaped, so its pid has not been reused. `group` is 0 where the kernel has no id.
    case exists(pid: Int32, group: UInt64)
    case ended
    /// Before Linux 6.13.
    case unsupported
  }

  /// A group that was looked for and not found.
  private struct Lost {
    /// By the clock of the callers. Nil: it does not exist, and its id is never given again.
    var end: Duration?
  }

  private let known = Mutex(
    OwnedCache<UInt64, CGroup.Owner, CGroup>(limit: ControlGroups.limit, limitOfOwner: ControlGroups.limitOfOwner))
  private let texts = Mutex<[String: CGroup?]>([:])
  private let isUnsupported = Atomic(false)
  /// By the user whose process was in it.
  private let lost = Mutex(
    OwnedCache<UInt64, UInt32, Lost>(limit: ControlGroups.limit, limitOfOwner: ControlGroups.limitOfOwner))

  package init() {}

  /// A kernel without PIDFD_GET_INFO is asked once.
  func info(of pidfd: Int32) -> PidfdInfo {
    guard !lacksInfo else { return .unsupported }
    var process = clinux_process()
    if clinux_pidfd_info(pidfd, &process) == 0 { return .exists(pid: process.pid, group: process.control_group) }
    guard errno != ESRCH else { return .ended }
    isUnsupported.store(true, ordering: .relaxed)
    return .unsupported
  }

  var lacksInfo: Bool { isUnsupported.load(ordering: .relaxed) }

  subscript(group: UInt64) -> CGroup? { group == 0 ? nil : known.withLock { $0[group] } }

  /// - Parameter now: by any clock that does not step.
  func isLost(_ group: UInt64, at now: Duration) -> Bool {
    guard let entry = lost.withLock({ $0[group] }) else { return false }
    return entry.end.map { now < $0 } ?? true
  }

  /// - Parameters:
  ///   - user: whose process was in it.
  ///   - end: when it may be looked for again; nil: never.
  func lose(_ group: UInt64, of user: UInt32, until end: Duration? = nil) {
    lost.withLock { $0.insert(Lost(end: end), for: group, of: user) }
  }

  /// Parses `/proc/PID/cgroup`.
  func parse(_ contents: String) -> CGroup? {
    if let known = texts.withLock({ $0[contents] }) { return known }
    let place = CGroup(contents)
    texts.withLock { texts in
      if texts.count >= Self.textLimit { texts = [:] }
      texts[contents] = .some(place)
    }
    return place
  }

  /// - Parameter read: the place of a process that was in the group both before and after the read.
  func learn(_ group: UInt64, _ read: CGroup) {
    // In the older layout systemd's hierarchy is not the one that the id is of.
    guard group != 0, read.isOfUnifiedTree else { return }
    known.withLock { $0.insert(read, for: group, of: read.owner) }
  }
}
