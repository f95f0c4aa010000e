import Callers
import Glibc
import Listening
public import Logging
public import NIOCore
import NIOHTTP1
public import NIOPosix
import Synchronization

/// HTTP/1.1 for programs and browsers of this machine, on a loopback port or a Unix socket. It asks the kernel for the
/// peer of a connection, and limits input and times; slots and the meaning of requests belong to its application. It is
/// started and stopped once.
public final class HTTPServer: Sendable {
  public struct Limits: Sendable {
    /// The maximum of open connections in total, and of one holder. Root and the broker's own user have separate slots.
    public var connections = 1024
    public var connectionsPerHolder = 256
    /// The part of them that all callers without a rule have together.
    public var unnamedShareOfConnections = 1.0 / 4
    /// Requests of one holder in a second on one event loop. Requests that the application answers at once are not
    /// counted. All callers without a rule have this part of the rate together. Root and the broker's own user have no such limit.
    public var requestsPerSecond = 10_000
    public var unnamedShareOfRequests = 1.0 / 16
    /// Bytes of the request line, with its end.
    public var requestLine = 16 * 1024
    /// Bytes of the request line and all headers.
    public var head = 16 * 1024
    public var headerCount = 100
    /// From the first byte of a request to the end of its head.
    public var headTime = Duration.seconds(10)
    /// For which a connection may be silent between requests.
    public var idle = Duration.seconds(75)
    /// For which a request's body may stop, and a client may read nothing of its answer.
    public var stall = Duration.seconds(30)
    /// How often each event loop checks these times while it has a connection.
    public var timeCheck = Duration.seconds(1)
    /// From the connection's slot to the end of its request's body, with its own time limit; nil: none.
    public var request: Duration?
    /// From the last answer to the connection's end; input is read and dropped during this time.
    public var linger = Duration.seconds(5)
    public var dropped = 16 << 20
    /// Whether a connection is for more than one request.
    public var keepsConnections = true
    /// Connections that the kernel keeps before they are accepted.
    public var backlog: Int32 = 4096
    /// Who may connect to the Unix socket.
    public var mode: UInt32 = 0o660
    /// Requests still running at the stop are cut off after this time.
    public var stop = Duration.seconds(5)

    public init() {}

    var places: Budget.Limits {
      Budget.Limits(
        all: connections, perHolder: connectionsPerHolder, unnamedShare: unnamedShareOfConnections, least: 1)
    }

    /// Bytes have limits elsewhere.
    var rates: PaceRates { PaceRates(requests: Double(requestsPerSecond), bytes: 1e18) }
  }

  private struct State {
    var channels: [any Channel] = []
    let connections: NIOLoopBound<Connections>
    /// Copies that the keeper has: port and family.
    var kept: [(Int, String)] = []
  }

  /// The units of all servers' callers.
  static let groups = ControlGroups()

  /// Nil: the listening sockets belong to another part.
  private let address: LocalListener?
  private let limits: Limits
  /// That of the listening socket and of the places.
  private let loop: any EventLoop
  /// Those that serve the connections.
  private let loops: [any EventLoop]
  private let group: any EventLoopGroup
  private let logger: Logger
  private let application: any HTTPApplication
  private let state = Mutex<State?>(nil)
  private let keeper: SocketKeeper?
  private let socketFile = SocketFile()

  /// - Parameters:
  ///   - address: nil: ``bootstrap()`` makes the listening sockets.
  ///   - keeper: holds the sockets of a loopback port over a restart; nil: they are not held.
  ///   - group: its loops serve the connections. It has to be a NIOPosix group, and outlives the server.
  public init(
    address: LocalListener?, limits: Limits = Limits(), keeper: SocketKeeper? = nil, group: any EventLoopGroup,
    logger: Logger, application: any HTTPApplication
  ) {
    self.address = address
    self.limits = limits
    self.keeper = keeper
    loop = group.next()
    loops = Array(group.makeIterator())
    self.group = group
    self.logger = logger
    self.application = application
  }

  /// Bytes of a connection that the kernel keeps; it doubles that for their cost.
  private static let receiveBuffer: SocketOptionValue = 128 << 10

  private static let sendBuffer: SocketOptionValue = 256 << 10

  /// Listens, and returns where: `127.0.0.1:7817`, or the path of the socket. A loopback port is had on both addresses.
  public func start() async throws(HTTPServerError) -> String {
    guard let address else { preconditionFailure("the listening sockets belong to another user") }
    if case .loopback = address, (application as? any CallerApplication)?.identifiesCallers == true,
      !LoopbackPeer.isAvailable
    {
      throw HTTPServerError(address: address, code: EAFNOSUPPORT)
    }
    do {
      switch address {
      case .loopback(let host, let port):
        let listeners = try await bindLoopback(host, port)
        return "\(host.contains(":") ? "[\(host)]" : host):\(listeners[0].port)"
      case .unix(let path):
        let channel = try await bind(path, bootstrap())
        state.withLock { $0?.channels = [channel] }
        return path
      }
    } catch let error as HTTPServerError {
      throw error
    } catch let error as IOError {
      throw HTTPServerError(address: address, code: error.errnoCode)
    } catch {
      throw HTTPServerError(address: address, code: EINVAL)
    }
  }

