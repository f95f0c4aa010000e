import BrokerAPI
import Callers
import Listening
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// What the server's own loop knows of a connection that another loop serves.
final class ServedConnection: Sendable {
  let channel: any Channel
  /// Since when it has nothing to do, in nanoseconds of the loops' clock; 0: it has.
  private let idleSince = Atomic<UInt64>(0)

  init(_ channel: any Channel) { self.channel = channel }

  /// Nil: a request is being handled.
  var idle: NIODeadline? {
    let since = idleSince.load(ordering: .relaxed)
    return since == 0 ? nil : .uptimeNanoseconds(since)
  }

  func note(idleSince: NIODeadline?) { self.idleSince.store(idleSince?.uptimeNanoseconds ?? 0, ordering: .relaxed) }
}

/// The connections that one event loop serves. Lives on it.
final class ServedConnections {
  let limits: HTTPServer.Limits
  let application: any HTTPApplication
  let flushes: TurnFlush
  private let loop: any EventLoop
  private var handlers: [ObjectIdentifier: ConnectionHandler] = [:]
  private var tick: RepeatedTask?
  private var isStopping = false

  init(_ limits: HTTPServer.Limits, _ application: any HTTPApplication, loop: any EventLoop) {
    self.limits = limits
    self.application = application
    self.loop = loop
    flushes = TurnFlush(loop)
  }

  /// Serves a connection that has its place.
  func begin(_ connection: ServedConnection, _ caller: Caller?, peer: LoopbackPeer?) throws {
    let channel = connection.channel
    guard !isStopping else { return channel.close(promise: nil) }
    let handler = ConnectionHandler(
      self, application.conversation(with: caller), connection, caller: caller, peer: peer)
    handlers[ObjectIdentifier(handler)] = handler
    channel.closeFuture.assumeIsolated().whenComplete { [self] _ in forget(handler) }
    let pipeline = channel.pipeline.syncOperations
    // Answers say themselves how they are framed: that to HEAD as the one to GET would be.
    var framing = HTTPResponseEncoder.Configuration()
    framing.automaticallySetFramingHeaders = false
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    decoderLimits.maxHeaderFieldSize = limits.head
    decoderLimits.maxHeaderListSize = limits.head
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    try pipeline.addHandlers([
      FirstByte(handler), HTTPResponseEncoder(configuration: framing),
      ByteToMessageHandler(
        HTTPRequestDecoder(
          leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)),
      handler,
    ])
    // Else the handler does it when the channel becomes active: NIO drops a read that is asked for before.
    if channel.isActive { try channel.syncOptions?.setOption(.autoRead, value: true) }
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
  }

  private func checkTimes() {
    let now = NIODeadline.now()
    for handler in Array(handlers.values) { handler.checkTime(now) }
  }

  /// Asks the kernel who has the other end.
  static func peer(of channel: any Channel) -> LoopbackPeer? {
    guard let own = channel.localAddress, let other = channel.remoteAddress else { return nil }
    let peer = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
      descriptor in
      own.withSockAddr { own, _ in
        other.withSockAddr { other, _ in LoopbackPeer(of: descriptor, own: own, other: other) }
      }
    }
    return peer ?? nil
  }

  /// Ends idle connections now, and the others with their answers.
  func stop() {
    isStopping = true
    for handler in Array(handlers.values) { handler.stop() }
  }
}

/// Tells the connection that something of a request came.
private final class FirstByte: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let handler: ConnectionHandler

  init(_ handler: ConnectionHandler) { self.handler = handler }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    handler.bytesCame()
    context.fireChannelRead(data)
  }
}
