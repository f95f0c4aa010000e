import Glibc
import Listening

/// The server's address: only on this machine.
public enum LocalListener: Sendable, Equatable {
  /// A loopback literal, without brackets, and a TCP port; 0: the kernel chooses.
  case loopback(host: String, port: Int)
  /// A Unix socket, as a path.
  case unix(path: String)
}

/// Why a server cannot listen.
public struct HTTPServerError: Error, Sendable, Equatable {
  public var address: LocalListener
  /// The errno.
  public var code: Int32
  /// The user who listens there; nil: unknown.
  public var owner: UInt32?
  /// A reason that the code does not name.
  public var detail: String?

  public init(address: LocalListener, code: Int32, owner: UInt32? = nil, detail: String? = nil) {
    self.detail = detail
    self.address = address
    self.code = code
    self.owner = owner
  }

  init(_ address: LocalListener, _ failure: SocketFile.Failure) {
    self.init(address: address, code: 0)
    switch failure {
    case .pathTooLong: code = ENAMETOOLONG
    case .inUse: code = EADDRINUSE
    case .notASocket: code = EEXIST
    case .unsafeFolder(let folder, let why): (code, detail) = (EPERM, "the folder \(folder) is not safe: \(why)")
    case .failed(_, _, let number): code = number
    }
  }

  /// `127.0.0.1:7817: Address already in use`.
  public var place: String {
    switch address {
    case .loopback(let host, let port): "port \(port) of \(host)"
    case .unix(let path): path
    }
  }

  /// The user's next step.
  ///
  /// - Parameter key: the key of the address, such as `[http] listen`.
  public func hint(_ key: String) -> String {
    switch code {
    case EADDRINUSE: "stop the program that has it, or choose another in \(key)"
    case EEXIST: "a file that is not a socket is in the way: move it, or choose another path in \(key)"
    case EACCES, EPERM:
      "choose a port from 1024 up, or a path in a folder of grantd's user or root that no other user may write, in \(key)"
    case EAFNOSUPPORT:
      "this kernel does not identify the peer of a TCP connection (inet_diag): serve only a Unix socket"
    default: "see \(key)"
    }
  }

  public var message: String {
    detail ?? String(cString: strerror(code)) + (owner.map { " by a program of uid \($0)" } ?? "")
  }
}
