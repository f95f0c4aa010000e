import CLinux
import Glibc
public import Listening
public import Logging
public import NIOCore
import NIOPosix
public import Principals
import Synchronization

/// The socket for `LoadCredential=` of other units (systemd.exec(5)): the service manager connects for a unit that it
/// starts, and reads to the end. Any other client, and a unit without a value, gets data that systemd refuses, so that
/// no unit starts with an empty credential.
public final class CredentialServer: Sendable {
  /// The limits of a connection.
  public struct Limits: Sendable, Equatable {
    /// Connections at once; the next ones wait in the kernel.
    public var connections = 256
    /// For an answer: shorter than systemd's `DefaultTimeoutStartSec=`, 90 s, so that the log says why.
    public var answer = Duration.seconds(60)
    /// For the manager to read it: longer than 90 s, after which the reader was ended by systemd, since half of a refusal
    /// would be taken for a credential.
    public var write = Duration.seconds(120)
    /// The same for clients other than the manager.
    public var foreignWrite = Duration.seconds(5)
    /// Connections that the kernel keeps before they are accepted.
    public var backlog: Int32 = 512

    public init() {}
  }

  private struct State {
    var sockets: [ListeningSocket] = []
    var channels: [any Channel] = []
    var hasStarted = false
  }

  /// Each is counted before the next one is accepted.
  private static let acceptsPerTurn: UInt = 1
  /// A drain looks so often whether all is done.
  private static let drainStep = Duration.milliseconds(5)
  /// How long refusals may be read at the end.
  private static let drainGrace = Duration.seconds(2)
  private static let mode: UInt32 = 0o600

  private let endpoint: SocketServer.Configuration.Endpoint
  private let folderMode: UInt32
  private let keeper: SocketKeeper?
  private let waiting: Waiting?
  private let judge: Judge
  private let limits: Limits
  private let eventLoop: any EventLoop
  private let source: CredentialSource
  private let onWithheld: @Sendable (CredentialWithheld) -> Void
  private let logger: Logger
  private let table: NIOLoopBoundBox<CredentialConnectionTable>
  private let state = Mutex(State())

  /// - Parameters:
  ///   - folderMode: the permissions of the socket's folder, if it must be made. The socket's own are 0600.
  ///   - keeper: holds the socket of a `.path` across a restart; nil: none.
  ///   - waiting: holds waiting connections in case this process ends abruptly; nil: none.
  ///   - onWithheld: called for each connection that got nothing without the source's knowledge. On the event loop:
  ///     must not block.
  public convenience init(
    endpoint: SocketServer.Configuration.Endpoint, folderMode: UInt32, keeper: SocketKeeper? = nil,
    waiting: Waiting? = nil, manager: Manager, limits: Limits = Limits(), eventLoop: any EventLoop, logger: Logger,
    onWithheld: @escaping @Sendable (CredentialWithheld) -> Void, source: @escaping CredentialSource
  ) {
    let judge: Judge = { name, caller throws(CredentialRefusal) in try manager.request(name, from: caller) }
    self.init(
      endpoint: endpoint, folderMode: folderMode, keeper: keeper, waiting: waiting, judge: judge, limits: limits,
      eventLoop: eventLoop, logger: logger, onWithheld: onWithheld, source: source)
  }

  /// The requested value, if the kernel confirms the client.
  typealias Judge = @Sendable (CredentialName?, Caller) throws(CredentialRefusal) -> CredentialRequest

  init(
    endpoint: SocketServer.Configuration.Endpoint, folderMode: UInt32, keeper: SocketKeeper? = nil,
    waiting: Waiting? = nil, judge: @escaping Judge, limits: Limits, eventLoop: any EventLoop, logger: Logger,
    onWithheld: @escaping @Sendable (CredentialWithheld) -> Void, source: @escaping CredentialSource
  ) {
    self.endpoint = endpoint
    self.folderMode = folderMode
    self.keeper = keeper
    self.waiting = waiting
    self.judge = judge
    self.limits = limits
    self.eventLoop = eventLoop
    self.source = source
    self.onWithheld = onWithheld
    self.logger = logger
    let most = limits.connections
    table = .makeBoxSendingValue(CredentialConnectionTable(limit: most), eventLoop: eventLoop)
  }

