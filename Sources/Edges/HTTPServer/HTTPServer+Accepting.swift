import Callers
import Glibc
import Listening
import NIOCore
public import NIOPosix
import Synchronization

// From accept(2) to the connection's place.
extension HTTPServer {
  /// Bytes of a connection that the kernel keeps; it doubles that for their cost.
  private static let receiveBuffer = 128 << 10

  private static let sendBuffer = 256 << 10

  /// For listening sockets that another part binds, and closes before ``stop()``: connections that they accept are
  /// served. Called once, instead of ``start()``.
  public func bootstrap() async throws -> ServerBootstrap {
    let (served, connections) = try await serving()
    return ServerBootstrap(group: loop, childGroup: group)
      .serverChannelOption(.backlog, value: limits.backlog)
      // The kernel's part of the held bytes: when a client ends its side, NIO reads all of it at once.
      .serverChannelOption(.socketOption(.so_rcvbuf), value: SocketOptionValue(Self.receiveBuffer))
      // The kernel tells that there is room when a third of it is free: a slow reader has the time of a stall for that.
      .serverChannelOption(.socketOption(.so_sndbuf), value: SocketOptionValue(Self.sendBuffer))
      // Small, so that many connections of one user do not delay the loop. The kernel's queue does not separate users.
      .serverChannelOption(.maxMessagesPerRead, value: 16)
      .serverChannelInitializer { [logger] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(AcceptPause(logger))
        }
      }
      .childChannelInitializer { [loop, limits] channel in
        channel.eventLoop.makeCompletedFuture {
          guard let served = served[ObjectIdentifier(channel.eventLoop)] else {
            throw ChannelError.operationUnsupported
          }
          try channel.pipeline.syncOperations.addHandler(IncomingBytes(limits))
          return HTTPConnection(channel, served)
        }.map { (connection: HTTPConnection) in
          Self.onLoop(loop, connections) { $0.acceptUncounted(connection) }
        }
      }
      // No more than one read waits behind a request.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      // Nothing is read before its caller is known.
      .childChannelOption(.autoRead, value: false)
      // A client may end its side once it has asked.
      .childChannelOption(.allowRemoteHalfClosure, value: true)
  }

  struct SystemError: Error { let code: Int32 }

  /// Accepted connections inherit these options. They limit the kernel's part of the held bytes: when a client ends its
  /// side, NIO reads all of it at once. The kernel reports room when a third of it is free: a slow reader has the time of a
  /// stall for that.
  static func setUp(_ descriptor: Int32) {
    func set(_ level: Int32, _ name: Int32, _ value: Int) {
      var value = Int32(value)
      setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }
    set(SOL_SOCKET, SO_RCVBUF, receiveBuffer)
    set(SOL_SOCKET, SO_SNDBUF, sendBuffer)
    // No effect on a Unix socket.
    set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
  }

  /// Serves the connections of sockets that listen.
  func accept(_ listeners: [Acceptor.Listener]) async throws {
    let (served, connections) = try await serving()
    let refused = RefusedCallers()
    let (group, limits, loop) = (group, limits, loop)
    let acceptor = try Acceptor(
      listeners, Admission(application, limits, Self.groups, refused, logger), on: loop, logger
    ) { accepted in
      let next = group.next()
      guard let served = served[ObjectIdentifier(next)], let bootstrap = ClientBootstrap(validatingGroup: next) else {
        preconditionFailure("a NIOPosix group")
      }
      bootstrap.channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(IncomingBytes(limits))
        }
      }
      .channelOption(.maxMessagesPerRead, value: 1)
      .channelOption(.autoRead, value: false)
      .channelOption(.allowRemoteHalfClosure, value: true)
      .withConnectedSocket(accepted.descriptor).whenSuccess { channel in
        let connection = HTTPConnection(channel, accepted.origin, served, refused)
        Self.onLoop(loop, connections) { $0.accept(connection) }
      }
    }
    state.withLock { $0?.acceptor = acceptor }
  }

  private typealias Served = [ObjectIdentifier: NIOLoopBound<ServedConnections>]

  private func serving() async throws -> (Served, NIOLoopBound<Connections>) {
    var served: Served = [:]
    for loop in loops {
      served[ObjectIdentifier(loop)] = try await loop.submit { [limits, application] in
        NIOLoopBound(ServedConnections(limits, application.checks, loop: loop), eventLoop: loop)
      }.get()
    }
    let connections = try await loop.submit { [limits, application, logger, loop, served] in
      NIOLoopBound(Connections(limits, application, logger, loop: loop, served: served), eventLoop: loop)
    }.get()
    state.withLock { $0 = State(connections: connections) }
    return (served, connections)
  }

  private static func onLoop(
    _ loop: any EventLoop, _ connections: NIOLoopBound<Connections>, _ action: @escaping @Sendable (Connections) -> Void
  ) {
    // On the same loop at once: nothing is gained by another turn.
    if loop.inEventLoop { return action(connections.value) }
    loop.execute { action(connections.value) }
  }
}
