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

  private enum State {
    /// Between requests.
    case idle
    /// A part of a head came.
    case inHead
    case collecting(HTTPRequestHead, ByteBuffer, limit: Int)
    case streaming(BodySource)
    /// The request is read to its end.
    case answering
    /// The answer is written and the connection ends: what the client still sends is dropped, since closing on it would
    /// reset the connection and might take the answer away.
    case ending
    case closed
  }

  /// What is dropped of a request after its answer, and for how long.
  private static let lingering = (bytes: 16 << 20, time: TimeAmount.seconds(5))

  private let connections: Connections
  private let conversation: any HTTPConversation
  private let caller: Caller?
  private let peer: LoopbackPeer?
  private var state = State.idle
  private var context: ChannelHandlerContext?
  private var exchange: HTTPExchange?
  private var head: HTTPRequestHead?
  /// When the connection is closed; nil: it may take its time.
  private var deadline: NIODeadline?
  private(set) var since = NIODeadline.now()
  private var dropped = 0
  private var isStopping = false
  private var isInRead = false
  private var hasAnswerBegun = false
  /// What a request is answered when its answer has not begun by then.
  private var late: (due: NIODeadline, reply: HTTPReply)?
  /// What came behind the request that is being answered.
  private var waiting = CircularBuffer<Item>()
  private var isTaking = false
  private var isPaused = false

  init(_ connections: Connections, _ conversation: any HTTPConversation, caller: Caller?, peer: LoopbackPeer?) {
    self.connections = connections
    self.conversation = conversation
    self.caller = caller
    self.peer = peer
    deadline = since + TimeAmount(connections.limits.idle)
  }

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
    context.fireChannelReadComplete()
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
    if isBusy { pause() }
  }

  private func takeWaiting() {
    guard !isTaking else { return }
    isTaking = true
    while !isBusy, let item = waiting.popFirst() { handle(item) }
    isTaking = false
    if isBusy { pause() } else { goOnReading() }
  }

  /// Whether a request is read to its end and not answered.
  private var isBusy: Bool { if case .answering = state { true } else { false } }

  private func pause() {
    guard !isPaused else { return }
    isPaused = true
    setAutoRead(false)
  }

  private func goOnReading() {
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
      deadline = .now() + TimeAmount(connections.limits.stall)
    case (.end, .collecting(let head, let body, _)):
      state = .answering
      deadline = nil
      if let exchange { conversation.answer(head, body, exchange) }
    case (.body(let bytes), .streaming(let source)):
      deadline = nil
      source.yield(bytes)
    case (.end, .streaming(let source)):
      state = .answering
      deadline = nil
      source.finish(nil)
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
    case .streaming(let source):
      source.finish(HTTPBodyError.cut)
      guard !hasAnswerBegun else { return close() }
      refuse(HTTPReply(.badRequest, error: "bad_request", "the request's body is no HTTP/1.1").last())
    case .answering, .ending, .closed: break
    }
  }

  func bytesCame() {
    guard case .idle = state else { return }
    state = .inHead
    since = .now()
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
    let check = HeadCheck(port: context.localAddress?.port, servesBrowsers: connections.application.servesBrowsers)
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
      let source = BodySource(
        want: { [bound = NIOLoopBound(self, eventLoop: context.eventLoop), loop = context.eventLoop] in
          loop.execute { bound.value.wantsBody() }
        })
      state = .streaming(source)
      goOn(head)
      let length =
        Self.hasBody(head) ? head.headers.first(name: "Content-Length").flatMap { Int($0) } : 0
      // From now on it is read as it is wanted.
      pause()
      conversation.stream(head, HTTPRequestBody(sequence: source.sequence, length: length), exchange)
      context.read()
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

  // MARK: The answer

  /// The whole answer of an exchange; nothing where it was answered already.
  func reply(_ reply: HTTPReply, to exchange: HTTPExchange) {
    guard exchange === self.exchange, !hasAnswerBegun else { return }
    var reply = reply
    if case .streaming(let source) = state {
      // The rest of the body is not wanted.
      source.finish(HTTPBodyError.cut)
      reply.isLast = true
    }
    write(reply)
  }

  private func write(_ reply: HTTPReply) {
    guard let context, isStillCaller() else { return close() }
    hasAnswerBegun = true
    let isLast = reply.isLast || isStopping || !(head?.isKeepAlive ?? false)
    var headers = reply.headers
    headers.replaceOrAdd(name: "Content-Length", value: String(reply.body.readableBytes))
    addConnection(&headers, isLast: isLast)
    context.write(
      wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: reply.status, headers: headers))),
      promise: nil)
    if head?.method != .HEAD, reply.body.readableBytes > 0 {
      context.write(wrapOutboundOut(.body(.byteBuffer(reply.body))), promise: nil)
    }
    exchange?.ended()
    exchange = nil
    finish(isLast: isLast, trailers: nil)
  }

  private func addConnection(_ headers: inout HTTPHeaders, isLast: Bool) {
    if isLast {
      headers.replaceOrAdd(name: "Connection", value: "close")
    } else if head?.version == .http1_0 {
      headers.replaceOrAdd(name: "Connection", value: "keep-alive")
    }
  }

  private func finish(isLast: Bool, trailers: HTTPHeaders?) {
    guard let context else { return }
    // Before the end is written, with which the next request may be handed over at once.
    state = isLast ? .ending : .idle
    since = .now()
    deadline = since + (isLast ? Self.lingering.time : TimeAmount(connections.limits.idle))
    head = nil
    let end = wrapOutboundOut(.end(trailers))
    guard isLast else {
      context.write(end, promise: nil)
      if !isInRead { context.flush() }
      return takeWaiting()
    }
    isPaused = true
    goOnReading()
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenComplete { [self] result in
      guard case .ending = state, case .success = result else { return close() }
      self.context?.close(mode: .output, promise: nil)
    }
    context.writeAndFlush(end, promise: written)
  }

  /// Asked again before each answer: what is handed out goes to the socket that was identified, and to no other
  /// that got its addresses.
  private func isStillCaller() -> Bool {
    guard let peer, let channel = context?.channel else { return true }
    return Connections.peer(of: channel) == peer
  }

  // MARK: An answer in parts

  func begin(_ answer: HTTPResponseHead, of exchange: HTTPExchange) -> EventLoopFuture<Void> {
    guard let context else { return exchange.channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
    guard exchange === self.exchange, !hasAnswerBegun, isStillCaller() else {
      close()
      return context.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
    }
    hasAnswerBegun = true
    var answer = answer
    var isLast = isStopping || !(head?.isKeepAlive ?? false)
    // HTTP/1.0 knows no chunks: the connection's end is the answer's.
    if head?.version == .http1_0, !answer.headers.contains(name: "Content-Length") { isLast = true }
    exchange.isLast = isLast
    addConnection(&answer.headers, isLast: isLast)
    return tracked(context.writeAndFlush(wrapOutboundOut(.head(answer))))
  }

  func write(_ bytes: ByteBuffer, of exchange: HTTPExchange) -> EventLoopFuture<Void> {
    guard let context, exchange === self.exchange, hasAnswerBegun else {
      return exchange.channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
    }
    guard head?.method != .HEAD else { return context.eventLoop.makeSucceededVoidFuture() }
    return tracked(context.writeAndFlush(wrapOutboundOut(.body(.byteBuffer(bytes)))))
  }

  func end(_ exchange: HTTPExchange) {
    guard exchange === self.exchange, hasAnswerBegun else { return }
    self.exchange = nil
    exchange.ended()
    if case .streaming = state {
      // The client still sends: what it sends is read on only to be dropped.
      return finish(isLast: true, trailers: nil)
    }
    settle(isLast: exchange.isLast)
  }

  private func settle(isLast: Bool = false) {
    finish(isLast: isLast || isStopping, trailers: nil)
  }

  /// An answer that cannot be completed: the client must see that it is cut.
  func abort(_ exchange: HTTPExchange) {
    guard exchange === self.exchange else { return }
    close()
  }

  /// While bytes wait for a client that does not read, its time runs.
  private func tracked(_ written: EventLoopFuture<Void>) -> EventLoopFuture<Void> {
    let isAnswering = if case .answering = state { true } else { false }
    if isAnswering { deadline = .now() + TimeAmount(connections.limits.stall) }
    written.assumeIsolated().whenComplete { [self] _ in
      if case .answering = state { deadline = nil }
    }
    return written
  }

  // MARK: Time and the end

  func checkTime(_ now: NIODeadline) {
    if let late, now >= late.due, !hasAnswerBegun, let exchange { return reply(late.reply, to: exchange) }
    guard let deadline, now >= deadline else { return }
    switch state {
    case .inHead:
      refuse(HTTPReply(.requestTimeout, error: "timeout", "the request did not come in time").last())
    case .collecting:
      refuse(HTTPReply(.requestTimeout, error: "timeout", "the request's body did not come in time").last())
    case .streaming(let source):
      source.finish(HTTPBodyError.stalled)
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
    if case .streaming(let source) = state { source.finish(HTTPBodyError.cut) }
    state = .closed
    context = nil
    exchange?.ended()
    exchange = nil
  }
}

/// Feeds a request's body to who reads it.
final class BodySource {
  let sequence: HTTPRequestBody.Producer
  private let source: HTTPRequestBody.Producer.Source
  private var isOver = false

  init(want: @escaping @Sendable () -> Void) {
    let new = NIOThrowingAsyncSequenceProducer.makeSequence(
      elementType: ByteBuffer.self, failureType: (any Error).self,
      backPressureStrategy: NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark(
        lowWatermark: 1, highWatermark: 4),
      finishOnDeinit: false, delegate: BodyDemand(want: want, end: {}))
    sequence = new.sequence
    source = new.source
    self.want = want
  }

  private let want: @Sendable () -> Void

  func yield(_ bytes: ByteBuffer) {
    guard !isOver else { return }
    switch source.yield(bytes) {
    case .produceMore: want()
    case .stopProducing: break
    case .dropped: isOver = true
    }
  }

  func finish(_ error: (any Error)?) {
    guard !isOver else { return }
    isOver = true
    if let error { source.finish(error) } else { source.finish() }
  }
}
