import CLinux
import Glibc
import Logging
import NIOCore

/// The thread that serves the socket: accepts, reads, answers what is cached and writes. It alone touches what is here;
/// other threads post to the inbox.
///
/// One thread is enough: a cached token costs it a few microseconds, most of them in the kernel. With a second one each
/// request would need locks.
final class SocketLoop {
  /// A system call without which there is no loop.
  struct Failure: Error {
    var call: String
    var code: Int32
  }

  /// accept4(2) of a listener, with the peer's address and its length.
  typealias Accept = @Sendable (Int32, UnsafeMutablePointer<sockaddr_un>, UnsafeMutablePointer<UInt32>) -> Int32
  typealias MakeHandler = @Sendable (Int32, LoopToken, SocketLoop) -> ConnectionHandler

  /// Connections accepted in one turn, so that a rush of new clients does not keep the others waiting, and those that
  /// ended meanwhile do not count for long.
  static let acceptsPerTurn = 16
  /// Bytes taken of one connection in one turn, and so the lines answered in it.
  static let receivedPerTurn = 64 * 1024
  /// Refused clients that have time to read why; the others are closed at once.
  static let absorbedAtOnce = 64
  /// Between attempts while the process, or the machine, has no descriptor for another connection.
  static let acceptPause = TimeAmount.milliseconds(100)

  let inbox: LoopInbox
  /// From this number on descriptors are for the rest of the process.
  private let lastDescriptor = Int32(clamping: SocketServer.descriptorLimit - SocketServer.keptBackDescriptors)
  private let poller: Poller
  private let acceptOne: Accept
  private let makeHandler: MakeHandler
  private let logger: Logger

  /// By descriptor.
  private var handlers: [ConnectionHandler?] = []
  private var listeners: [Int32] = []
  private var generation: UInt32 = 0
  var timers = Timers()
  private var isEnding = false

  /// How many connections are accepted in this turn. Doubled while more are waiting in each turn, since a call that finds
  /// none is wasted.
  private var accepts = 1
  private var turn: UInt64 = 0
  private var lastAccepting: UInt64 = 0
  private var isAcceptingPaused = false
  private var refusedDescriptors = Refusals()

  /// The last read, of whichever connection. An unfinished line is copied out of it.
  private let received: UnsafeMutableRawBufferPointer
  private var hasReceived = false
  /// Memory for the replies of a turn.
  @exclusivity(unchecked) var spare = ByteBuffer()

  private init(
    accept: @escaping Accept, logger: Logger, makeHandler: @escaping MakeHandler
  ) throws(Failure) {
    inbox = try LoopInbox()
    poller = try Poller()
    acceptOne = accept
    self.logger = logger
    self.makeHandler = makeHandler
    received = .allocate(byteCount: Self.receivedPerTurn, alignment: 16)
    let token = LoopToken(inbox.wakeup, generation: 0)
    guard poller.add(inbox.wakeup, token, for: [.input, .edge]) else { throw Failure(call: "epoll_ctl", code: errno) }
  }

  deinit {
    wipe()
    received.deallocate()
  }

