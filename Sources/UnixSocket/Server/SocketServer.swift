public import BrokerAPI
import Glibc
public import Logging
public import NIOCore
import NIOPosix
import Synchronization

/// The broker's socket: JSON-RPC 2.0, one JSON text per line, for the callers that the kernel identifies.
public final class SocketServer: Sendable {
  public struct Configuration: Sendable {
    public enum Endpoint: Sendable, Equatable {
      /// Bind here. The file is removed at the end, unless the socket is kept (``SocketKeeper``).
      case path(String)
      /// Descriptors of listening sockets from the service manager; their files are never removed.
      case inherited([Int32])
    }

    public var endpoint: Endpoint
    /// The socket file's permissions: who may connect. 0600 for one user, 0666 where the policy decides.
    public var mode: UInt32
    /// The permissions of the folder, where it has to be made.
    public var folderMode: UInt32
    public var limits: Limits
    /// Holds the socket of a `.path` over a restart; nil: nobody does.
    public var keeper: SocketKeeper?

    public init(endpoint: Endpoint, mode: UInt32 = 0o600, folderMode: UInt32 = 0o700, limits: Limits = Limits()) {
      self.endpoint = endpoint
      self.mode = mode
      self.folderMode = folderMode
      self.limits = limits
    }
  }

  private struct State {
    var hasStarted = false
    var sockets: [ListeningSocket] = []
    var channels: [any Channel] = []
    var tick: RepeatedTask?
  }

  /// Connections accepted in one turn of the loop, so that a rush of new clients does not keep the others waiting.
  private static let acceptsPerTurn: UInt = 16
  /// A drain looks so often whether all is done: rare enough to cost nothing, and nothing on the way of a request.
  private static let drainStep = Duration.milliseconds(5)
  /// For the request of a client that was connected the moment before the end.
  private static let firstWordsGrace = Duration.milliseconds(250)
  /// So often the loops look for connections that nobody has accepted yet, before a socket is closed.
  private static let acceptTurns = 8
  /// For the `shutting_down` answers to be written, after a drain's deadline.
  private static let drainGrace = Duration.milliseconds(250)

  private let configuration: Configuration
  private let dispatcher: any Dispatcher
  private let group: any EventLoopGroup
  private let logger: Logger
  private let table: ConnectionTable
  private let state = Mutex(State())

  /// Each connection stays on one loop of the group; a group of one thread is enough.
  public init(
    configuration: Configuration, dispatcher: any Dispatcher, group: any EventLoopGroup, logger: Logger
  ) {
    self.configuration = configuration
    self.dispatcher = dispatcher
    self.group = group
    self.logger = logger
    table = ConnectionTable(limits: configuration.limits)
  }

  /// The loops that serve, for the watchdog.
  public var eventLoops: [any EventLoop] { group.makeIterator().map { $0 } }

  /// Open connections, and closed ones whose requests still run.
  public var connectionCount: Int { table.count }

  /// What the socket has seen so far.
  public struct Figures: Sendable, Equatable {
    /// Open connections, and closed ones whose requests still run.
    public var connections: Int
    public var accepted: UInt64
    /// For want of a place: too many were open, in all or of one user.
    public var refused: UInt64
  }

  public var figures: Figures { table.figures }

  /// Binds, and returns when the socket answers.
  public func start() async throws(SocketServerError) {
    let isFirst = state.withLock { state in
      defer { state.hasStarted = true }
      return !state.hasStarted
    }
    guard isFirst else { throw .alreadyStarted }
    for socket in try listeningSockets() { try await serve(socket) }
    startTicking()
  }

  private func listeningSockets() throws(SocketServerError) -> [ListeningSocket] {
    switch configuration.endpoint {
    case .path(let path):
      let (mode, folderMode) = (configuration.mode, configuration.folderMode)
      return [try .bound(at: path, mode: mode, folderMode: folderMode, keeper: configuration.keeper)]
    case .inherited(let descriptors):
      var sockets: [ListeningSocket] = []
      for descriptor in descriptors { sockets.append(try .inherited(descriptor)) }
      return sockets
    }
  }

