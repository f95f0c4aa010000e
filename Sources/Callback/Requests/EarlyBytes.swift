import NIOCore

/// Keeps what a connection brings before it has a place. It is not read until then; but of one whose client sends no more
/// the channel reads what is there, and nobody else would have it.
final class EarlyBytes: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let limit: Int
  private var bytes: ByteBuffer?
  private var isInputOver = false

  /// - Parameter limit: of bytes; a connection that brings more is closed.
  init(limit: Int) {
    self.limit = limit
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var more = unwrapInboundIn(data)
    if bytes == nil { bytes = more } else { bytes?.writeBuffer(&more) }
    if bytes.map({ $0.readableBytes > limit }) ?? false { context.close(promise: nil) }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case ChannelEvent.inputClosed = event else { return context.fireUserInboundEventTriggered(event) }
    isInputOver = true
    // Nothing will be asked.
    if bytes == nil { context.close(promise: nil) }
  }

  /// Hands on what came, to the handlers that were added since, and leaves.
  func replay(on pipeline: ChannelPipeline.SynchronousOperations) throws {
    let context = try pipeline.context(handler: self)
    if let bytes { context.fireChannelRead(wrapInboundOut(bytes)) }
    if isInputOver { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
    bytes = nil
    pipeline.removeHandler(self, promise: nil)
  }
}
