import Glibc
import Listening

/// Why the socket cannot be served. The message says what to do.
public enum SocketServerError: Error, Equatable, CustomStringConvertible {
  /// `sockaddr_un` has room for `limit` bytes (unix(7)).
  case pathTooLong(path: String, limit: Int)
  /// Another server answers at the path.
  case inUse(path: String)
  /// A file that is not a socket is in the way; it is kept.
  case notASocket(path: String)
  /// Users other than root and this user could replace the socket.
  case unsafeFolder(path: String, detail: String)
  /// A system call failed (errno).
  case cannotServe(path: String, call: String, code: Int32)
  /// An inherited descriptor is not a listening Unix stream socket.
  case notAListener(descriptor: Int32)
  /// The server was started before.
  case alreadyStarted

  init(_ path: String, _ failure: SocketFile.Failure) {
    self =
      switch failure {
      case .pathTooLong(let limit): .pathTooLong(path: path, limit: limit)
      case .inUse: .inUse(path: path)
      case .notASocket: .notASocket(path: path)
      case .unsafeFolder(let folder, let detail): .unsafeFolder(path: folder, detail: detail)
      case .failed(let path, let call, let code): .cannotServe(path: path, call: call, code: code)
      }
  }

  public var description: String {
    switch self {
    case .pathTooLong(let path, let limit):
      "the socket path \(path) has \(path.utf8.count) bytes, \(limit) are possible: configure a shorter one"
    case .inUse(let path):
      "another server answers at \(path): stop it first, or configure another socket path"
    case .notASocket(let path):
      "\(path) exists and is not a socket: move it away, or configure another socket path"
    case .unsafeFolder(let path, let detail):
      "the folder \(path) is not safe for a socket: \(detail)"
    case .cannotServe(let path, let call, let code):
      "cannot serve \(path): \(call): \(String(cString: strerror(code)))"
    case .notAListener(let descriptor):
      "the inherited descriptor \(descriptor) is not a listening Unix stream socket"
    case .alreadyStarted:
      "the socket server was started before"
    }
  }

  public var hint: String {
    switch self {
    case .unsafeFolder(let path, _):
      "Make grantd's user the owner of \(path) with mode 0755 or stricter, or set another socket path."
    case .inUse: "`grantctl status` asks the existing broker; --socket names another one."
    case .cannotServe(_, let call, ENOENT) where call.hasPrefix("mkdir "):
      "Its parent folder does not exist. Without a login session, set XDG_RUNTIME_DIR to a private folder."
    case .pathTooLong, .notASocket, .cannotServe: "Set another path by --socket, or by `path` in [socket]."
    case .notAListener: "The unit that starts grantd has to pass stream sockets (`ListenStream=`)."
    case .alreadyStarted: "This is a fault of grantd."
    }
  }

  /// Trying again changes nothing.
  public var isConfiguration: Bool {
    switch self {
    case .pathTooLong, .notASocket, .unsafeFolder, .notAListener: true
    case .inUse, .cannotServe, .alreadyStarted: false
    }
  }
}