  /// For listening sockets that another part binds, and closes before ``stop()``: connections that they accept are
  /// served. Called once, instead of ``start()``.
  public func bootstrap() async throws -> ServerBootstrap {
    var served: [ObjectIdentifier: NIOLoopBound<ServedConnections>] = [:]
    for loop in loops {
      served[ObjectIdentifier(loop)] = try await loop.submit { [limits, application] in
        NIOLoopBound(ServedConnections(limits, application.checks, loop: loop), eventLoop: loop)
      }.get()
    }
    let connections = try await loop.submit { [limits, application, logger, loop, served] in
      NIOLoopBound(Connections(limits, application, logger, loop: loop, served: served), eventLoop: loop)
    }.get()
    state.withLock { $0 = State(connections: connections) }
    let groups = if case .unix = address { Self.groups } else { nil as ControlGroups? }
    return ServerBootstrap(group: loop, childGroup: group)
      .serverChannelOption(.backlog, value: limits.backlog)
      // The kernel's part of the held bytes: when a client ends its side, NIO reads all of it at once.
      .serverChannelOption(.socketOption(.so_rcvbuf), value: Self.receiveBuffer)
      // The kernel tells that there is room when a third of it is free: a slow reader has the time of a stall for that.
      .serverChannelOption(.socketOption(.so_sndbuf), value: Self.sendBuffer)
      // Small, so that many connections of one user do not delay the loop. The kernel's queue does not separate users.
      .serverChannelOption(.maxMessagesPerRead, value: 16)
      .serverChannelInitializer { [logger] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(AcceptPause(logger))
        }
      }
      .childChannelInitializer { [loop, limits, served] channel in
        channel.eventLoop.makeCompletedFuture {
          guard let served = served[ObjectIdentifier(channel.eventLoop)] else {
            throw ChannelError.operationUnsupported
          }
          try channel.pipeline.syncOperations.addHandler(IncomingBytes(limits))
          return HTTPConnection(channel, groups, served)
        }.map { (connection: HTTPConnection) in
          // On the same loop at once: nothing is gained by another turn.
          if loop.inEventLoop { return connections.value.accept(connection) }
          loop.execute { connections.value.accept(connection) }
        }
      }
      // No more than one read waits behind a request.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      // Nothing is read before its caller is known.
      .childChannelOption(.autoRead, value: false)
      // A client may end its side once it has asked.
      .childChannelOption(.allowRemoteHalfClosure, value: true)
  }

  private func bindLoopback(_ host: String, _ port: Int) async throws -> [LoopbackBinding.Listener] {
    let bootstrap = try await bootstrap().serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
    let listeners = try await LoopbackBinding(
      bootstrap: bootstrap, keeper: keeper, backlog: limits.backlog
    ).bind(host, port)
    state.withLock { $0?.channels = listeners.map(\.channel) }
    for listener in listeners where try await isKept(listener) {
      state.withLock { $0?.kept.append((listener.port, listener.family)) }
    }
    return listeners
  }

  private func isKept(_ listener: LoopbackBinding.Listener) async throws -> Bool {
    guard let keeper else { return false }
    return try await loop.submit {
      try listener.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
        keeper.keep($0, listener.port, listener.family)
      } ?? false
    }.get()
  }

  private func bind(_ path: String, _ bootstrap: ServerBootstrap) async throws -> any Channel {
    try checkFolder(of: path)
    try await SocketFile.removeStale(path, on: loop)
    let descriptor = try socketFile.bind(path, mode: limits.mode)
    do {
      // NIO removes no file that it did not make: by the time of the end another program may have bound the path.
      return try await bootstrap.listening(on: descriptor, backlog: limits.backlog)
    } catch {
      socketFile.remove()
      throw error
    }
  }

  private func checkFolder(of path: String) throws(HTTPServerError) {
    let end = path.lastIndex(of: "/") ?? path.startIndex
    let folder = end == path.startIndex ? "/" : String(path[..<end])
    do throws(SocketFolder.Failure) {
      try SocketFolder.check(folder)
    } catch {
      switch error {
      case .unreadable(let code): throw HTTPServerError(address: .unix(path: path), code: code)
      case .unsafe(let why):
        throw HTTPServerError(
          address: .unix(path: path), code: EPERM, detail: "the folder \(folder) is not safe: \(why)")
      }
    }
  }

  /// Listens no more at this address: no other process will either.
  public func retire() async {
    for (port, family) in state.withLock({ $0?.kept ?? [] }) { keeper?.forget(port, family) }
    await stop()
  }

  /// Listens no more. Requests under way have ``Limits/stop`` to be answered, and no more than this.
  public func stop(within most: Duration? = nil) async {
    guard let state = state.withLock({ $0.take() }) else { return }
    let limit = most.map { min($0, limits.stop) } ?? limits.stop
    for channel in state.channels { try? await channel.close() }
    socketFile.remove()
    try? await loop.flatSubmit { state.connections.value.stop(within: limit) }.get()
  }
}

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
