import CLinux
import Glibc
import Synchronization

/// The units of control groups that callers were found in, by the kernel's number of the group. A number is never given to
/// another group, and a group of the unified tree is never renamed: what was read once of a group stays true.
final class ControlGroups: Sendable {
  /// Groups that are known at a time; the next one begins anew.
  static let limit = 1024
  /// The same for texts that were read, of 4 KiB at most: where groups have no numbers, they are at least not taken apart
  /// anew.
  static let textLimit = 256

  /// What the kernel says of the process behind a pidfd.
  enum Word: Equatable {
    /// It has not been reaped, so that its pid is nobody else's. The group's number is 0 where it has none.
    case holds(pid: Int32, group: UInt64)
    case hasEnded
    /// This kernel cannot say (before Linux 6.13).
    case unknown
  }

  private let known = Mutex<[UInt64: CGroup]>([:])
  private let texts = Mutex<[String: CGroup?]>([:])
  private let lacksWord = Atomic(false)

  /// PIDFD_GET_INFO. A kernel that lacks it is asked once.
  func word(of pidfd: Int32) -> Word {
    guard !isWordUnknown else { return .unknown }
    var process = clinux_process()
    if clinux_pidfd_info(pidfd, &process) == 0 { return .holds(pid: process.pid, group: process.control_group) }
    guard errno != ESRCH else { return .hasEnded }
    lacksWord.store(true, ordering: .relaxed)
    return .unknown
  }

  var isWordUnknown: Bool { lacksWord.load(ordering: .relaxed) }

  subscript(group: UInt64) -> CGroup? { group == 0 ? nil : known.withLock { $0[group] } }

  /// What `/proc/PID/cgroup` says.
  func place(_ contents: String) -> CGroup? {
    if let known = texts.withLock({ $0[contents] }) { return known }
    let place = CGroup(contents)
    texts.withLock { texts in
      if texts.count >= Self.textLimit { texts = [:] }
      texts[contents] = .some(place)
    }
    return place
  }

  /// - Parameter read: what was read of a process that was in the group before and afterwards.
  func learn(_ group: UInt64, _ read: CGroup) {
    // In the older layout the number is of another tree than the unit.
    guard group != 0, read.isOfUnifiedTree else { return }
    known.withLock { known in
      if known.count >= Self.limit { known = [:] }
      known[group] = read
    }
  }
}
