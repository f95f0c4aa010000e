import NIOCore

/// The bytes of a connection before anything parses them: held until it has its place and its handler can take them, and
/// limited from then on. It is not read on while bytes are held.
final class IncomingBytes: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The request line, as far as received.
  struct Line {
    /// Bytes at its beginning that are kept.
    static let opening = 64

    private(set) var opening: [UInt8] = []
    private var length = 0
    private var isWhole = false

    /// For another one.
    mutating func restart() {
      opening.removeAll(keepingCapacity: true)
      (length, isWhole) = (0, false)
    }

    /// False: it has more bytes than this, its end counted.
    mutating func isWithin(_ limit: Int, _ bytes: ByteBuffer) -> Bool {
      guard !isWhole else { return true }
      let view = bytes.readableBytesView
      let end = view.firstIndex(of: UInt8(ascii: "\n"))
      let line = end.map { view[...$0] } ?? view
      opening += line.prefix(Self.opening - opening.count)
      (length, isWhole) = (length + line.count, end != nil)
      return isWhole ? length <= limit : length < limit
    }
  }

  /// The maximum bytes of chunk frames, in addition to the body's own maximum.
  private static let frames = 4096

  private let limits: HTTPServer.Limits
  /// Nil: none. It is not read until it has a slot; but the channel reads the rest of a client that sends no more.
  private var held: ByteBuffer?
  /// A part is being parsed, in which there may be more requests.
  private(set) var isParsing = false
  private var isInputOver = false
  /// Bytes came in the current read of the channel.
  private var hasRead = false
  private var context: ChannelHandlerContext?
  private var handler: HTTPConnectionHandler?
  /// That of the latest request which came behind no other.
  private(set) var line = Line()
  /// Bytes of the head, or of the body, that is being read.
  private var read = 0
  private var dropped = 0

  init(_ limits: HTTPServer.Limits) { self.limits = limits }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { (self.context, handler, held) = (nil, nil, nil) }

  /// The connection has its slot: its input goes to the handlers that were added after this one.
  func begin(_ handler: HTTPConnectionHandler) {
    guard let context else { return }
    self.handler = handler
    handler.goOnInRead()
    context.fireChannelReadComplete()
    if isInputOver { handler.inputCloses() }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    hasRead = true
    var bytes = unwrapInboundIn(data)
    if handler?.state.isOver == true { return drop(bytes.readableBytes) }
    if held == nil { held = bytes } else { held?.writeBuffer(&bytes) }
    if handler == nil, held.map({ $0.readableBytes > limits.requestLine + limits.head }) ?? false {
      context.close(promise: nil)
    }
  }

  /// A read without bytes found the end of the input, which `inputClosed` reports next. NIO closes the input between the
  /// two, and traps in a debug build if the channel was closed by then, as a flush to a client that hung up does.
  func channelReadComplete(context: ChannelHandlerContext) {
    guard hasRead else { return }
    hasRead = false
    handler?.goOnInRead()
    context.fireChannelReadComplete()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case ChannelEvent.inputClosed = event else { return context.fireUserInboundEventTriggered(event) }
    isInputOver = true
    if let handler {
      handler.inputCloses()
    } else if held == nil {
      // Nothing will be asked.
      context.close(promise: nil)
    }
  }

  /// Whether something is held.
  var hasMore: Bool { held != nil }

  /// Parses a part of the held bytes.
  ///
  /// - Parameter most: bytes.
  func parse(_ most: Int) {
    guard let context, let handler, var bytes = held, let part = bytes.readSlice(length: min(most, bytes.readableBytes))
    else { return }
    held = bytes.readableBytes > 0 ? bytes : nil
    guard admits(part, handler) else { return }
    isParsing = true
    context.fireChannelRead(wrapInboundOut(part))
    isParsing = false
  }

  /// Parsed input is handled outside a read.
  func parsed() { context?.fireChannelReadComplete() }

  /// Nothing that comes is looked at any more.
  func dropHeld() {
    let count = held?.readableBytes ?? 0
    held = nil
    drop(count)
  }

  private func drop(_ count: Int) {
    dropped += count
    if dropped > limits.dropped { handler?.close() }
  }

  /// Whether these bytes are parsed. If they share a read with an earlier or later request, its own limits apply.
  private func admits(_ bytes: ByteBuffer, _ handler: HTTPConnectionHandler) -> Bool {
    let count = bytes.readableBytes
    var refusal: HTTPRefusal?
    switch handler.state.phase {
    case .idle:
      // RFC 9112 §2.2: an empty line behind a request is nothing.
      if count <= 2, bytes.readableBytesView.allSatisfy({ $0 == 0x0D || $0 == 0x0A }) { return false }
      line.restart()
      read = count
      handler.headBegins()
      if !line.isWithin(limits.requestLine, bytes) { refusal = .longLine }
    case .inHead:
      // Which is counted nowhere else: empty lines, and white space before values.
      if read > limits.requestLine + limits.head { refusal = .largeHead }
      if !line.isWithin(limits.requestLine, bytes) { refusal = .longLine }
      read += count
    case .collecting(_, let limit, _):
      if read > 2 * limit + Self.frames { refusal = .largeBody }
      read += count
    case .begun, .streaming, .answering, .ending, .closed: break
    }
    if let refusal { handler.refuse(refusal) }
    return refusal == nil
  }

  func bodyBegins() { read = 0 }

  /// To be fulfilled when all that was written is with the kernel.
  func flush(_ promise: EventLoopPromise<Void>) {
    guard let context else { return promise.fail(ChannelError.alreadyClosed) }
    context.writeAndFlush(wrapOutboundOut(ByteBuffer()), promise: promise)
  }
}
