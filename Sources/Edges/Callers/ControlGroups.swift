import CLinux
import Glibc
import Synchronization

/// A cache of the units of control groups, by the kernel's id of the group (cgroups(7)). An id is never reused, and a
/// group of the unified hierarchy is never renamed, so an entry stays true.
package final class ControlGroups: Sendable {
  /// Entries; the cache is emptied when it is full.
  static let limit = 1024
  /// The same for parsed texts, of 4 KiB at most each: used where the id does not determine the unit.
  static let textLimit = 256

  /// The answer of PIDFD_GET_INFO.
  enum PidfdInfo: Equatable {
    /// The process has not been reaped, so its pid has not been reused. `group` is 0 where the kernel has no id.
    case exists(pid: Int32, group: UInt64)
    case ended
    /// Before Linux 6.13.
    case unsupported
  }

  private let known = Mutex<[UInt64: CGroup]>([:])
  private let texts = Mutex<[String: CGroup?]>([:])
  private let isUnsupported = Atomic(false)
  /// Groups that were looked for and not found: an id is never given again.
  private let lost = Mutex<Set<UInt64>>([])

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

  func isLost(_ group: UInt64) -> Bool { lost.withLock { $0.contains(group) } }

  func lose(_ group: UInt64) {
    lost.withLock { lost in
      if lost.count >= Self.limit { lost = [] }
      lost.insert(group)
    }
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
    known.withLock { known in
      if known.count >= Self.limit { known = [:] }
      known[group] = read
    }
  }
}