  /// Starts a thread that runs until ``end()``.
  static func start(
    accept: @escaping Accept, logger: Logger, makeHandler: @escaping MakeHandler
  ) throws(Failure) -> LoopInbox {
    let loop = try SocketLoop(accept: accept, logger: logger, makeHandler: makeHandler)
    let inbox = loop.inbox
    let pointer = Unmanaged.passRetained(loop).toOpaque()
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { pointer in
        guard let pointer else { return nil }
        _ = clinux_name_thread("socket")
        Unmanaged<SocketLoop>.fromOpaque(pointer).takeRetainedValue().run()
        return nil
      }, pointer)
    guard code == 0 else {
      Unmanaged<SocketLoop>.fromOpaque(pointer).release()
      throw Failure(call: "pthread_create", code: code)
    }
    pthread_detach(thread)
    return inbox
  }

  func end() { isEnding = true }

  // MARK: the thread

  private func run() {
    while !isEnding {
      let now = NIODeadline.now()
      for action in timers.takeDue(at: now) { action(self) }
      turn &+= 1
      for one in poller.wait(milliseconds: wait(from: now)) {
        take(LoopToken(rawValue: one.token), Poller.Readiness(rawValue: one.events))
      }
    }
    stopListening()
    for handler in handlers { handler?.close() }
    timers.cancelAll()
    for command in inbox.take(forGood: true).commands { command(self) }
  }

  /// Milliseconds until the next timer, rounded up: it must be due then.
  private func wait(from now: NIODeadline) -> Int32 {
    guard let earliest = timers.earliest else { return -1 }
    let nanoseconds = max(0, (earliest - now).nanoseconds)
    return Int32(clamping: (nanoseconds + 999_999) / 1_000_000)
  }

  private func take(_ token: LoopToken, _ readiness: Poller.Readiness) {
    if token.isConnection {
      handler(token)?.take(readiness)
    } else if token.descriptor == inbox.wakeup {
      let content = inbox.take()
      for connection in content.connections { handler(connection)?.sendOutbox() }
      for command in content.commands { command(self) }
    } else if listeners.contains(token.descriptor) {
      accepts = lastAccepting == turn &- 1 ? min(2 * accepts, Self.acceptsPerTurn) : accepts
      lastAccepting = turn
      if !accept(from: token.descriptor, atMost: accepts) { accepts = 1 }
    }
  }

  // MARK: connections

  private func handler(_ token: LoopToken) -> ConnectionHandler? {
    let index = Int(token.descriptor)
    guard index < handlers.count, let handler = handlers[index], handler.token == token else { return nil }
    return handler
  }

  /// Those that are open.
  var connections: [ConnectionHandler] { handlers.compactMap { $0 } }

  /// Of the user, or of all but root: the one that came first of those in the middle of a line loses its place.
  func giveUpUnfinished(of uid: UInt32?) -> Bool {
    var first: ConnectionHandler?
    for case let handler? in handlers where handler.isUnfinished(of: uid) {
      if first.map({ handler.token.generation < $0.token.generation }) ?? true { first = handler }
    }
    first?.giveUpPlace()
    return first != nil
  }

  /// Whether one more refused client may be listened to until it has read why.
  var mayAbsorb: Bool { handlers.count { $0?.isAbsorbing == true } < Self.absorbedAtOnce }

  func watch(_ handler: ConnectionHandler, for wanted: Poller.Readiness, isNew: Bool) -> Bool {
    isNew
      ? poller.add(handler.socket, handler.token, for: wanted)
      : poller.change(handler.socket, handler.token, to: wanted)
  }

  /// The connection is closed now.
  func forget(_ handler: ConnectionHandler) { handlers[Int(handler.socket)] = nil }

  /// recv(2). The bytes are valid until the next call.
  func receive(from socket: Int32) -> (count: Int, bytes: UnsafeRawBufferPointer) {
    hasReceived = true
    let count = clinux_receive(socket, received.baseAddress, received.count)
    return (count, UnsafeRawBufferPointer(rebasing: received[..<max(0, count)]))
  }

  /// Overwrites the requests and replies in the shared buffers, which may hold tokens and authorization responses.
  func wipe() {
    spare = ByteBuffer()
    guard hasReceived, let start = received.baseAddress else { return }
    explicit_bzero(start, received.count)
    hasReceived = false
  }

  // MARK: accepting

  /// The loop owns the descriptor from now on.
  func listen(on descriptor: Int32) -> Bool {
    guard poller.add(descriptor, LoopToken(descriptor, generation: 0), for: .input) else { return false }
    listeners.append(descriptor)
    return true
  }

  /// Whether more may wait.
  func acceptWaiting() -> Bool {
    listeners.map { accept(from: $0, atMost: Self.acceptsPerTurn) }.contains(true)
  }

  func stopListening() {
    for listener in listeners { close(listener) }
    listeners = []
  }

  /// False: none is waiting, or accept4(2) failed.
  private func accept(from listener: Int32, atMost limit: Int) -> Bool {
    for _ in 0..<limit {
      var address = sockaddr_un()
      var length = UInt32(MemoryLayout<sockaddr_un>.size)
      let socket = acceptOne(listener, &address, &length)
      if socket >= 0 {
        serve(socket, CredentialPeer.name(address, length: Int(length)))
        // The lowest free number is given out: as many are taken.
        guard socket < lastDescriptor else {
          pauseAccepting(EMFILE)
          return false
        }
        continue
      }
      switch errno {
      case EAGAIN: return false
      // This client hung up; others may be waiting.
      case ECONNABORTED: continue
      case let code:
        pauseAccepting(code)
        return false
      }
    }
    return true
  }

  private func serve(_ socket: Int32, _ wanted: CredentialName?) {
    generation = generation == .max ? 1 : generation + 1
    let handler = makeHandler(socket, LoopToken(socket, generation: generation), self)
    while handlers.count <= Int(socket) { handlers.append(nil) }
    handlers[Int(socket)] = handler
    handler.start(wanted)
  }

  /// Clients wait in the kernel's queue. The listeners stay readable, so that without the pause the loop would spin.
  private func pauseAccepting(_ code: Int32) {
    guard !isAcceptingPaused else { return }
    isAcceptingPaused = true
    let now = NIODeadline.now()
    if let others = refusedDescriptors.refused(at: now) {
      logger.warning(
        "connections have to wait: accept: \(String(cString: strerror(code)))\(others > 0 ? " (\(others) times)" : "")",
        metadata: ["hint": "See what holds so many files open, or raise LimitNOFILE= of the service."])
    }
    for listener in listeners { _ = poller.change(listener, LoopToken(listener, generation: 0), to: []) }
    timers.add(at: now + Self.acceptPause) { $0.goOnAccepting() }
  }

  private func goOnAccepting() {
    let free = fcntl(inbox.wakeup, F_DUPFD_CLOEXEC, 0)
    if free >= 0 { close(free) }
    guard free >= 0, free < lastDescriptor else {
      timers.add(at: .now() + Self.acceptPause) { $0.goOnAccepting() }
      return
    }
    isAcceptingPaused = false
    for listener in listeners { _ = poller.change(listener, LoopToken(listener, generation: 0), to: .input) }
  }
}
