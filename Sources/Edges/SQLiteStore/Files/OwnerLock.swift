import Broker
import Glibc
import Synchronization

/// That one process has the store: a lock of the folder itself, and one of a file in it that names the owner. Who removes
/// the file does not let another process in. The kernel takes the locks back when the process ends, however it ends.
final class OwnerLock: Sendable {
  private struct Descriptors {
    var folder: Int32
    var file: Int32 = -1
    var isOfFile = false
  }

  private let descriptors: Mutex<Descriptors>

  /// The error of a file system with locks for files only (NFS).
  private static let unlockable = [EBADF, ENOLCK, EOPNOTSUPP]

  private init(folder: Int32) { descriptors = Mutex(Descriptors(folder: folder)) }

  deinit { release() }

  /// - Parameters:
  ///   - path: the lock's file, which stays: removing it would let two processes lock two files.
  ///   - folder: the owned folder.
  ///   - isReadOnly: the file cannot be made. ``lockFile(_:owning:)`` follows once it can.
  static func acquire(
    _ path: String, owning folder: String, isReadOnly: Bool = false
  ) throws(StoreError) -> OwnerLock {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .unreadable(path: folder, detail: systemError(errno)) }
    let lock = OwnerLock(folder: descriptor)
    let code = flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno
    if code != 0, !unlockable.contains(code) {
      guard code == EWOULDBLOCK else { throw .unreadable(path: folder, detail: systemError(code)) }
      let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
      defer { close(file) }
      throw .owned(path: folder, pid: owner(in: file))
    }
    if code != 0 { lock.descriptors.withLock { $0.isOfFile = true } }
    if !isReadOnly { try lock.lockFile(path, owning: folder) }
    return lock
  }

  /// Makes and locks the file, even after its removal.
  func lockFile(_ path: String, owning folder: String) throws(StoreError) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw .unreadable(path: path, detail: systemError(errno)) }
    var isTaken = false
    defer { if !isTaken { close(descriptor) } }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      guard code == EWOULDBLOCK else { throw .unreadable(path: path, detail: systemError(code)) }
      throw .owned(path: folder, pid: Self.owner(in: descriptor))
    }
    let line = Array("\(getpid())\n".utf8)
    guard fchmod(descriptor, 0o600) == 0, ftruncate(descriptor, 0) == 0,
      pwrite(descriptor, line, line.count, 0) == line.count
    else { throw .unreadable(path: path, detail: systemError(errno)) }
    isTaken = true
    let old = descriptors.withLock { descriptors in
      defer { descriptors.file = descriptor }
      return descriptors.file
    }
    if old >= 0 { close(old) }
  }

  /// Whether the file system locks only files: removing the file may admit another process.
  var isOfFile: Bool { descriptors.withLock { $0.isOfFile } }

  /// Whether the lock's file is still the one that is locked: another process would lock another one.
  func isIn(_ path: String) -> Bool { descriptors.withLock { Self.isSame($0.file, path) } }

  /// Whether this is still the folder that is locked.
  func owns(_ folder: String) -> Bool { descriptors.withLock { Self.isSame($0.folder, folder) } }

  private static func isSame(_ descriptor: Int32, _ path: String) -> Bool {
    guard let held = FileIdentity(of: descriptor) else { return false }
    return held == FileIdentity(at: path)
  }

  func release() {
    descriptors.withLock { descriptors in
      for descriptor in [descriptors.file, descriptors.folder] where descriptor >= 0 {
        // A child that is being started has the descriptor as well, until its execve(2).
        flock(descriptor, LOCK_UN)
        close(descriptor)
      }
      descriptors = Descriptors(folder: -1)
    }
  }

  private static func owner(in descriptor: Int32) -> Int32? {
    var digits = [UInt8](repeating: 0, count: 16)
    let count = pread(descriptor, &digits, digits.count, 0)
    return Int32(String(decoding: digits.prefix(max(0, count)).prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
  }
}
