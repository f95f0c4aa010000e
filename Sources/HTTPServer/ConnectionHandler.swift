import BrokerAPI
import Callers
import NIOCore
import NIOHTTP1

/// One connection: its requests, one after the other. Lives on its loop.
final class ConnectionHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  /// What the decoder made of the bytes.
  private enum Item {
    case part(HTTPServerRequestPart)
    case failure(HTTPParserError)
  }

  enum State {
    /// Between requests.
    case idle
    /// A part of a head came.
    case inHead
    case collecting(HTTPRequestHead, ByteBuffer, limit: Int)
    case streaming(HTTPRequestBody)
    /// The request is read to its end.
    case answering
    /// The answer is written and the connection ends: what the client still sends is dropped, since closing on it would
    /// reset the connection and might take the answer away.
    case ending
    case closed
  }

  /// What is dropped of a request after its answer, and for how long.
  static let lingering = (bytes: 16 << 20, time: TimeAmount.seconds(5))

  let connections: ServedConnections
  private let connection: ServedConnection
  private let conversation: any HTTPConversation
  private let caller: Caller?
  let peer: LoopbackPeer?
  var state = State.idle {
    didSet { noteIdle() }
  }
  var context: ChannelHandlerContext?
  var exchange: HTTPExchange?
  var head: HTTPRequestHead?
  /// When the connection is closed; nil: it may take its time.
  var deadline: NIODeadline?
  /// When it is closed because its client does not read; nil: nothing waits for that.
  var writeDeadline: NIODeadline?
  var unwritten = 0
  var since = NIODeadline.now()
  private var dropped = 0
  var isStopping = false
  var isInRead = false
  var hasAnswerBegun = false
  /// What a request is answered when its answer has not begun by then.
  private var late: (due: NIODeadline, reply: HTTPReply)?
  /// What came behind the request that is being answered.
  private var waiting = CircularBuffer<Item>()
  private var isTaking = false
  var isPaused = false
  var whenWritable: (() -> Void)?
  /// The answer is as long as the connection.
  var endsWithConnection = false

  init(
    _ connections: ServedConnections, _ conversation: any HTTPConversation, _ connection: ServedConnection,
    caller: Caller?, peer: LoopbackPeer?
  ) {
    self.connections = connections
    self.connection = connection
    self.conversation = conversation
    self.caller = caller
    self.peer = peer
    deadline = since + TimeAmount(connections.limits.idle)
    noteIdle()
  }

  private func noteIdle() { connection.note(idleSince: isIdle ? since : nil) }

  var isIdle: Bool {
    switch state {
    case .idle, .inHead, .ending: true
    case .collecting, .streaming, .answering, .closed: false
    }
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { end() }

  func channelActive(context: ChannelHandlerContext) {
    setAutoRead(true)
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    isInRead = true
    take(.part(unwrapInboundIn(data)))
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    isInRead = false
    context.flush()
    // A part of a chunk's head, or of TLS, is none of a body.
    if case .streaming(let body) = state, body.isWanted { context.read() }
    context.fireChannelReadComplete()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable { whenWritable?() }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? HTTPParserError else { return close() }
    take(.failure(error))
  }

  /// In its order: what comes behind a request that is not answered waits.
  private func take(_ item: Item) {
    guard waiting.isEmpty, !isBusy else {
      waiting.append(item)
      return takeWaiting()
    }
    handle(item)
  }

  func takeWaiting() {
    guard !isTaking else { return }
    isTaking = true
    while !isBusy, let item = waiting.popFirst() { handle(item) }
    isTaking = false
    // A connection that is read on tells of its end. What comes behind a request is no more than one read, then.
    if isBusy, !waiting.isEmpty { pause() } else if !isBusy, !isStreaming { goOnReading() }
  }

  private var isStreaming: Bool { if case .streaming = state { true } else { false } }

  /// Whether a request is read to its end and not answered.
  private var isBusy: Bool { if case .answering = state { true } else { false } }

  private func pause() {
    guard !isPaused else { return }
    isPaused = true
    setAutoRead(false)
  }

  func goOnReading() {
    guard isPaused else { return }
    isPaused = false
    setAutoRead(true)
  }

  private func handle(_ item: Item) {
    switch item {
    case .part(let part): handle(part)
    case .failure(let error): handle(error)
    }
  }

  private func handle(_ part: HTTPServerRequestPart) {
    switch (part, state) {
    case (.head(let head), .idle), (.head(let head), .inHead): begin(head)
    case (.body(var bytes), .collecting(let head, var body, let limit)):
      guard body.readableBytes + bytes.readableBytes <= limit else { return refuseBody() }
      state = .closed
      body.writeBuffer(&bytes)
      state = .collecting(head, body, limit: limit)
    case (.end, .collecting(let head, let body, _)):
      state = .answering
      deadline = nil
      if let exchange { conversation.answer(head, body, exchange) }
    case (.body(let bytes), .streaming(let body)):
      deadline = nil
      body.yield(bytes)
    case (.end, .streaming(let body)):
      state = .answering
      deadline = nil
      body.finish(nil)
    case (.body(let bytes), .ending): drop(bytes.readableBytes)
    case (.head, _), (.body, _), (.end, _): break
    }
  }

  private func handle(_ error: HTTPParserError) {
    switch state {
    case .idle, .inHead, .collecting:
      switch error {
      case .headerOverflow:
        refuse(
          HTTPReply(
            .requestHeaderFieldsTooLarge, error: "head_too_large",
            "the request line and the headers have more than \(connections.limits.head) bytes"
          ).last())
      default: refuse(HTTPReply(.badRequest, error: "bad_request", "this is no HTTP/1.1 request").last())
      }
    // Framing that breaks in the middle of a body: nothing behind it is another request.
    case .streaming(let body):
      body.finish(.cut)
      guard !hasAnswerBegun else { return close() }
      refuse(HTTPReply(.badRequest, error: "bad_request", "the request's body is no HTTP/1.1").last())
    case .answering, .ending, .closed: break
    }
  }

  func bytesCame() {
    guard case .idle = state else { return }
    since = .now()
    state = .inHead
    deadline = since + TimeAmount(connections.limits.headTime)
  }

  // MARK: A request

  private func begin(_ head: HTTPRequestHead) {
    guard let context else { return }
    self.head = head
    hasAnswerBegun = false
    late = nil
    // The decoder reads nothing behind such a request, as another protocol could follow.
    isStopping = isStopping || head.headers.contains(name: "Upgrade") || head.method == .CONNECT
    let exchange = HTTPExchange(NIOLoopBound(self, eventLoop: context.eventLoop), context.channel, head, caller)
    self.exchange = exchange
    let check = HeadCheck(
      port: context.channel.localAddress?.port, servesBrowsers: connections.application.servesBrowsers)
    if let refusal = check.refusal(of: head) { return refuse(refusal) }
    switch conversation.intake(of: head) {
    case .refuse(let reply): refuse(reply)
    case .whole(let limit):
      if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limit {
        return refuseBody()
      }
      state = .collecting(head, ByteBuffer(), limit: limit)
      deadline = .now() + TimeAmount(connections.limits.stall)
      goOn(head)
    case .stream(let time, let reply):
      late = (.now() + TimeAmount(time), reply)
      let hasBody = Self.hasBody(head)
      let length = hasBody ? head.headers.first(name: "Content-Length").flatMap { Int($0) } : 0
      let body = HTTPRequestBody(length: length) { [weak self] in self?.wantsBody() }
      state = .streaming(body)
      // A body's time runs while it is wanted; all of it has the answer's.
      deadline = nil
      goOn(head)
      // From now on it is read as it is wanted. Where there is none, its end is here already.
      if hasBody { pause() }
      conversation.stream(head, body, exchange)
    }
  }

  private static func hasBody(_ head: HTTPRequestHead) -> Bool {
    head.headers.contains(name: "Transfer-Encoding")
      || head.headers.first(name: "Content-Length").map { $0 != "0" } ?? false
  }

  /// RFC 9110 §10.1.1.
  private func goOn(_ head: HTTPRequestHead) {
    guard let context, head.version == .http1_1, Self.hasBody(head), head.headers.contains(name: "Expect") else {
      return
    }
    context.writeAndFlush(
      wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
  }

  private func wantsBody() {
    guard case .streaming = state else { return }
    deadline = .now() + TimeAmount(connections.limits.stall)
    context?.read()
  }

  private func setAutoRead(_ isOn: Bool) {
    try? context?.channel.syncOptions?.setOption(.autoRead, value: isOn)
  }

  private func refuseBody() {
    refuse(HTTPReply(.payloadTooLarge, error: "body_too_large", "the request's body is too large"))
  }

  /// Answers without reading the rest of the request.
  private func refuse(_ reply: HTTPReply) {
    let reply = head.map(Self.hasBody) ?? true ? reply.last() : reply
    write(reply)
  }

  // MARK: Time and the end

  func checkTime(_ now: NIODeadline) {
    if let late, now >= late.due, !hasAnswerBegun, let exchange { return reply(late.reply, to: exchange) }
    if let writeDeadline, now >= writeDeadline { return close() }
    guard let deadline, now >= deadline else { return }
    switch state {
    case .inHead:
      refuse(HTTPReply(.requestTimeout, error: "timeout", "the request did not come in time").last())
    case .collecting:
      refuse(HTTPReply(.requestTimeout, error: "timeout", "the request's body did not come in time").last())
    case .streaming(let body):
      body.finish(.stalled)
      self.deadline = nil
    case .idle, .answering, .ending, .closed: close()
    }
  }

  private func drop(_ count: Int) {
    dropped += count
    if dropped > Self.lingering.bytes { close() }
  }

  func stop() {
    isStopping = true
    if isIdle { close() }
  }

  func close() { context?.close(promise: nil) }

  private func end() {
    if case .streaming(let body) = state { body.finish(.cut) }
    state = .closed
    context = nil
    whenWritable = nil
    exchange?.ended()
    exchange = nil
  }
}
