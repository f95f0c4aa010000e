import CLinux
package import Principals

extension FileView {
  /// This process.
  package static var own: FileView? { FileView(process: "self") }

  /// - Parameter process: its name in `/proc`. A pid may be another process's by now: only while the first one is known to
  ///   run.
  init?(process: String) {
    var (device, mounts, rootDevice, root) = (UInt64(0), UInt64(0), UInt64(0), UInt64(0))
    guard clinux_identity("/proc/\(process)/ns/mnt", &device, &mounts) == 0,
      clinux_identity("/proc/\(process)/root", &rootDevice, &root) == 0
    else { return nil }
    self.init(mounts: mounts, rootDevice: rootDevice, root: root)
  }
}
