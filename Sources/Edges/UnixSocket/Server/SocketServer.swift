import Glibc
public import Listening
public import Logging
import NIOCore
public import Principals
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
    /// The permissions of the folder, if it must be made.
    public var folderMode: UInt32
    public var limits: Limits
    /// Holds the socket of a `.path` across a restart; nil: none.
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
    var loop: LoopInbox?
  }

  /// A drain looks so often whether all is done: rare enough to cost nothing, and nothing on the way of a request.
  private static let drainStep = Duration.milliseconds(5)
  /// For the request of a client that was connected the moment before the end.
  private static let firstWordsGrace = Duration.milliseconds(250)
  /// The maximum number of iterations in which the loop accepts waiting connections, before a socket is closed.
  private static let acceptTurns = 64
  /// For the `shutting_down` answers to be written, after a drain's deadline.
  private static let drainGrace = Duration.milliseconds(250)

  private let configuration: Configuration
  private let load: Load
  private let shared: ConnectionHandler.Shared
  private let state = Mutex(State())

  /// - Parameter load: made with the limits of the configuration; nil: no other part reads it.
  public convenience init(
    configuration: Configuration, dispatcher: any Dispatcher, load: Load? = nil, logger: Logger
  ) {
    self.init(configuration: configuration, dispatcher: dispatcher, load: load, logger: logger, system: SystemCalls())
  }

  init(
    configuration: Configuration, dispatcher: any Dispatcher, load: Load? = nil, logger: Logger, system: SystemCalls
  ) {
    let load = load ?? Load(limits: configuration.limits)
    self.configuration = configuration
    self.load = load
    shared = ConnectionHandler.Shared(
      dispatcher: dispatcher, load: load, limits: configuration.limits, logger: logger, system: system)
  }

  /// The thread ends with the server.
  deinit {
    state.withLock { $0.loop }?.add { $0.end() }
  }

  /// Files that this process may have open (`RLIMIT_NOFILE`).
  public static var descriptorLimit: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
    return Int(clamping: limit.rlim_cur)
  }

  /// Descriptors that no connection gets, for refreshes, the store and the log: a quarter, but 32 to 256.
  static var keptBackDescriptors: Int { min(max(descriptorLimit / 4, 32), 256) }

  /// Connections for which there are descriptors.
  public static var connectionsWithDescriptors: Int { max(0, descriptorLimit - keptBackDescriptors) }

  /// The same for other users than root and the broker's own.
  public static var connectionsOfUsersWithDescriptors: Int {
    Int(AcceptPace(lastDescriptor: Int32(clamping: connectionsWithDescriptors)).lastOfUsers)
  }

  private var table: ConnectionTable { shared.table }

  /// Open connections, and closed ones whose requests still run; for tests.
  public var connectionCount: Int { table.count }

  /// For tests.
  var statistics: SocketStatistics { load.statistics }

  /// Binds, and returns when the socket answers.
  public func start() async throws(SocketServerError) {
    let isFirst = state.withLock { state in
      defer { state.hasStarted = true }
      return !state.hasStarted
    }
    guard isFirst else { throw .alreadyStarted }
    let loop = try startLoop()
    for socket in try listeningSockets() { try await serve(socket, on: loop) }
  }

  private func startLoop() throws(SocketServerError) -> LoopInbox {
    let shared = shared
    do throws(SocketLoop.Failure) {
      let loop = try SocketLoop.start(shared)
      state.withLock { $0.loop = loop }
      let interval = TimeAmount(configuration.limits.tick)
      loop.add { loop in
        loop.timers.add(at: .now() + interval, every: interval) { Self.tick($0, shared) }
      }
      return loop
    } catch {
      throw .cannotServe(path: "\(configuration.endpoint)", call: error.call, code: error.code)
    }
  }

  private static func tick(_ loop: SocketLoop, _ shared: ConnectionHandler.Shared) {
    let now = NIODeadline.now()
    if let refused = shared.table.untoldRefusals(at: now) {
      shared.logger.warning("\(refused) more connections were refused")
    }
    for connection in loop.open.all { connection.tick(now) }
    loop.rates.requests.removeIdle(at: now)
    loop.rates.connects.removeIdle(at: now)
    // The last answer may have been a token.
    loop.buffers.wipe()
  }

  /// Runs `action` now and after each `interval`, on the loop that serves: where that hangs, it does not run. For a
  /// watchdog. Nothing runs before the start.
  public func repeating(every interval: Duration, _ action: @escaping @Sendable () -> Void) -> Repetition {
    let repetition = Repetition(action)
    let pause = TimeAmount(interval)
    state.withLock { $0.loop }?.add { loop in
      loop.timers.add(at: .now(), every: pause) { _ in repetition.run() }
    }
    return repetition
  }

  /// Runs until it is cancelled, or the server ends.
  public final class Repetition: Sendable {
    private let action: @Sendable () -> Void
    private let isCancelled = Atomic(false)

    fileprivate init(_ action: @escaping @Sendable () -> Void) { self.action = action }

    public func cancel() { isCancelled.store(true, ordering: .relaxed) }
    fileprivate func run() { if !isCancelled.load(ordering: .relaxed) { action() } }
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

  private func serve(_ socket: ListeningSocket, on loop: LoopInbox) async throws(SocketServerError) {
    let descriptor = socket.descriptor
    // One that was inherited may be as its unit made it.
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    var code = Glibc.listen(descriptor, configuration.limits.backlog) == 0 ? 0 : errno
    if code == 0 { code = await loop.run { $0.listen(on: descriptor) ? 0 : errno } ?? ECANCELED }
    guard code == 0 else {
      socket.unlinkFile()
      close(descriptor)
      throw .cannotServe(path: "\(configuration.endpoint)", call: "listen", code: code)
    }
    let left = socket.left(with: configuration.keeper)
    state.withLock { $0.sockets.append(left) }
  }

  /// Stops accepting and refuses new requests with `shutting_down`. Requests in flight may finish; the others are
  /// answered `shutting_down` after `deadline`. Then every connection is closed. Ends soon after the deadline.
  ///
  /// Input that a client sent before the end is answered.
  public func drain(deadline: Duration) async {
    await stopAccepting()
    table.startDraining()
    await wait(atMost: Self.firstWordsGrace) { table in table.connections.allSatisfy(\.hasAsked) }
    await wait(atMost: deadline) { table in table.connections.allSatisfy { $0.running == 0 } }
    for connection in table.connections { connection.pending.answerAll(Answering.shuttingDown) }
    await wait(atMost: Self.drainGrace) { table in table.connections.allSatisfy { $0.running == 0 } }
    _ = await state.withLock { $0.loop }?.run { loop in for connection in loop.open.all { connection.finish() } }
    await wait(atMost: configuration.limits.linger + Self.drainGrace) { table in table.count == 0 }
  }

  private func stopAccepting() async {
    let (loop, sockets) = state.withLock { state in
      defer { state.sockets = [] }
      return (state.loop, state.sockets)
    }
    // The file first: the next process that binds the path must find it removed.
    for socket in sockets { socket.unlinkFile() }
    // Clients that connected before that and wait in the kernel's queue are accepted: a closed socket would drop them.
    for _ in 0..<Self.acceptTurns {
      guard await loop?.run({ $0.acceptWaiting() }) == true else { break }
    }
    _ = await loop?.run { $0.stopListening() }
  }

  private func wait(atMost limit: Duration, until done: (ConnectionTable) -> Bool) async {
    let end = NIODeadline.now() + TimeAmount(limit)
    while !done(table), NIODeadline.now() < end { try? await Task.sleep(for: Self.drainStep) }
  }
}
