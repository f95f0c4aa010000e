import Broker
import Glibc
import Synchronization

/// That one process has the store. The kernel takes the lock back when the process ends, however it ends.
final class OwnerLock: Sendable {
  private let descriptor: Mutex<Int32>

  private init(_ descriptor: Int32) {
    self.descriptor = Mutex(descriptor)
  }

  deinit { release() }

  /// - Parameters:
  ///   - path: the lock's file, which stays: removing it would let two processes lock two files.
  ///   - folder: what is owned, for the error.
  static func acquire(_ path: String, owning folder: String) throws(StoreError) -> OwnerLock {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw .unreadable(path: path, detail: systemError(errno)) }
    let lock = OwnerLock(descriptor)
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      guard code == EWOULDBLOCK else { throw .unreadable(path: path, detail: systemError(code)) }
      throw .owned(path: folder, pid: owner(in: descriptor))
    }
    let line = Array("\(getpid())\n".utf8)
    guard fchmod(descriptor, 0o600) == 0, ftruncate(descriptor, 0) == 0,
      pwrite(descriptor, line, line.count, 0) == line.count
    else { throw .unreadable(path: path, detail: systemError(errno)) }
    return lock
  }

  /// Whether the lock's file is still the one that is locked: another process would lock another one.
  func isIn(_ path: String) -> Bool {
    var held = stat()
    var found = stat()
    return descriptor.withLock { fstat($0, &held) } == 0 && stat(path, &found) == 0
      && held.st_dev == found.st_dev && held.st_ino == found.st_ino
  }

  func release() {
    descriptor.withLock { descriptor in
      guard descriptor >= 0 else { return }
      close(descriptor)
      descriptor = -1
    }
  }

  private static func owner(in descriptor: Int32) -> Int32? {
    var digits = [UInt8](repeating: 0, count: 16)
    let count = pread(descriptor, &digits, digits.count, 0)
    return Int32(String(decoding: digits.prefix(max(0, count)).prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
  }
}
