import BrokerAPI
import Callers
import Listening
import NIOCore
import NIOHTTP1

/// The connections that one event loop serves. Lives on it.
final class ServedConnections {
  let limits: HTTPServer.Limits
  let checks: HTTPHeadChecks
  let flushes: TurnFlush
  private let loop: any EventLoop
  private var handlers: [ObjectIdentifier: ConnectionHandler] = [:]
  private var tick: RepeatedTask?
  private(set) var isStopping = false
  /// Connections that have more to do than they may at a time.
  private var turns = Turns<Holder, ConnectionHandler>()
  private var areTurnsDue = false
  private var signal: LoopSignal?
  /// How long those have the loop for before its sockets are looked at.
  private static let turnsTime = TimeAmount.milliseconds(1)
  /// How long they wait where there is no signal.
  private static let turnsPause = TimeAmount.milliseconds(1)

  init(_ limits: HTTPServer.Limits, _ checks: HTTPHeadChecks, loop: any EventLoop) {
    self.limits = limits
    self.checks = checks
    self.loop = loop
    flushes = TurnFlush(loop)
  }

  /// Serves a connection that has its place.
  func begin(
    _ connection: HTTPConnection, _ conversation: any HTTPConversation, _ caller: Caller?, peer: LoopbackPeer?
  ) throws {
    let channel = connection.channel
    guard !isStopping else { return connection.close() }
    let pipeline = channel.pipeline.syncOperations
    let incoming = try pipeline.handler(type: IncomingBytes.self)
    let handler = ConnectionHandler(self, conversation, connection, incoming, caller: caller, peer: peer)
    handlers[ObjectIdentifier(handler)] = handler
    channel.closeFuture.assumeIsolated().whenComplete { [self] _ in forget(handler) }
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
      tick = loop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { _ in
        own.value.checkTimes()
      }
    }
  }

  private func forget(_ handler: ConnectionHandler) {
    handlers[ObjectIdentifier(handler)] = nil
    guard handlers.isEmpty else { return }
    tick?.cancel()
    tick = nil
    if isStopping {
      signal?.close()
      turns = Turns()
    }
  }

  private func checkTimes() {
    let now = NIODeadline.now()
    for handler in Array(handlers.values) { handler.checkTime(now) }
  }

  // MARK: Turns

  /// The connection has more to do. Each holder's connections take one turn.
  func wait(_ handler: ConnectionHandler) {
    turns.append(handler, for: handler.holder)
    scheduleTurns()
  }

  private func scheduleTurns() {
    guard !turns.isEmpty, !areTurnsDue else { return }
    areTurnsDue = true
    if signal == nil { signal = LoopSignal(loop) { [weak self] in self?.takeTurns() } }
    if let signal, !signal.isClosed { return signal.send() }
    let own = NIOLoopBound(self, eventLoop: loop)
    loop.scheduleTask(in: Self.turnsPause) { own.value.takeTurns() }
  }

  private func takeTurns() {
    // Who has more to do then waits for the next time.
    defer {
      areTurnsDue = false
      scheduleTurns()
    }
    let end = NIODeadline.now() + Self.turnsTime
    repeat {
      guard let (_, handler) = turns.take() else { return }
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
    if handlers.isEmpty { signal?.close() }
    for handler in Array(handlers.values) { handler.stop() }
  }
}
