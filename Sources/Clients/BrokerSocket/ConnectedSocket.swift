import CLinux
import Glibc

/// Why there is no connection to a socket.
public enum ConnectFailure: Error, Sendable, Equatable {
  /// Nothing listens there.
  case notRunning
  /// The socket file does not let us in.
  case permissionDenied
  /// Who listens there is another user than the caller expects. Nothing was sent.
  case foreignServer(uid: UInt32)
  /// The server's queue of new connections stayed full.
  case timedOut
  case disconnected
}

/// A connected Unix stream socket whose calls block their thread.
public final class ConnectedSocket: Sendable {
  public let descriptor: Int32

  /// Takes over a socket, and closes it at its end.
  public init(descriptor: Int32) {
    self.descriptor = descriptor
  }

  deinit {
    close(descriptor)
  }

  /// - Parameters:
  ///   - limit: how long the server's queue of new connections may be full, and how long something may take to be sent.
  ///   - isExpected: whether the server may be of this user, as the kernel names them (SO_PEERCRED). Asked before
  ///     anything is sent.
  public static func connect(
    path: String, within limit: Duration, from isExpected: (UInt32) -> Bool
  ) throws(ConnectFailure) -> ConnectedSocket {
    // A path that no socket can have.
    guard let address = SocketAddress(path) else { throw .notRunning }
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw .disconnected }
    let socket = ConnectedSocket(descriptor: descriptor)
    clinux_limit_sending(descriptor, limit.microseconds)
    while !address.connect(descriptor) {
      switch errno {
      case EINTR: continue
      case ENOENT, ECONNREFUSED, ENOTDIR, ENOTSOCK: throw .notRunning
      case EACCES, EPERM: throw .permissionDenied
      case EAGAIN: throw .timedOut
      default: throw .disconnected
      }
    }
    var server = clinux_peer()
    guard clinux_peer_credentials(descriptor, &server) == 0 else { throw .disconnected }
    guard isExpected(server.uid) else { throw .foreignServer(uid: server.uid) }
    return socket
  }

  /// False with `errno`: EAGAIN where it took too long.
  public func send(_ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBytes { bytes in
      var sent = 0
      while sent < bytes.count {
        let count = clinux_send(descriptor, bytes.baseAddress! + sent, bytes.count - sent)
        guard count >= 0 else { return false }
        sent += count
      }
      return true
    }
  }

  /// Ends the connection in both directions. What has arrived can still be received; a call that waits returns.
  public func shutDown() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }

  /// What has arrived; empty at the end of the connection, whatever ended it.
  public func receive(atMost limit: Int) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
      count = max(0, clinux_receive(descriptor, buffer.baseAddress, limit))
    }
  }

  /// How long ``receive(atMost:)`` and ``receiveInTime(atMost:)`` wait. The kernel rounds it up to its clock ticks.
  public func limitReceiving(_ limit: Duration) {
    // A timeval: seconds, microseconds. Its Swift type belongs to a module of the compiler.
    let time = [Int(limit.components.seconds), Int(limit.microseconds % 1_000_000)]
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, time, socklen_t(MemoryLayout<Int>.size * time.count))
  }

  /// Nil if nothing has arrived within the limit; otherwise as ``receive(atMost:)``.
  public func receiveInTime(atMost limit: Int) -> [UInt8]? {
    var isLate = false
    let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
      let received = clinux_receive(descriptor, buffer.baseAddress, limit)
      isLate = received < 0 && errno == EAGAIN
      count = max(0, received)
    }
    return isLate ? nil : bytes
  }

  /// The first line that has arrived, without its newline. It stays to be read. Nil where it has not arrived as a whole in
  /// time, or is longer than so many bytes.
  public func peekLine(atMost limit: Int, within patience: Duration) -> [UInt8]? {
    var left: Duration? = patience
    guard hasInput(within: &left) else { return nil }
    var line = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
      count = max(0, recv(descriptor, buffer.baseAddress, limit, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)))
    }
    guard let end = line.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
    line.removeLast(line.count - end)
    return line
  }

  /// Also true where the other end has hung up. What is left of the time is noted.
  public func hasInput(within left: inout Duration?) -> Bool {
    guard let limit = left else {
      var endless: Int64 = -1
      return clinux_wait_input(descriptor, &endless) != 0
    }
    var microseconds = limit.microseconds
    defer { left = Duration(microseconds: microseconds) }
    return clinux_wait_input(descriptor, &microseconds) != 0
  }
}

extension Duration {
  private static let attosecondsOfMicrosecond: Int64 = 1_000_000_000_000

  /// Without the generic `Duration.microseconds`, whose types are made at run time.
  public init(microseconds: Int64) {
    self.init(
      secondsComponent: microseconds / 1_000_000,
      attosecondsComponent: microseconds % 1_000_000 * Self.attosecondsOfMicrosecond)
  }

  fileprivate var microseconds: Int64 {
    components.seconds * 1_000_000 + components.attoseconds / Self.attosecondsOfMicrosecond
  }
}
