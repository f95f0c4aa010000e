import CLinux
import Callers
import Glibc
public import Listening
public import Logging
public import NIOCore
import NIOHTTP1
import NIOPosix
import Principals
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
    /// Connections in a second of one user, with all units and subordinate user ids; twice as many after a pause. Beyond it
    /// they are closed at once. Root and the broker's own user have no such limit.
    public var connectsPerSecond = 2_000
    /// The same for callers without a rule.
    public var unnamedConnectsPerSecond = 100
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

  struct State {
    var acceptor: Acceptor?
    let connections: NIOLoopBound<Connections>
    /// The names of the copies that the keeper has.
    var kept: [String] = []
  }

  /// The units of all servers' callers.
  static let groups = ControlGroups()

  /// Nil: the listening sockets belong to another part.
  private let address: LocalListener?
  let limits: Limits
  /// That of the listening socket and of the places.
  let loop: any EventLoop
  /// Those that serve the connections.
  let loops: [any EventLoop]
  let group: any EventLoopGroup
  let logger: Logger
  let application: any HTTPApplication
  let state = Mutex<State?>(nil)
  private let keeper: SocketKeeper?
  private let socketFile = Mutex<SocketFile?>(nil)

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
        let bound = try LoopbackBinding(keeper: keeper, backlog: limits.backlog, setUp: Self.setUp).bind(host, port)
        try await accept(bound.map { Acceptor.Listener(descriptor: $0.descriptor, address: $0.address) })
        for one in bound where keeper?.keep(one.descriptor, one.name) == true {
          state.withLock { $0?.kept.append(one.name) }
        }
        return "\(host.contains(":") ? "[\(host)]" : host):\(bound[0].port)"
      case .unix(let path):
        let (descriptor, file) = try SocketFile.bind(path, mode: limits.mode)
        socketFile.withLock { $0 = file }
        Self.setUp(descriptor)
        refuseDescriptors(descriptor, path)
        _ = listen(descriptor, limits.backlog)
        try await accept([Acceptor.Listener(descriptor: descriptor, address: nil)])
        return path
      }
    } catch let error as HTTPServerError {
      throw error
    } catch let error as SocketFile.Failure {
      throw HTTPServerError(address, error)
    } catch let error as SystemError {
      removeFile()
      throw HTTPServerError(address: address, code: error.code)
    } catch {
      throw HTTPServerError(address: address, code: EINVAL)
    }
  }

  /// A thread that reads or closes a connection also closes the descriptors that the client has sent. That takes as long
  /// as the client wants, and delays all other connections. Called before listen(2).
  private func refuseDescriptors(_ descriptor: Int32, _ path: String) {
    // Only root and the broker's own user can connect to a socket without these modes.
    guard clinux_refuse_descriptors(descriptor) != 0, limits.mode & 0o066 != 0 else { return }
    logger.warning(
      "this kernel lets any client of \(path) send descriptors, and so delay all HTTP connections",
      metadata: ["hint": "Use Linux 6.16 or later, or serve a port instead of a Unix socket to other users."])
  }

  private func removeFile() { socketFile.withLock { $0.take() }?.remove() }

  /// Listens no more at this address: no other process will either.
  public func retire() async {
    for name in state.withLock({ $0?.kept ?? [] }) { keeper?.remove(name) }
    await stop()
  }

  /// Listens no more. Requests under way have ``Limits/stop`` to be answered, and no more than this.
  public func stop(within most: Duration? = nil) async {
    guard let state = state.withLock({ $0.take() }) else { return }
    let limit = most.map { min($0, limits.stop) } ?? limits.stop
    await state.acceptor?.stop()
    removeFile()
    try? await loop.flatSubmit { state.connections.value.stop(within: limit) }.get()
  }
}
