public import BrokerAPI
import BrokerSocket
import Glibc

/// A connection to a broker whose calls block their thread, one call after the other. It needs no event loop and no other
/// thread.
public final class BlockingConnection {
  private static let readAtOnce = 64 * 1024

  private let socket: ConnectedSocket
  private var nextID: Int64 = 1
  private var lines = ReceivedLines()

  private init(_ socket: ConnectedSocket) {
    self.socket = socket
  }

  /// Takes over a connected socket, and closes it at its end.
  public convenience init(descriptor: Int32) {
    self.init(ConnectedSocket(descriptor: descriptor))
  }

  /// - Parameters:
  ///   - limit: how long the broker's queue of new connections may be full, and how long a request may take to be sent.
  ///   - isExpected: whether the server may be of this user, as the kernel names them. Asked before anything is sent.
  public static func connect(
    path: String, within limit: Duration, from isExpected: (UInt32) -> Bool = { _ in true }
  ) throws(SocketClientError) -> BlockingConnection {
    do throws(ConnectFailure) {
      return BlockingConnection(try ConnectedSocket.connect(path: path, within: limit, from: isExpected))
    } catch {
      throw SocketClientError(error, at: path)
    }
  }

  /// Calls a method by its name. Without a limit the broker's own deadline for the method is the only one.
  public func call(
    method: String, params: JSON? = nil, within limit: Duration? = nil
  ) throws(SocketClientError) -> JSON {
    try reply(to: send(method: method, params: params), within: limit)
  }

  /// Sends a request; its id, for ``reply(to:within:)``.
  public func send(method: String, params: JSON? = nil) throws(SocketClientError) -> Int64 {
    let id = nextID
    nextID += 1
    guard socket.send(OutgoingCall(method: method, params: params, id: .number("\(id)")).line()) else {
      throw errno == EAGAIN ? .timedOut : .disconnected
    }
    return id
  }

  /// The answer to the request of that id; notifications and answers to others are skipped. Where it did not come within
  /// the limit it can be awaited again.
  public func reply(to id: Int64, within limit: Duration? = nil) throws(SocketClientError) -> JSON {
    var left = limit
    while true {
      let line = try line(within: &left)
      guard let message = try? ServerMessage.parse(line) else {
        throw .malformed("no JSON-RPC message on the line")
      }
      switch message {
      case .reply(.number(let literal), let result):
        guard Int64(literal) == id else { continue }
        do throws(RPCError) { return try result.get() } catch { throw .rpc(error) }
      // About the connection as a whole: it is refused.
      case .reply(.null, .failure(let error)): throw .rpc(error)
      case .reply, .notification: continue
      }
    }
  }

  private func line(within left: inout Duration?) throws(SocketClientError) -> ArraySlice<UInt8> {
    while true {
      if let line = lines.next() { return line }
      guard !lines.isTooLong else { throw .malformed("no JSON-RPC message on the line") }
      guard socket.hasInput(within: &left) else { throw .timedOut }
      let piece = socket.receive(atMost: Self.readAtOnce)
      guard !piece.isEmpty else { throw .disconnected }
      lines.append(piece)
    }
  }
}
