import BrokerAPI
import CLinux
import Glibc
import Listening
import Logging
import NIOCore
import Platform

/// The thread that serves the socket: accepts, reads, answers cached requests and writes. Only it uses this state;
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

  /// Whether clients of a listener can send descriptors along with their bytes (SCM_RIGHTS). Closing one takes as long as
  /// its sender likes, such as with SO_LINGER, so the loop neither receives nor closes any.
  enum Descriptors {
    /// Before Linux 6.16.
    case passed
    /// Those that connected before this process could forbid it, and may still be waiting.
    case passedBefore
    case refused
  }

  typealias MakeHandler = @Sendable (Int32, LoopToken, SocketLoop) -> ConnectionHandler

  /// Connections accepted in one turn. After the first ``leastAccepts`` accepting may take half as long as the turn before,
  /// within ``acceptTimes``. So a rush of new clients delays a request on an open connection by a tenth of a millisecond,
  /// and the kernel's queue is still emptied faster than a process can fill it.
  static let acceptsPerTurn = 512
  static let leastAccepts = 4
  static let acceptTimes = (least: TimeAmount.microseconds(100), most: TimeAmount.milliseconds(5))
  /// Bytes taken of all connections in one turn, unless they are more than ``leastReceived`` allows.
  static let receivedPerTurn = 64 * 1024
  /// The least that is taken of each where many connections are ready.
  static let leastReceived = 4 * 1024
  /// Reads that empty a socket before it is closed, each of ``receivedPerTurn``: more than the kernel queues.
  private static let lastReads = 64
  /// Refused clients that have time to read why; the others are closed at once.
  static let absorbedAtOnce = 64
  /// The limit of one holder other than root and the broker's own user, and of all callers without a rule.
  static let absorbedPerUser = 8
  static let absorbedUnnamed = 32
  /// Between attempts while the process, or the machine, has no descriptor for another connection.
  static let acceptPause = TimeAmount.milliseconds(100)

  let inbox: LoopInbox
  /// From this number on descriptors are for the rest of the process.
  let lastDescriptor = Int32(clamping: SocketServer.descriptorLimit - SocketServer.keptBackDescriptors)
  let poller: Poller
  let system: SystemCalls
  private let closer = Closer()
  let makeHandler: MakeHandler
  let table: ConnectionTable
  let logger: Logger

  /// By descriptor.
  var handlers: [ConnectionHandler?] = []
  var listeners: [Int32: Descriptors] = [:]
  var generation: UInt32 = 0
  /// Refused clients that are listened to.
  private var absorbing: [Share: Int] = [:]
  var paces: Paces<LoopToken>
  var connects: ConnectRates
  /// The reply to a user who opens too many connections.
  let refusalOfRate: [UInt8]
  var timers = Timers()
  private var isEnding = false

  /// How many connections are accepted in this turn. Doubled while more are waiting in each turn, since a call that finds
  /// none is wasted.
  private var accepts = 1
  /// How long accepting may take in this turn.
  private(set) var acceptTime = acceptTimes.least
  private(set) var turn: UInt64 = 0
  /// Those that have lines left for the next turn.
  private var resuming: [LoopToken] = []
  private var lastAccepting: UInt64 = 0
  /// Clients that were closed because they did not read.
  var unreadClients = Refusals()
  private var latestRefusal: (error: RPCError, line: [UInt8])?
  var isAcceptingPaused = false
  var refusedDescriptors = Refusals()

  /// The last read of any connection. An unfinished line is copied out of it.
  private let received: UnsafeMutableRawBufferPointer
  private var hasReceived = false
  /// The amount of one connection in this iteration.
  private var receivedAtMost = receivedPerTurn
  /// Memory for the replies of a turn.
  @exclusivity(unchecked) var spare = ByteBuffer()

  private init(
    system: SystemCalls, table: ConnectionTable, limits: SocketServer.Limits, logger: Logger,
    makeHandler: @escaping MakeHandler
  ) throws(Failure) {
    inbox = try LoopInbox()
    poller = try Poller()
    self.system = system
    self.table = table
    self.logger = logger
    self.makeHandler = makeHandler
    paces = Paces(limits.rates, unnamedShare: limits.unnamedShare)
    connects = ConnectRates(perSecond: limits.connectsPerSecond)
    let why = "your user opens more than \(limits.connectsPerSecond) in a second"
    refusalOfRate = RPCReply.failure(.null, ConnectionHandler.tooMany(why)).line()
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
    system: SystemCalls, table: ConnectionTable, limits: SocketServer.Limits, logger: Logger,
    makeHandler: @escaping MakeHandler
  ) throws(Failure) -> LoopInbox {
    let loop = try SocketLoop(system: system, table: table, limits: limits, logger: logger, makeHandler: makeHandler)
    let inbox = loop.inbox
    let code = OwnThread.start("socket") { loop.run() }
    guard code == 0 else { throw Failure(call: "pthread_create", code: code) }
    return inbox
  }

  func end() { isEnding = true }

  // MARK: the thread

  private func run() {
    var woke = NIODeadline.now()
    while !isEnding {
      let now = NIODeadline.now()
      acceptTime = Self.acceptTime(after: now - woke)
      for action in timers.takeDue(at: now) { action(self) }
      turn &+= 1
      let resumed = resuming
      resuming = []
      let ready = poller.wait(milliseconds: resumed.isEmpty ? wait(from: now) : 0)
      woke = .now()
      receivedAtMost = max(Self.leastReceived, Self.receivedPerTurn / max(1, ready.count))
      for one in ready { take(LoopToken(rawValue: one.token), Poller.Readiness(rawValue: one.events)) }
      for token in resumed { handler(token)?.resume() }
    }
    stopListening()
    for handler in handlers { handler?.close() }
    timers.cancelAll()
    for command in inbox.take(forGood: true).commands { command(self) }
  }

  /// How long accepting may take in the turn after one that took `last`.
  static func acceptTime(after last: TimeAmount) -> TimeAmount {
    max(acceptTimes.least, min(acceptTimes.most, .nanoseconds(last.nanoseconds / 2)))
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
    } else if listeners[token.descriptor] != nil {
      accepts = lastAccepting == turn &- 1 ? min(2 * accepts, Self.acceptsPerTurn) : accepts
      lastAccepting = turn
      if !accept(from: token.descriptor, atMost: accepts) { accepts = 1 }
    }
  }

  // MARK: connections

  func handler(_ token: LoopToken) -> ConnectionHandler? {
    let index = Int(token.descriptor)
    guard index < handlers.count, let handler = handlers[index], handler.token == token else { return nil }
    return handler
  }

  /// Those that are open.
  var connections: [ConnectionHandler] { handlers.compactMap { $0 } }

  /// The connection of those for which `since` gives the earliest turn loses its place. False: there is none.
  func giveUpPlace(
    where isOne: (Share) -> Bool, _ why: String, _ since: (ConnectionHandler) -> UInt64?
  ) -> Bool {
    var first: (handler: ConnectionHandler, since: UInt64)?
    for case let handler? in handlers where isOne(handler.share) {
      if let turn = since(handler), turn < first?.since ?? .max { first = (handler, turn) }
    }
    first?.handler.giveUpPlace(why)
    return first != nil
  }

  /// Whether one more refused client may be listened to until it has read why.
  func mayAbsorb(_ share: Share) -> Bool {
    let unnamed = absorbing.reduce(0) { $0 + ($1.key.isUnnamed ? $1.value : 0) }
    return absorbing.values.reduce(0, +) < Self.absorbedAtOnce && (!share.isUnnamed || unnamed < Self.absorbedUnnamed)
      && (share.hasOwnPlaces || absorbing[share, default: 0] < Self.absorbedPerUser)
  }

  func startAbsorbing(of share: Share) -> Bool {
    guard mayAbsorb(share) else { return false }
    absorbing[share, default: 0] += 1
    return true
  }

  /// The reply to a client that is refused as it connects. In a storm of them it is the same for most.
  func line(refusing error: RPCError) -> [UInt8] {
    if let latestRefusal, latestRefusal.error == error { return latestRefusal.line }
    let line = RPCReply.failure(.null, error).line()
    latestRefusal = (error, line)
    return line
  }

  func endAbsorbing(of share: Share) {
    let left = absorbing[share, default: 0] - 1
    absorbing[share] = left > 0 ? left : nil
  }

  /// Delayed ones continue then, one after the other.
  func resumePaced(_ pace: Pace<LoopToken>, at due: NIODeadline) {
    timers.add(at: due) { loop in
      while true {
        let (token, due) = pace.next(at: .now())
        if let due { return loop.resumePaced(pace, at: due) }
        guard let token else { return }
        loop.handler(token)?.resumePaced()
      }
    }
  }

  /// Calls it in the next turn, without an event.
  func resume(_ handler: ConnectionHandler) { resuming.append(handler.token) }

  func watch(_ handler: ConnectionHandler, for wanted: Poller.Readiness, isNew: Bool) -> Bool {
    isNew
      ? poller.add(handler.socket, handler.token, for: wanted)
      : poller.change(handler.socket, handler.token, to: wanted)
  }

  /// The connection is closed now.
  func forget(_ handler: ConnectionHandler) { handlers[Int(handler.socket)] = nil }

  /// recv(2). The bytes are valid until the next call.
  ///
  /// - Parameter withoutDescriptors: whether it fails with EPERM where a descriptor comes with the bytes.
  func receive(
    from socket: Int32, atMost limit: Int = receivedPerTurn, withoutDescriptors: Bool
  ) -> (count: Int, bytes: UnsafeRawBufferPointer) {
    hasReceived = true
    let (start, room) = (received.baseAddress, min(limit, receivedAtMost))
    let count = withoutDescriptors ? clinux_receive_bytes(socket, start, room) : clinux_receive(socket, start, room)
    return (count, UnsafeRawBufferPointer(rebasing: received[..<max(0, count)]))
  }

  /// Ends the input of a socket, and receives the rest of it. False: it has descriptors.
  func emptyInput(of socket: Int32) -> Bool {
    shutdown(socket, Int32(SHUT_RD))
    hasReceived = true
    for _ in 0..<Self.lastReads {
      let count = clinux_receive_bytes(socket, received.baseAddress, received.count)
      if count <= 0 { return count == 0 }
    }
    return false
  }

  /// close(2) on a thread that may wait: with the socket the kernel closes the descriptors in its input.
  func closeElsewhere(_ handler: ConnectionHandler, then action: @escaping @Sendable () -> Void) {
    // A hang-up is always reported: only once from now on.
    _ = poller.change(handler.socket, handler.token, to: .edge)
    closeElsewhere(handler.socket, of: handler.share, then: action)
  }

  func closeElsewhere(_ socket: Int32, of share: Share, then action: @escaping @Sendable () -> Void) {
    closer.close(socket, of: share, then: action)
  }

  /// Overwrites the requests and replies in the shared buffers, which may hold tokens and authorization responses.
  func wipe() {
    spare = ByteBuffer()
    guard hasReceived, let start = received.baseAddress else { return }
    explicit_bzero(start, received.count)
    hasReceived = false
  }
}
