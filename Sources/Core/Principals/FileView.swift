/// Which files a process sees: two processes with equal views see the same ones under the same paths.
public struct FileView: Sendable, Hashable {
  /// The inode of the mount namespace (mount_namespaces(7)).
  public var mounts: UInt64
  /// The device and the inode of the root folder (chroot(2)).
  public var rootDevice: UInt64
  public var root: UInt64

  public init(mounts: UInt64, rootDevice: UInt64, root: UInt64) {
    self.mounts = mounts
    self.rootDevice = rootDevice
    self.root = root
  }
}
