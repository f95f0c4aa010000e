import Broker
import NIOCore
import NIOExtras
import NIOHTTP1
import OAuth

/// A connection to a server through a proxy, by CONNECT (RFC 9110 §9.3.6). Lives on its loop.
final class ProxyTunnel {
  /// For the proxy's answer: it looks up the name and connects. Shorter than the time of a request.
  private static let time = TimeAmount.seconds(15)

  private let server: UpstreamServer
  private let proxy: HTTPProxy
  private let loop: any EventLoop
  private let answer = Answer()
  private let encoder = HTTPRequestEncoder()
  private let decoder = ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes))
  private var channel: (any Channel)?
  private var accepted: EventLoopFuture<Void>?
  /// The proxy has accepted: all later data are between the server and this process.
  private(set) var isOpen = false

  init(to server: UpstreamServer, via proxy: HTTPProxy, on loop: any EventLoop) {
    self.server = server
    self.proxy = proxy
    self.loop = loop
  }

  /// Adds the handlers, which send the request once the channel is connected.
  func add(to channel: any Channel) throws {
    let authority = (server.host.contains(":") ? "[\(server.host)]" : server.host)
    var headers: HTTPHeaders = ["Host": "\(authority):\(server.port)"]
    if let authorization = proxy.authorization { headers.add(name: "Proxy-Authorization", value: authorization) }
    self.channel = channel
    let promise = loop.makePromise(of: Void.self)
    accepted = promise.futureResult
    let connect = NIOHTTP1ProxyConnectHandler(
      targetHost: authority, targetPort: server.port, headers: headers, deadline: .now() + Self.time,
      promise: promise)
    do {
      try channel.pipeline.syncOperations.addHandlers([encoder, decoder, answer, connect])
    } catch {
      promise.fail(error)
      throw error
    }
  }

  /// Succeeds with a channel without handlers, on which TLS can begin.
  func opened(on channel: any Channel) -> EventLoopFuture<Void> {
    let own = NIOLoopBound(self, eventLoop: loop)
    guard let accepted else { return loop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
    return accepted.flatMapError { [loop] in loop.makeFailedFuture(own.value.error($0)) }
      .flatMap {
        let (tunnel, pipeline) = (own.value, channel.pipeline.syncOperations)
        tunnel.isOpen = true
        return pipeline.removeHandler(tunnel.answer)
          .flatMap { channel.pipeline.syncOperations.removeHandler(own.value.decoder) }
          .flatMap { channel.pipeline.syncOperations.removeHandler(own.value.encoder) }
      }
  }

  func close() { channel?.close(promise: nil) }

  private func error(_ error: any Error) -> any Error {
    if let head = answer.head { return Self.refusal(of: proxy, head, server) }
    guard let error = error as? NIOHTTP1ProxyConnectHandler.Error else { return error }
    let name = "the proxy \(proxy.authority)"
    return error == .httpProxyHandshakeTimeout()
      ? TransportError(.notSent, "\(name) did not answer in time", cause: .proxy)
      : TransportError(.notSent, "\(name) closed the connection without an answer", cause: .proxy)
  }

  /// For an answer to CONNECT, or to a request in the clear.
  static func refusal(of proxy: HTTPProxy, _ head: HTTPResponseHead, _ server: UpstreamServer) -> TransportError {
    let reason = head.status.reasonPhrase.printable(limit: 64)
    let status = reason.isEmpty ? "\(head.status.code)" : "\(head.status.code) \(reason)"
    return TransportError(
      .notSent, "the proxy \(proxy.authority) refused the connection to \(server.host):\(server.port): \(status)",
      cause: [.proxyAuthenticationRequired, .unauthorized].contains(head.status) ? .proxyCredentials : .proxy)
  }

  /// Keeps the proxy's answer: the error of the handler behind it has no status.
  private final class Answer: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart

    private(set) var head: HTTPResponseHead?

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if case .head(let head) = unwrapInboundIn(data) { self.head = head }
      context.fireChannelRead(data)
    }
  }
}
