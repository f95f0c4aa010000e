import Callers
import Listening
import NIOCore
import NIOHTTP1
import NIOPosix
import Principals

/// The connections that one event loop serves. Lives on it.
final class ServedConnections {
  let limits: HTTPServer.Limits
  let checks: HTTPHeadChecks
  let flushes: TurnFlush
  private var paces: Paces<HTTPConnectionHandler>
  private let loop: any EventLoop
  private let hasSockets: Bool
  private var handlers: [ObjectIdentifier: HTTPConnectionHandler] = [:]
  private var tick: RepeatedTask?
  private(set) var isStopping = false
  private var turns = WaitingConnections()
  /// How long those have the loop for before its sockets are looked at.
  private static let turnsTime = TimeAmount.milliseconds(1)
  /// How long they wait where there is no signal.
  private static let turnsPause = TimeAmount.milliseconds(1)

  private struct WaitingConnections {
    /// Connections that have more to do than they may at a time.
    var waiting = GroupedRoundRobin<Holder, Holder, HTTPConnectionHandler>()
    var areDue = false
    var signal: LoopSignal?
    /// The end of the time in which this pass of the loop handles new input; nil: none handled yet.
    var passEnd: NIODeadline?
  }

  init(_ limits: HTTPServer.Limits, _ checks: HTTPHeadChecks, loop: any EventLoop) {
    self.limits = limits
    self.checks = checks
    self.loop = loop
    hasSockets = ClientBootstrap(validatingGroup: loop) != nil
    flushes = TurnFlush(loop)
    paces = Paces(limits.rates, unnamedShare: limits.unnamedShareOfRequests)
  }

  /// Serves a connection that has its place.
  func begin(
    _ connection: HTTPConnection, _ conversation: any HTTPConversation, _ caller: Caller?, of share: Share,
    peer: LoopbackPeer?
  ) throws {
    let channel = connection.channel
    guard !isStopping else { return connection.close() }
    let pipeline = channel.pipeline.syncOperations
    let incoming = try pipeline.handler(type: IncomingBytes.self)
    let handler = HTTPConnectionHandler(
      self, conversation, connection, incoming,
      .init(caller: caller, share: share, pace: paces.pace(of: share, at: .now()), peer: peer))
    handlers[ObjectIdentifier(handler)] = handler
    handler.client.pace?.connections += 1
    channel.closeFuture.assumeIsolated().whenComplete { [self] _ in remove(handler) }
    // Answers say themselves how they are framed: that to HEAD as the one to GET would be.
    var framing = HTTPResponseEncoder.Configuration()
    framing.automaticallySetFramingHeaders = false
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    decoderLimits.maxHeaderFieldSize = limits.head
    decoderLimits.maxHeaderListSize = limits.head
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    try pipeline.addHandlers([
      HTTPResponseEncoder(configuration: framing),
      ByteToMessageHandler(
        HTTPRequestDecoder(
          leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)),
      handler,
    ])
    // Else the handler does it when the channel becomes active: NIO drops a read that is asked for before.
    if channel.isActive { try channel.syncOptions?.setOption(.autoRead, value: true) }
    incoming.begin(handler)
    if tick == nil {
      let own = NIOLoopBound(self, eventLoop: loop)
      let pause = TimeAmount(limits.timeCheck)
      tick = loop.scheduleRepeatedTask(initialDelay: pause, delay: pause) { _ in
        own.value.checkTimes()
      }
    }
  }

  private func remove(_ handler: HTTPConnectionHandler) {
    handlers[ObjectIdentifier(handler)] = nil
    handler.client.pace?.connections -= 1
    paces.removeIdle(at: .now(), beyond: Self.idlePaces)
    guard handlers.isEmpty else { return }
    tick?.cancel()
    tick = nil
    if isStopping {
      turns.signal?.close()
      turns.waiting = GroupedRoundRobin()
    }
  }

  private func checkTimes() {
    let now = NIODeadline.now()
    for handler in Array(handlers.values) { handler.checkTime(now) }
  }

  /// Paces that are kept of holders without a connection.
  private static let idlePaces = 64

  /// Connections that wait for the pace continue at that time, one after the other.
  func resumePaced(_ pace: Pace<HTTPConnectionHandler>, at due: NIODeadline) {
    let own = NIOLoopBound((self, pace), eventLoop: loop)
    loop.scheduleTask(deadline: due) {
      let (connections, pace) = own.value
      while true {
        let (handler, due) = pace.next(at: .now())
        if let due { return connections.resumePaced(pace, at: due) }
        guard let handler else { return }
        handler.resumePaced()
      }
    }
  }

  // MARK: Turns

  /// Whether there is time left in this pass of the loop. Otherwise the input waits for its slot, since the last of
  /// hundreds of ready connections may belong to another user.
  func hasTime() -> Bool {
    // A loop without sockets has no passes.
    guard hasSockets else { return true }
    let now = NIODeadline.now()
    if let end = turns.passEnd { return now < end }
    turns.passEnd = now + Self.turnsTime
    let own = NIOLoopBound(self, eventLoop: loop)
    loop.execute { own.value.turns.passEnd = nil }
    return true
  }

  /// The connection has more to do. Each user has one turn at a time, which the user's units share.
  func wait(_ handler: HTTPConnectionHandler) {
    turns.waiting.append(handler, for: handler.client.share.holder, of: handler.client.share.holder.user)
    scheduleTurns()
  }

  private func scheduleTurns() {
    guard !turns.waiting.isEmpty, !turns.areDue else { return }
    turns.areDue = true
    if turns.signal == nil { turns.signal = LoopSignal(loop) { [weak self] in self?.takeTurns() } }
    if let signal = turns.signal, !signal.isClosed { return signal.send() }
    let own = NIOLoopBound(self, eventLoop: loop)
    loop.scheduleTask(in: Self.turnsPause) { own.value.takeTurns() }
  }

  private func takeTurns() {
    // Who has more to do then waits for the next time.
    defer {
      turns.areDue = false
      scheduleTurns()
    }
    let end = NIODeadline.now() + Self.turnsTime
    repeat {
      guard let (_, handler) = turns.waiting.popFirst() else { return }
      handler.takeTurn()
    } while .now() < end
  }

  /// Ends all connections now.
  func cut() {
    for handler in Array(handlers.values) { handler.close() }
  }

  /// Ends idle connections now, and the others with their answers.
  func stop() {
    isStopping = true
    if handlers.isEmpty { turns.signal?.close() }
    for handler in Array(handlers.values) { handler.stop() }
  }
}
