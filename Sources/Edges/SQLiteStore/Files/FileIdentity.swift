import Glibc

/// The identity of the file at a path: a removed or replaced one differs.
struct FileIdentity: Sendable, Equatable {
  let device: dev_t
  let inode: ino_t

  init(_ status: stat) { (device, inode) = (status.st_dev, status.st_ino) }

  /// Nil: none can be seen there.
  init?(at path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    self.init(status)
  }

  init?(of descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }
}
