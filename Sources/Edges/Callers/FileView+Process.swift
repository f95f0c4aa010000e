import Glibc
package import Principals

extension FileView {
  /// This process.
  package static var own: FileView? { FileView(process: "self") }

  /// - Parameter process: its name in `/proc`. A pid may be another process's by now: only while the first one is known to
  ///   run.
  init?(process: String) {
    var (mounts, root) = (stat(), stat())
    guard stat("/proc/\(process)/ns/mnt", &mounts) == 0, stat("/proc/\(process)/root", &root) == 0 else { return nil }
    self.init(mounts: UInt64(mounts.st_ino), rootDevice: UInt64(root.st_dev), root: UInt64(root.st_ino))
  }
}
