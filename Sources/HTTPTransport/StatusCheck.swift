import NIOCore
import NIOHTTP1

/// Refuses an answer whose status is none (RFC 9110 §15): the client takes one below 100 for an interim answer, and ends the
/// process when no other follows.
final class StatusCheck: ChannelInboundHandler {
  typealias InboundIn = HTTPClientResponsePart
  typealias InboundOut = HTTPClientResponsePart

  private var isOver = false

  /// Before what reads the answers of this connection.
  static func install(on channel: any Channel) -> EventLoopFuture<Void> {
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
      try pipeline.addHandler(StatusCheck(), position: .after(decoder))
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isOver else { return }
    if case .head(let head) = unwrapInboundIn(data), head.status.code < 100 {
      isOver = true
      context.fireErrorCaught(HTTPParserError.invalidStatus)
      context.close(promise: nil)
      return
    }
    context.fireChannelRead(data)
  }
}
