import NIOCore
import NIOHTTP1

/// Limits the bytes of a request before anything parses them: its line, its headers and its body.
final class BodyLimit: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  /// Told to the connection when a bound is crossed. From then on nothing is passed on.
  enum Excess: Equatable {
    case requestLine
    case headers
    case form
  }

  private enum State {
    case requestLine(read: Int)
    case headers(read: Int)
    case form(read: Int, limit: Int)
    case discarding(read: Int)
  }

  /// Bytes of the request line that are kept: more than any method and ``LogoutPath/prefix``.
  private static let openingLength = 64

  private let limits: CallbackListener.Limits
  private var opening: [UInt8] = []
  private var state = State.requestLine(read: 0)
  /// Whether the client sent anything, so that a connection opened in advance is not answered.
  private(set) var isTouched = false

  init(_ limits: CallbackListener.Limits) {
    self.limits = limits
  }

  /// Whether the request line, as far as it came, is that of a logout request.
  var isForLogout: Bool {
    let words = opening.split(separator: UInt8(ascii: " "), maxSplits: 1)
    return words.count == 2 && words[1].starts(with: LogoutPath.prefix.utf8)
  }

  /// The head is over, and a body is wanted.
  ///
  /// - Parameter limit: bytes that it has at most; the frames of its chunks may take as many again.
  func admitForm(limit: Int) {
    if case .headers = state { state = .form(read: 0, limit: 2 * limit) }
  }

  /// The head is over, or nobody wants to know the rest.
  func discard() {
    if case .discarding = state { return }
    state = .discarding(read: 0)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var buffer = unwrapInboundIn(data)
    isTouched = true
    // Each turn shortens the buffer or changes the state onwards, so it ends.
    while buffer.readableBytes > 0 {
      switch state {
      case .requestLine(let read): passRequestLine(&buffer, read, context)
      case .headers(let read): passHeaders(&buffer, read, context)
      case .form(let read, let limit): passForm(&buffer, read, limit, context)
      case .discarding(let read):
        let total = read + buffer.readableBytes
        state = .discarding(read: total)
        if total > (isForLogout ? limits.refusedForm : limits.body) { context.close(promise: nil) }
        return
      }
    }
  }

  private func passRequestLine(_ buffer: inout ByteBuffer, _ read: Int, _ context: ChannelHandlerContext) {
    let room = limits.requestLine - read
    let view = buffer.readableBytesView.prefix(room)
    opening += view.prefix(Self.openingLength - opening.count)
    if let end = view.firstIndex(of: UInt8(ascii: "\n")) {
      state = .headers(read: 0)
      pass(end - view.startIndex + 1, of: &buffer, context)
    } else if buffer.readableBytes < room {
      state = .requestLine(read: read + buffer.readableBytes)
      pass(buffer.readableBytes, of: &buffer, context)
    } else {
      refuse(.requestLine, context)
    }
  }

  private func passHeaders(_ buffer: inout ByteBuffer, _ read: Int, _ context: ChannelHandlerContext) {
    let length = min(limits.headers - read, buffer.readableBytes)
    guard length > 0 else { return refuse(.headers, context) }
    state = .headers(read: read + length)
    pass(length, of: &buffer, context)
  }

  private func passForm(_ buffer: inout ByteBuffer, _ read: Int, _ limit: Int, _ context: ChannelHandlerContext) {
    let length = min(limit - read, buffer.readableBytes)
    guard length > 0 else { return refuse(.form, context) }
    state = .form(read: read + length, limit: limit)
    pass(length, of: &buffer, context)
  }

  private func pass(_ length: Int, of buffer: inout ByteBuffer, _ context: ChannelHandlerContext) {
    guard let slice = buffer.readSlice(length: length) else { return }
    context.fireChannelRead(wrapInboundOut(slice))
  }

  private func refuse(_ excess: Excess, _ context: ChannelHandlerContext) {
    discard()
    context.fireUserInboundEventTriggered(excess)
  }
}