  private func serve(_ socket: ListeningSocket) async throws(SocketServerError) {
    let (dispatcher, table, limits, logger) = (dispatcher, table, configuration.limits, logger)
    let marks = ChannelOptions.Types.WriteBufferWaterMark(low: limits.unread / 2, high: limits.unread)
    let bootstrap = ServerBootstrap(group: group)
      .serverChannelOption(.maxMessagesPerRead, value: Self.acceptsPerTurn)
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelOption(.writeBufferWaterMark, value: marks)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(
            ConnectionHandler(dispatcher: dispatcher, table: table, limits: limits, logger: logger))
        }
      }
    do {
      let channel = try await bootstrap.withBoundSocket(socket.descriptor).get()
      // The channel listened with a backlog of its own choice; the last call counts.
      listen(socket.descriptor, limits.backlog)
      let socket = socket.left(with: configuration.keeper)
      state.withLock { state in
        state.sockets.append(socket)
        state.channels.append(channel)
      }
    } catch {
      socket.unlinkFile()
      throw .cannotServe(path: "\(configuration.endpoint)", call: "listen", code: (error as? IOError)?.errnoCode ?? EIO)
    }
  }

  private func startTicking() {
    let interval = TimeAmount(configuration.limits.tick)
    let tick = group.next().scheduleRepeatedTask(initialDelay: interval, delay: interval) { [table, logger] _ in
      let now = NIODeadline.now()
      if let refused = table.untoldRefusals(at: now) { logger.warning("\(refused) more connections were refused") }
      for connection in table.connections { connection.onLoop { $0.tick(now) } }
    }
    state.withLock { $0.tick = tick }
  }

  /// Stops accepting and refuses new requests with `shutting_down`. Requests in flight may finish; those that have not
  /// after `deadline` are answered `shutting_down`. Then every connection is closed. Ends soon after the deadline.
  ///
  /// What a client could send before it learns of the end is answered.
  public func drain(deadline: Duration) async {
    await stopAccepting()
    table.startDraining()
    await wait(atMost: Self.firstWordsGrace) { table in table.connections.allSatisfy(\.hasAsked) }
    await wait(atMost: deadline) { table in table.connections.allSatisfy { $0.running == 0 } }
    for connection in table.connections { connection.pending.answerAll(Answering.shuttingDown) }
    await wait(atMost: Self.drainGrace) { table in table.connections.allSatisfy { $0.running == 0 } }
    for connection in table.connections { connection.onLoop { $0.finish() } }
    await wait(atMost: configuration.limits.linger + Self.drainGrace) { table in table.count == 0 }
    state.withLock { $0.tick.take() }?.cancel()
  }

  private func stopAccepting() async {
    let (channels, sockets) = state.withLock { state in
      defer { (state.channels, state.sockets) = ([], []) }
      return (state.channels, state.sockets)
    }
    // The file first: whoever binds the path next must find it gone, not ours.
    for socket in sockets { socket.unlinkFile() }
    // Clients that connected before that and wait in the kernel's queue are accepted: a closed socket would drop them.
    for _ in 0..<Self.acceptTurns { await haveTurn() }
    for channel in channels { try? await channel.close() }
    // Those that were accepted last are in the table when their loops have had a turn.
    await haveTurn()
  }

  /// Each loop looks at its sockets once.
  private func haveTurn() async {
    for loop in eventLoops { try? await loop.submit {}.get() }
  }

  private func wait(atMost limit: Duration, until done: (ConnectionTable) -> Bool) async {
    let end = NIODeadline.now() + TimeAmount(limit)
    while !done(table), NIODeadline.now() < end { try? await Task.sleep(for: Self.drainStep) }
  }
}
