import Glibc
import NIOCore
import NIOPosix
import Synchronization

/// The file of a Unix socket that was bound, to be removed at the end if it is still that.
final class SocketFile: Sendable {
  private struct File: Equatable {
    let path: String
    let device: dev_t
    let inode: ino_t

    init?(_ path: String) {
      var status = stat()
      guard lstat(path, &status) == 0 else { return nil }
      (self.path, device, inode) = (path, status.st_dev, status.st_ino)
    }
  }

  private let file = Mutex<File?>(nil)

  /// - Returns: a socket that is bound there, with its mode.
  func bind(_ path: String, mode: UInt32) throws -> Int32 {
    var address = sockaddr_un()
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
      throw IOError(errnoCode: ENAMETOOLONG, reason: "bind")
    }
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    let descriptor = socket(AF_UNIX, kind, 0)
    guard descriptor >= 0 else { throw IOError(errnoCode: errno, reason: "socket") }
    // The file gets this mode, less the umask: never more, not even for a moment. Then the mode without the umask.
    let isBound =
      fchmod(descriptor, mode) == 0
      && withUnsafePointer(to: address) { address in
        address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
      } == 0
    if isBound { file.withLock { $0 = File(path) } }
    guard isBound, chmod(path, mode) == 0 else {
      let code = errno
      close(descriptor)
      remove()
      throw IOError(errnoCode: code, reason: "bind")
    }
    return descriptor
  }

  /// That of the socket which was bound here, if it is still that.
  func remove() {
    guard let file = file.withLock({ $0.take() }), File(file.path) == file else { return }
    unlink(file.path)
  }

  /// Removes the socket that an earlier process left, and no other: another program may be listening there.
  static func removeStale(_ path: String, on loop: any EventLoop) async throws {
    var status = stat()
    guard lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw IOError(errnoCode: errno, reason: "lstat") }
      return
    }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw IOError(errnoCode: EEXIST, reason: "no socket") }
    do {
      let probe = ClientBootstrap(group: loop).connectTimeout(.seconds(1))
      try await probe.connect(unixDomainSocketPath: path).get().close()
    } catch let error as IOError where error.errnoCode == ECONNREFUSED {
      guard unlink(path) == 0 || errno == ENOENT else { throw IOError(errnoCode: errno, reason: "unlink") }
      return
    } catch let error as IOError where error.errnoCode == ENOENT {
      return
    } catch let error as IOError where [EACCES, EPERM, EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode) {
      throw error
    } catch {
      throw IOError(errnoCode: EADDRINUSE, reason: "probe")
    }
    throw IOError(errnoCode: EADDRINUSE, reason: "probe")
  }
}
