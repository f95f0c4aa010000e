import NIOCore

/// Bounds what a visitor may send, before anything parses it.
final class Intake: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private var left: Int

  init(limit: Int) {
    left = limit
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    left -= buffer.readableBytes
    guard left >= 0 else { return context.close(promise: nil) }
    context.fireChannelRead(wrapInboundOut(buffer))
  }
}
