import NIOCore

/// Limits the bytes of a request before anything parses them: its head and whatever comes after it.
final class BodyLimit: ChannelInboundHandler {
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
