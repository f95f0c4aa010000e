import Broker
import Glibc
import Listening
import NIOCore
import NIOHTTP1
import NIOTLS
import OAuth

/// One connection to a server, with one request at a time. Lives on its loop.
final class UpstreamConnection: ChannelInboundHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  private let pool: UpstreamPool
  private let address: String
  private let route: UpstreamRoute
  private var context: ChannelHandlerContext?
  private var exchange: UpstreamExchange?
  private var handshake: EventLoopPromise<Void>?
  private var uses = 0
  private var isRequestSent = false
  private var answer = Answer()
  private var isEnding = false
  /// Since the machine started, including suspended time.
  private(set) var idleSince = Duration.zero

  /// The progress of the current answer.
  private struct Answer {
    var hasBegun = false
    /// The connection stays open after it.
    var isKept = false
    /// It is complete, and the rest of its read is not processed.
    var isComplete = false
  }

  /// - Parameter handshake: told when the connection is secure, or that it will not be; nil: a connection in the clear.
  init(_ pool: UpstreamPool, at address: String, by route: UpstreamRoute, handshake: EventLoopPromise<Void>?) {
    self.pool = pool
    self.address = address
    self.route = route
    self.handshake = handshake
  }

  // MARK: A request

  var proxy: HTTPProxy? { route.proxy }

  var isUsable: Bool { !isEnding && context?.channel.isActive == true }

  func isReady(at uptime: Duration) { idleSince = uptime }

  /// If it is usable.
  func begin(_ exchange: UpstreamExchange) {
    guard let context else { return }
    self.exchange = exchange
    exchange.connection = self
    uses += 1
    answer = Answer()
    isRequestSent = true
    if exchange.isPaused { setReading(false) }
    if exchange.request.latestSend != nil { dropsUnsent(true) }
    context.write(wrapOutboundOut(.head(route.head(exchange.request.head))), promise: nil)
    switch exchange.request.body {
    case .none:
      context.write(wrapOutboundOut(.end(nil)), promise: nil)
      pool.flushes.add(context)
    case .whole(let body):
      context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
      context.write(wrapOutboundOut(.end(nil)), promise: nil)
      pool.flushes.add(context)
    case .streamed:
      isRequestSent = false
      exchange.receiver?.upstreamTakesMore(exchange)
      self.context?.flush()
    }
  }

  var isWritable: Bool { context?.channel.isWritable ?? false }

  func write(_ bytes: ByteBuffer) {
    guard !isRequestSent else { return }
    context?.write(wrapOutboundOut(.body(.byteBuffer(bytes))), promise: nil)
  }

  func flush() { context?.flush() }

  func endBody() {
    guard !isRequestSent else { return }
    isRequestSent = true
    context?.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  /// Whether the kernel discards data that the peer does not have yet when the connection is closed, even if the process is
  /// killed. Otherwise it would deliver a request later, when another broker may have sent the same refresh token.
  private func dropsUnsent(_ isOn: Bool) {
    _ = (context?.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: isOn ? 1 : 0, l_linger: 0))
  }

  func setReading(_ isOn: Bool) { try? context?.channel.syncOptions?.setOption(.autoRead, value: isOn) }

  func cancel(_ exchange: UpstreamExchange) {
    guard exchange === self.exchange else { return }
    self.exchange = nil
    // Read on, or the peer's close_notify is never seen.
    if exchange.isPaused { setReading(true) }
    close()
  }

  /// Takes no more requests; a TLS close waits for the peer's close_notify.
  func close() {
    isEnding = true
    pool.closed(self)
    context?.close(promise: nil)
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case TLSUserEvent.handshakeCompleted = event, let done = handshake {
      handshake = nil
      done.succeed()
    }
    context.fireUserInboundEventTriggered(event)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // Data without a request, or after its answer, belong to no request.
    guard let exchange else { return isEnding ? () : close() }
    switch unwrapInboundIn(data) {
    case .head(let head):
      // RFC 9110 §15: a status below 100 is none.
      guard head.status.code >= 100 else { return fail(HTTPParserError.invalidStatus) }
      if let refusal = route.refusal(head) { return fail(refusal) }
      answer.hasBegun = true
      answer.isKept = head.isKeepAlive && head.status != .switchingProtocols
      pool.answered(from: address, by: route)
      exchange.receiver?.upstreamBegan(head)
    case .body(let part): exchange.receiver?.upstreamSent(part)
    case .end:
      self.exchange = nil
      exchange.connection = nil
      if exchange.request.latestSend != nil { dropsUnsent(false) }
      if answer.isKept, isRequestSent {
        if exchange.isPaused { setReading(true) }
        answer.isComplete = true
        idleSince = pool.uptime()
      } else {
        close()
      }
      exchange.end()
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if answer.isComplete {
      // Not earlier: data after the answer in the same read do not answer the next request.
      answer.isComplete = false
      if !isEnding { pool.free(self) }
    } else {
      exchange?.receiver?.upstreamPaused()
    }
    context.fireChannelReadComplete()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable, !isRequestSent, let exchange { exchange.receiver?.upstreamTakesMore(exchange) }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { fail(error) }

  func channelInactive(context: ChannelHandlerContext) {
    fail(nil)
    context.fireChannelInactive()
  }

  /// - Parameter error: nil: the server closed the connection.
  private func fail(_ error: (any Error)?) {
    let host = route.peer
    if let handshake {
      self.handshake = nil
      handshake.fail(error ?? TransportError(.notSent, "no secure connection to \(host): it hung up", cause: .tls))
    }
    let exchange = self.exchange
    self.exchange = nil
    close()
    guard let exchange else { return }
    // The server closed it as the request was on its way.
    if uses > 1, !answer.hasBegun, exchange.request.isRepeatable, !exchange.isRepeated {
      exchange.connection = nil
      return pool.repeat(exchange)
    }
    if let error {
      let failure = TransportError(error, host: host, isOpen: true)
      // A first request may meet a server that wants a certificate, and takes nothing. All others may have arrived.
      let isRefused =
        failure.cause == .proxyCredentials || failure.cause == .tls && uses == 1 && !answer.hasBegun
      return exchange.fail(isRefused ? failure : failure.lost)
    }
    exchange.fail(
      answer.hasBegun
        ? TransportError(.lost, "the connection to \(host) ended before its answer did") : Self.closed(host))
  }

  private static func closed(_ host: String) -> TransportError {
    TransportError(.lost, "\(host) closed the connection before it answered")
  }
}
