import CLinux
import Glibc
import Listening

/// A Unix stream socket, bound, and the file it is bound to, if that is ours.
struct ListeningSocket: Sendable {
  let descriptor: Int32
  private let file: File?

  struct File: Sendable, Equatable {
    var path: String
    var device: dev_t
    var inode: ino_t
  }

  /// Takes over a socket that the service manager bound; its file stays the manager's.
  static func inherited(_ descriptor: Int32) throws(SocketServerError) -> ListeningSocket {
    guard clinux_is_unix_listener(descriptor) == 1 else { throw .notAListener(descriptor: descriptor) }
    return ListeningSocket(descriptor: descriptor, file: nil)
  }

  /// The socket that the earlier process left with its keeper, if it has this path; otherwise it is bound here.
  static func bound(
    at path: String, mode: UInt32, folderMode: UInt32, keeper: SocketServer.SocketKeeper?
  ) throws(SocketServerError) -> ListeningSocket {
    if let keeper, let earlier = keeper.earlier {
      if let socket = kept(earlier, at: path, mode: mode) { return socket }
      keeper.forget()
      remove(kept: earlier, unlessAt: path)
    }
    return try bound(at: path, mode: mode, folderMode: folderMode)
  }

  /// Leaves a copy with the keeper. The socket must be ours and listen; then its file stays.
  func left(with keeper: SocketServer.SocketKeeper?) -> ListeningSocket {
    guard file != nil, let keeper, keeper.keep(descriptor) else { return self }
    return ListeningSocket(descriptor: descriptor, file: nil)
  }

  /// Takes over the socket that an earlier process bound at `path`, and gives its file `mode`; its file stays. Nil if
  /// it has another path, or its file was removed.
  private static func kept(_ descriptor: Int32, at path: String, mode: UInt32) -> ListeningSocket? {
    guard clinux_is_unix_listener(descriptor) == 1, Address.path(of: descriptor) == path, File.at(path) != nil,
      chmod(path, mode) == 0
    else { return nil }
    return ListeningSocket(descriptor: descriptor, file: nil)
  }

  /// Closes the socket of an earlier process, and removes its file, which no other program would. `path` may have
  /// another one by then.
  private static func remove(kept descriptor: Int32, unlessAt path: String) {
    let old = Address.path(of: descriptor)
    close(descriptor)
    if let old, old != path, File.at(old) != nil { unlink(old) }
  }

  /// Binds at `path` with exactly `mode`, making its folder with `folderMode` where it is missing.
  static func bound(at path: String, mode: UInt32, folderMode: UInt32) throws(SocketServerError) -> ListeningSocket {
    let address = try Address(path)
    try makeFolder(of: path, mode: folderMode)
    try removeStale(path, address)
    let descriptor = socket(AF_UNIX, Address.streamType, 0)
    guard descriptor >= 0 else { throw .cannotServe(path: path, call: "socket", code: errno) }
    do throws(SocketServerError) {
      return ListeningSocket(descriptor: descriptor, file: try bind(descriptor, path, address, mode))
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Removes the file, if it is still the one made by us: a successor may have bound the path since.
  func unlinkFile() {
    guard let file, File.at(file.path) == file else { return }
    unlink(file.path)
  }

  private static func bind(
    _ descriptor: Int32, _ path: String, _ address: Address, _ mode: UInt32
  ) throws(SocketServerError) -> File {
    // Linux gives the file the mode of the unbound socket, less the umask: it is never wider than `mode`, not even for
    // a moment, and the process-wide umask is unchanged. The mode without the umask is set before listen(2).
    guard fchmod(descriptor, mode) == 0 else { throw .cannotServe(path: path, call: "fchmod", code: errno) }
    guard address.withPointer({ Glibc.bind(descriptor, $0, $1) }) == 0 else {
      throw errno == EADDRINUSE ? .inUse(path: path) : .cannotServe(path: path, call: "bind", code: errno)
    }
    guard chmod(path, mode) == 0, let file = File.at(path) else {
      let code = errno
      unlink(path)
      throw .cannotServe(path: path, call: "chmod", code: code)
    }
    return file
  }

  private static func makeFolder(of path: String, mode: UInt32) throws(SocketServerError) {
    guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return }
    let folder = String(path[..<slash])
    if mkdir(folder, mode) == 0 {
      guard chmod(folder, mode) == 0 else { throw .cannotServe(path: path, call: "chmod \(folder)", code: errno) }
    } else if errno != EEXIST {
      throw .cannotServe(path: path, call: "mkdir \(folder)", code: errno)
    } else {
      do throws(SocketFolder.Failure) {
        try SocketFolder.check(folder)
      } catch {
        switch error {
        case .unreadable(let code): throw .cannotServe(path: folder, call: "stat", code: code)
        case .unsafe(let detail): throw .unsafeFolder(path: folder, detail: detail)
        }
      }
    }
  }

  /// Removes the rest of a killed server: a socket that refuses connections.
  private static func removeStale(_ path: String, _ address: Address) throws(SocketServerError) {
    var status = stat()
    guard lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw .cannotServe(path: path, call: "lstat", code: errno) }
      return
    }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path: path) }
    switch address.probe() {
    case ECONNREFUSED:
      guard unlink(path) == 0 || errno == ENOENT else { throw .cannotServe(path: path, call: "unlink", code: errno) }
    case ENOENT: return
    case 0, EAGAIN: throw .inUse(path: path)
    case let code: throw .cannotServe(path: path, call: "connect", code: code)
    }
  }
}

extension ListeningSocket.File {
  static func at(_ path: String) -> Self? {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return nil }
    return Self(path: path, device: status.st_dev, inode: status.st_ino)
  }
}

/// A `sockaddr_un` with a path (unix(7)).
struct Address {
  static let streamType = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
  /// One byte is the terminating zero.
  static let pathLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private var raw = sockaddr_un()

  init(_ path: String) throws(SocketServerError) {
    let bytes = Array(path.utf8)
    guard bytes.count <= Self.pathLimit else { throw .pathTooLong(path: path, limit: Self.pathLimit) }
    guard !bytes.isEmpty, !bytes.contains(0) else { throw .cannotServe(path: path, call: "bind", code: EINVAL) }
    raw.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &raw.sun_path) { $0.copyBytes(from: bytes) }
  }

  func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    withUnsafePointer(to: raw) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }

  /// The path of a bound descriptor; nil if it is not a Unix socket, or has no path.
  static func path(of descriptor: Int32) -> String? {
    var raw = sockaddr_un()
    var length = socklen_t(MemoryLayout<sockaddr_un>.size)
    let result = withUnsafeMutablePointer(to: &raw) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
    }
    guard result == 0, raw.sun_family == sa_family_t(AF_UNIX) else { return nil }
    let path = withUnsafeBytes(of: raw.sun_path) { bytes in String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
    return path.isEmpty ? nil : path
  }

  /// Connects and hangs up: 0 where a server answers, else errno.
  func probe() -> Int32 {
    let descriptor = socket(AF_UNIX, Self.streamType, 0)
    guard descriptor >= 0 else { return errno }
    defer { close(descriptor) }
    return withPointer { connect(descriptor, $0, $1) == 0 ? 0 : errno }
  }
}
