public import BrokerAPI
public import BrokerSocket

/// Why a call has no result.
public enum SocketClientError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The broker answered with an error.
  case rpc(RPCError)
  /// Nothing listens at the path.
  case notRunning(String)
  /// The socket file does not let us in.
  case permissionDenied(String)
  /// Who listens there is another user than the caller expects. Nothing was sent.
  case foreignServer(String, uid: UInt32)
  /// The connection ended before the answer; what was asked may have been done.
  case disconnected
  /// No answer in time, or the caller waits no longer.
  case timedOut
  /// What came is no valid answer.
  case malformed(String)

  public init(_ failure: ConnectFailure, at path: String) {
    switch failure {
    case .notRunning: self = .notRunning(path)
    case .permissionDenied: self = .permissionDenied(path)
    case .foreignServer(let uid): self = .foreignServer(path, uid: uid)
    case .timedOut: self = .timedOut
    case .disconnected: self = .disconnected
    }
  }

  public var description: String {
    switch self {
    case .rpc(let error): error.message
    case .notRunning(let path): "no broker answers at \(path)"
    case .permissionDenied(let path): "permission denied: \(path)"
    case .foreignServer(let path, let uid): "the server at \(path) belongs to another user (uid \(uid))"
    case .disconnected: "the broker closed the connection"
    case .timedOut: "the broker did not answer in time"
    case .malformed(let what): "the broker's answer is not valid: \(what)"
    }
  }
}
