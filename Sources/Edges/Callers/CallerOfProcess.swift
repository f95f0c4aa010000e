import CLinux
import Glibc
public import Principals

extension Caller {
  /// It names all groups: the kernel allows 65,536.
  private static let longestStatus = 1 << 20

  /// A running process as a caller, as the kernel would identify it if it connected now; nil if it does not run, or
  /// cannot be seen. Explains its rights: a real caller is identified by its connection.
  public init?(process pid: Int32) {
    let pidfd = clinux_pidfd_open(pid)
    guard pidfd >= 0 else { return nil }
    defer { close(pidfd) }
    let limit = Caller.longestStatus
    guard let status = try? CallerOrigin.contents(of: "/proc/\(pid)/status", atMost: limit) else { return nil }
    func numbers(_ name: String) -> [UInt32] {
      let line = status.split(separator: "\n").first { $0.hasPrefix("\(name):") }
      return line?.dropFirst(name.utf8.count + 1).split { $0 == "\t" || $0 == " " }.compactMap { UInt32($0) } ?? []
    }
    // The second is the effective one, which SO_PEERCRED tells.
    let (uids, gids) = (numbers("Uid"), numbers("Gid"))
    guard uids.count > 1, gids.count > 1 else { return nil }
    let alive = { clinux_pidfd_alive(pidfd) == 1 }
    // Asked last: until then the number could have become another's.
    guard let origin = try? CallerOrigin(pid: pid, isAlive: alive), alive() else { return nil }
    self.init(
      uid: uids[1], gid: gids[1], groups: numbers("Groups"), pid: pid, unit: origin.unit, userUnit: origin.userUnit,
      executable: origin.executable)
  }
}