  /// Binds, and returns when the socket answers.
  public func start() async throws(SocketServerError) {
    let isFirst = state.withLock { state in
      defer { state.hasStarted = true }
      return !state.hasStarted
    }
    guard isFirst else { throw .alreadyStarted }
    for connection in waiting?.earlier ?? [] { await resume(connection) }
    switch endpoint {
    case .path(let path): try await serve(.bound(at: path, mode: Self.mode, folderMode: folderMode, keeper: keeper))
    case .inherited(let descriptors):
      for descriptor in descriptors { try await serve(.inherited(descriptor)) }
    }
  }

  /// Answers whom the process before left waiting.
  private func resume(_ connection: Waiting.Connection) async {
    let (table, letGo) = (table, connection.letGo)
    let handler = handler
    let bootstrap = ClientBootstrap(group: eventLoop)
      .channelOption(.allowRemoteHalfClosure, value: true)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(handler(table.value, letGo))
        }
      }
    do {
      _ = try await bootstrap.withConnectedSocket(connection.descriptor).get()
    } catch {
      logger.notice("a unit closed the connection for its credential: \(error)")
      letGo()
    }
  }

  /// Makes what serves one connection, on the loop.
  private var handler: @Sendable (CredentialConnectionTable, (@Sendable () -> Void)?) -> CredentialHandler {
    { [judge, source, limits, waiting, onWithheld, logger] table, letGo in
      CredentialHandler(
        .init(judge: judge, source: source, onWithheld: onWithheld), table: table, limits: limits, waiting: waiting,
        letGo: letGo, logger: logger)
    }
  }

  private func serve(_ socket: ListeningSocket) async throws(SocketServerError) {
    let (table, limits, handler, logger) = (table, limits, handler, logger)
    // One loop for all of them: the end reaches each of them.
    let bootstrap = ServerBootstrap(group: eventLoop)
      .serverChannelOption(.maxMessagesPerRead, value: Self.acceptsPerTurn)
      .serverChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers(CredentialGate(table.value), AcceptPause(logger))
        }
      }
      // systemd says at once that it will send nothing.
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(handler(table.value, nil))
        }
      }
    // Closing a descriptor that a client sent may block the loop. Before Linux 6.16 they are accepted: the socket's
    // mode admits only its owner and root.
    _ = clinux_refuse_descriptors(socket.descriptor)
    do {
      let channel = try await bootstrap.withBoundSocket(socket.descriptor).get()
      listen(socket.descriptor, limits.backlog)
      let socket = socket.left(with: keeper)
      state.withLock { state in
        state.sockets.append(socket)
        state.channels.append(channel)
      }
    } catch {
      socket.unlinkFile()
      throw .cannotServe(path: "\(endpoint)", call: "listen", code: (error as? IOError)?.errnoCode ?? EIO)
    }
  }

  /// Accepts no more, waits for pending answers until `deadline` and refuses the others. Unaccepted connections stay
  /// with the socket's holder. Ends soon after the deadline.
  public func drain(deadline: Duration) async {
    let (channels, sockets) = state.withLock { state in
      defer { (state.channels, state.sockets) = ([], []) }
      return (state.channels, state.sockets)
    }
    for socket in sockets { socket.unlinkFile() }
    for channel in channels { try? await channel.close() }
    await wait(atMost: deadline) { !$0.isWaiting }
    await eachConnection { $0.refuse(.stopping) }
    await wait(atMost: Self.drainGrace) { $0.hasEnded }
    await eachConnection { $0.close() }
  }

  /// Until it is so of every connection.
  private func wait(
    atMost limit: Duration, until isDone: @escaping @Sendable (CredentialHandler) -> Bool
  ) async {
    let end = NIODeadline.now() + TimeAmount(limit)
    let table = table
    while NIODeadline.now() < end {
      let areDone = try? await eventLoop.submit { table.value.connections.values.allSatisfy(isDone) }.get()
      guard areDone == false else { return }
      try? await Task.sleep(for: Self.drainStep)
    }
  }

  private func eachConnection(_ action: @escaping @Sendable (CredentialHandler) -> Void) async {
    let table = table
    try? await eventLoop.submit { for connection in table.value.connections.values { action(connection) } }.get()
  }
}
