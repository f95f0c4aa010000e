public import Broker
import HTTPServer
public import Listening
public import Logging
public import NIOCore
import NIOPosix
import Synchronization

/// The redirection endpoint on the loopback interface (RFC 6749 §3.1.2, RFC 8252 §7.3).
///
/// It listens on the literals 127.0.0.1 and ::1, on one port, and answers nothing but the configured paths. All of it
/// runs on one event loop. It is started once and stopped once.
public final class CallbackListener: Sendable {
  private enum State {
    case idle
    case starting
    case listening(Listening)
    case stopped
  }

  private struct Listening {
    var port: Int
    var addresses: [String]
    var warnings: [String]
    var sockets: [any Channel]
    /// The names of the sockets that the keeper has.
    var kept: [String] = []
    var places: NIOLoopBound<BrowserConnectionLimits>
    var server: HTTPServer
  }

  private let configuration: Configuration
  private let loop: any EventLoop
  private let paths: Paths
  private let handler: any CallbackHandler
  private let keeper: SocketKeeper?
  private let users: PeerUsers
  private let logger: Logger
  private let state = Mutex(State.idle)

  /// - Parameters:
  ///   - group: one of its loops is used. It must be a NIOPosix group, and outlive the listener.
  ///   - keeper: holds the sockets across a restart; nil: none.
  ///   - users: identifies the user of a connection's browser.
  public init(
    configuration: Configuration, handler: any CallbackHandler, group: any EventLoopGroup, keeper: SocketKeeper? = nil,
    users: PeerUsers = PeerUsers(), logger: Logger
  ) {
    self.configuration = configuration
    self.handler = handler
    self.keeper = keeper
    self.users = users
    self.logger = logger
    loop = group.next()
    paths = Paths(configuration.paths, publicSite: configuration.publicSite)
  }

  /// The port of every address, once started.
  public var port: Int? { listening?.port }

  /// Its addresses, as in a URL: `127.0.0.1:8400`, `[::1]:8400`. Empty before the start and after the end.
  public var addresses: [String] { listening?.addresses ?? [] }

  /// Warnings of a successful start, such as a missing address family.
  public var warnings: [String] { listening?.warnings ?? [] }

  /// Serves these paths from now on, instead of the earlier ones. Requests in progress are not affected.
  public func update(paths: [String], publicSite: PublicSite? = nil) {
    self.paths.replace(by: paths, publicSite: publicSite)
  }

  /// Listens. When it throws, nothing is left open.
  public func start() async throws(CallbackListenerError) {
    let isIdle = state.withLock { state in
      guard case .idle = state else { return false }
      state = .starting
      return true
    }
    guard isIdle else { throw .notIdle }
    let (server, bootstrap, places) = await served()
    let bound: Binding.Result
    do throws(CallbackListenerError) {
      bound = try await Binding(configuration: configuration, bootstrap: bootstrap, keeper: keeper).bind()
    } catch {
      state.withLock { $0 = .stopped }
      throw error
    }
    let listening = Listening(
      port: bound.port, addresses: bound.addresses, warnings: bound.warnings, sockets: bound.sockets,
      kept: await kept(bound), places: places, server: server)
    let wasStopped = state.withLock { state in
      guard case .starting = state else { return true }
      state = .listening(listening)
      return false
    }
    if wasStopped {
      await close(listening)
      throw .notIdle
    }
    if users.kernel == nil {
      logger.notice("this kernel has no inet_diag: the users of browsers are read from /proc/self/net/tcp")
    }
    logger.debug("callback endpoint listens", metadata: ["addresses": "\(bound.addresses.joined(separator: " "))"])
  }

  /// Accepts no more connections if the sockets are held: later clients wait for the next process. Earlier ones may
  /// still send a request; returns after that, or after `Limits.firstWords`. Without held sockets nothing changes, as
  /// later clients would be refused.
  public func standBack() async {
    let taken: Listening? = state.withLock { state in
      guard case .listening(var listening) = state, !listening.kept.isEmpty,
        listening.kept.count == listening.sockets.count
      else { return nil }
      defer { state = .listening(listening) }
      let taken = listening
      listening.sockets = []
      return taken
    }
    guard let taken else { return }
    for socket in taken.sockets { try? await socket.close().get() }
    let grace = try? await loop.submit { taken.places.value.grace() }.get()
    if let grace, grace > .zero { try? await Task.sleep(for: .nanoseconds(grace.nanoseconds)) }
  }

  /// Stops listening permanently: the sockets are no longer held.
  public func retire() async {
    if let listening { for name in listening.kept { keeper?.remove(name) } }
    await stop()
  }

  /// Stops listening, ends idle connections, and gives those whose handler is at work `Limits.stop` to be answered.
  public func stop() async {
    let listening = state.withLock { state in
      defer { state = .stopped }
      if case .listening(let listening) = state { return listening as Listening? }
      return nil
    }
    if let listening { await close(listening) }
  }

  /// Leaves a copy of each socket with the keeper, and returns their names.
  private func kept(_ bound: Binding.Result) async -> [String] {
    guard let keeper else { return [] }
    var kept: [String] = []
    for (socket, name) in zip(bound.sockets, bound.families.map { $0.socketName(bound.port) }) {
      let taken = try? await loop.submit {
        try socket.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
          keeper.keep($0, name)
        } ?? false
      }.get()
      if taken ?? false { kept.append(name) }
    }
    return kept
  }

  private var listening: Listening? {
    state.withLock { state in
      if case .listening(let listening) = state { listening } else { nil }
    }
  }

  private func close(_ listening: Listening) async {
    for socket in listening.sockets {
      // It fails only when the socket is closed already.
      try? await socket.close().get()
    }
    await listening.server.stop()
  }

  /// What serves the connections: one loop.
  private func served() async -> (HTTPServer, ServerBootstrap, NIOLoopBound<BrowserConnectionLimits>) {
    let context = CallbackWork.Context(
      configuration: configuration, paths: paths, handler: handler, users: users, logger: logger)
    do {
      // The box may be made on any thread; its content is used only on the loop.
      let places = try await loop.submit { [loop] in
        NIOLoopBound(BrowserConnectionLimits(context, on: loop), eventLoop: loop)
      }.get()
      let server = HTTPServer(
        address: nil, limits: .init(configuration.limits), group: loop, logger: logger,
        application: CallbackApplication(places: places))
      let bootstrap = try await server.bootstrap()
        // A fixed port can be had again while old connections are in TIME_WAIT. On Linux it does not let two listen.
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      return (server, bootstrap, places)
    } catch {
      preconditionFailure("the event loop of the callback endpoint was shut down")
    }
  }
}

extension HTTPServer.Limits {
  init(_ limits: CallbackListener.Limits) {
    self.init()
    requestLine = limits.requestLine
    head = limits.headers
    headerCount = limits.headerCount
    request = limits.request
    (idle, headTime, stall) = (limits.request, limits.request, limits.request)
    linger = limits.linger
    dropped = limits.dropped
    stop = limits.stop
    // Browsers open connections in advance: a kept one would use a slot without need.
    keepsConnections = false
  }
}
