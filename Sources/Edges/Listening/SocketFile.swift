import Glibc

/// The file of a Unix socket.
public struct SocketFile: Sendable {
  /// Why a socket cannot be bound.
  public enum Failure: Error, Equatable {
    /// `sockaddr_un` has room for `limit` bytes (unix(7)).
    case pathTooLong(limit: Int)
    /// Another program listens at the path.
    case inUse
    /// A file that is not a socket is at the path; it is kept.
    case notASocket
    /// Users other than root and this user could replace the socket.
    case unsafeFolder(String, detail: String)
    /// A system call failed (errno).
    case failed(path: String, call: String, code: Int32)
  }

  private let path: String
  private let device: dev_t
  private let inode: ino_t

  /// Nil: the path has no socket.
  public init?(at path: String) {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return nil }
    (self.path, device, inode) = (path, status.st_dev, status.st_ino)
  }

  /// Binds a stream socket with exactly `mode`, and replaces the socket of a killed process.
  ///
  /// - Parameter folderMode: the mode of the folder, if it must be made; nil: it must exist.
  public static func bind(
    _ path: String, mode: UInt32, folderMode: UInt32? = nil
  ) throws(Failure) -> (descriptor: Int32, file: SocketFile) {
    let address = try UnixAddress(path)
    try prepareFolder(of: path, mode: folderMode)
    try removeStale(path, address)
    let descriptor = socket(AF_UNIX, UnixAddress.streamType, 0)
    guard descriptor >= 0 else { throw .failed(path: path, call: "socket", code: errno) }
    do throws(Failure) {
      let file = try makeFile(descriptor, path, address, mode)
      return (descriptor, file)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// The path that a Unix socket is bound to; nil: none, or another kind of descriptor.
  public static func path(of descriptor: Int32) -> String? { UnixAddress.path(of: descriptor) }

  /// Removes the file, if it is still the same one: a successor may have bound the path since.
  public func remove() {
    if let current = SocketFile(at: path), current.device == device, current.inode == inode { unlink(path) }
  }

  private static func makeFile(
    _ descriptor: Int32, _ path: String, _ address: UnixAddress, _ mode: UInt32
  ) throws(Failure) -> SocketFile {
    // Linux gives the file the mode of the unbound socket, less the umask: it is never wider than `mode`, not even for
    // a moment, and the process-wide umask is unchanged. The mode without the umask is set before listen(2).
    guard fchmod(descriptor, mode) == 0 else { throw .failed(path: path, call: "fchmod", code: errno) }
    guard address.withPointer({ Glibc.bind(descriptor, $0, $1) }) == 0 else {
      throw errno == EADDRINUSE ? .inUse : .failed(path: path, call: "bind", code: errno)
    }
    // Another program has replaced it in this moment.
    guard let file = SocketFile(at: path) else { throw .inUse }
    guard chmod(path, mode) == 0 else {
      let code = errno
      file.remove()
      throw .failed(path: path, call: "chmod", code: code)
    }
    return file
  }

  private static func prepareFolder(of path: String, mode: UInt32?) throws(Failure) {
    let slash = path.lastIndex(of: "/")
    let folder = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    if let mode {
      if mkdir(folder, mode) == 0 {
        guard chmod(folder, mode) == 0 else { throw .failed(path: path, call: "chmod \(folder)", code: errno) }
        return
      }
      guard errno == EEXIST else { throw .failed(path: path, call: "mkdir \(folder)", code: errno) }
    }
    try SocketFolder.check(folder)
  }

  /// Removes the rest of a killed server: a socket that refuses connections.
  private static func removeStale(_ path: String, _ address: UnixAddress) throws(Failure) {
    var status = stat()
    guard lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw .failed(path: path, call: "lstat", code: errno) }
      return
    }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket }
    switch address.probe() {
    case ECONNREFUSED:
      guard unlink(path) == 0 || errno == ENOENT else { throw .failed(path: path, call: "unlink", code: errno) }
    case ENOENT: return
    // The last: a socket of another type is bound there.
    case 0, EAGAIN, EPROTOTYPE: throw .inUse
    case let code: throw .failed(path: path, call: "connect", code: code)
    }
  }
}

/// A `sockaddr_un` with a path (unix(7)).
private struct UnixAddress {
  static let streamType = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
  /// One byte is the terminating zero.
  private static let pathLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private var raw = sockaddr_un()

  init(_ path: String) throws(SocketFile.Failure) {
    let bytes = Array(path.utf8)
    guard bytes.count <= Self.pathLimit else { throw .pathTooLong(limit: Self.pathLimit) }
    guard !bytes.isEmpty, !bytes.contains(0) else { throw .failed(path: path, call: "bind", code: EINVAL) }
    raw.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &raw.sun_path) { $0.copyBytes(from: bytes) }
  }

  func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    withUnsafePointer(to: raw) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }

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
