import Broker
import NIOCore
import NIOHTTP1

/// One connection: one request, one answer, the end.
final class RequestHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private enum State {
    case reading, answering, answered
  }

  /// What is done with a request, from its head alone.
  enum Ruling: Equatable {
    case metrics
    case refusal(status: Int, String)
  }

  private let address: MetricsAddress
  private let limits: MetricsListener.Limits
  private let scrape: @Sendable () async -> String
  private var state = State.reading
  private var end: Scheduled<Void>?

  init(address: MetricsAddress, limits: MetricsListener.Limits, scrape: @escaping @Sendable () async -> String) {
    self.address = address
    self.limits = limits
    self.scrape = scrape
  }

  func handlerAdded(context: ChannelHandlerContext) {
    let channel = context.channel
    end = context.eventLoop.scheduleTask(in: TimeAmount(limits.lifetime)) { channel.close(promise: nil) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { end?.cancel() }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .head(let head) = unwrapInboundIn(data), state == .reading else { return }
    state = .answering
    switch ruling(on: head, port: context.localAddress?.port ?? 0) {
    case .refusal(let status, let text):
      answer(
        HTTPResponseStatus(statusCode: status), "text/plain; charset=utf-8", text, isHead: head.method == .HEAD, context
      )
    case .metrics:
      let isHead = head.method == .HEAD
      let promise = context.eventLoop.makePromise(of: String.self)
      promise.completeWithTask { [scrape] in await scrape() }
      promise.futureResult.assumeIsolated().whenSuccess { [self] text in
        guard context.channel.isActive else { return }
        answer(.ok, OpenMetrics.contentType, text, isHead: isHead, context)
      }
    }
  }

  func ruling(on head: HTTPRequestHead, port: Int) -> Ruling {
    let hosts = head.headers["Host"]
    guard hosts.count == 1 || (hosts.isEmpty && head.version == .http1_0) else {
      return .refusal(status: 400, "One Host header is wanted.\n")
    }
    if let host = hosts.first, !isOurs(host, port: port) {
      return .refusal(status: 421, "This is not the host that was asked for.\n")
    }
    let path = head.uri.prefix { $0 != "?" }
    guard path == "/metrics", head.method == .GET || head.method == .HEAD else {
      return .refusal(status: 404, "There is GET /metrics, and nothing else.\n")
    }
    return .metrics
  }

  /// Against DNS rebinding: a page of `evil.example` that resolves to 127.0.0.1 sends its own name. No browser can be
  /// brought to a Unix socket.
  private func isOurs(_ host: String, port: Int) -> Bool {
    guard case .loopback = address else { return true }
    let host = host.lowercased()
    return ["127.0.0.1", "[::1]", "localhost"].contains { host == "\($0):\(port)" || (port == 80 && host == $0) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard state == .reading, error is HTTPParserError else { return context.close(promise: nil) }
    state = .answering
    answer(.badRequest, "text/plain; charset=utf-8", "This is no HTTP request.\n", isHead: false, context)
  }

  private func answer(
    _ status: HTTPResponseStatus, _ type: String, _ text: String, isHead: Bool, _ context: ChannelHandlerContext
  ) {
    let headers: HTTPHeaders = [
      "Content-Type": type, "Content-Length": "\(text.utf8.count)", "Cache-Control": "no-store",
      "X-Content-Type-Options": "nosniff", "Connection": "close",
    ]
    context.write(
      wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers))), promise: nil)
    if !isHead { context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil) }
    let written = context.eventLoop.makePromise(of: Void.self)
    let channel = context.channel
    written.futureResult.whenComplete { _ in channel.close(promise: nil) }
    state = .answered
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
  }
}
