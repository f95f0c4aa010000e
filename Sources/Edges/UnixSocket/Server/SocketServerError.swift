import Glibc
public import Listening

/// Why the socket cannot be served. The message says what to do.
public enum SocketServerError: Error, Equatable, CustomStringConvertible {
  /// The socket of this path cannot be bound.
  case file(path: String, SocketFile.Failure)
  /// An inherited descriptor is not a listening Unix stream socket.
  case notAListener(descriptor: Int32)
  /// The server was started before.
  case alreadyStarted

  static func cannotServe(path: String, call: String, code: Int32) -> SocketServerError {
    .file(path: path, .failed(path: path, call: call, code: code))
  }

  public var description: String {
    switch self {
    case .file(let path, .pathTooLong(let limit)):
      "the socket path \(path) has \(path.utf8.count) bytes, \(limit) are possible: configure a shorter one"
    case .file(let path, .inUse):
      "another server answers at \(path): stop it first, or configure another socket path"
    case .file(let path, .notASocket):
      "\(path) exists and is not a socket: move it away, or configure another socket path"
    case .file(_, .unsafeFolder(let path, let detail)):
      "the folder \(path) is not safe for a socket: \(detail)"
    case .file(_, .failed(let path, let call, let code)):
      "cannot serve \(path): \(call): \(String(cString: strerror(code)))"
    case .notAListener(let descriptor):
      "the inherited descriptor \(descriptor) is not a listening Unix stream socket"
    case .alreadyStarted:
      "the socket server was started before"
    }
  }

  public var hint: String {
    switch self {
    case .file(_, .unsafeFolder(let path, _)):
      "Make grantd's user the owner of \(path) with mode 0755 or stricter, or set another socket path."
    case .file(_, .inUse): "`grantctl status` asks the existing broker; --socket names another one."
    case .file(_, .failed(_, let call, ENOENT)) where call.hasPrefix("mkdir "):
      "Its parent folder does not exist. Without a login session, set XDG_RUNTIME_DIR to a private folder."
    case .file(_, .pathTooLong), .file(_, .notASocket), .file(_, .failed):
      "Set another path by --socket, or by `path` in [socket]."
    case .notAListener: "The unit that starts grantd has to pass stream sockets (`ListenStream=`)."
    case .alreadyStarted: "This is a fault of grantd."
    }
  }

  /// Trying again changes nothing.
  public var isConfiguration: Bool {
    switch self {
    case .file(_, .pathTooLong), .file(_, .notASocket), .file(_, .unsafeFolder), .notAListener: true
    case .file(_, .inUse), .file(_, .failed), .alreadyStarted: false
    }
  }
}
