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
    /// The client sends no more.
    case end
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

  let connections: ServedConnections
  let incoming: IncomingBytes
  private let connection: HTTPConnection
  let conversation: any HTTPConversation
  let caller: Caller?
  let peer: LoopbackPeer?
  var state = State.idle {
    didSet { note() }
  }
  var context: ChannelHandlerContext?
  var exchange: HTTPExchange?
  var head: HTTPRequestHead?
  /// When the connection is closed; nil: it may take its time.
  var deadline: NIODeadline? {
    didSet { if let deadline, let latest, deadline > latest { self.deadline = latest } }
  }
  /// When its request must be whole; nil: it is, or may take its time.
  var latest: NIODeadline?
  /// When it is closed because its client does not read; nil: nothing waits for that.
  var writeDeadline: NIODeadline?
  var unwritten = 0
  var since = NIODeadline.now()
  var isStopping = false
  /// Nothing that comes is looked at any more.
  var isOver = false {
    didSet { if isOver { waiting.removeAll() } }
  }
  /// The client sends no more, so that there is nothing to wait for once it has its answer.
  var isInputOver = false
  /// The last answer was handed to the kernel.
  var isSent = false {
    didSet { note() }
  }
  var isInRead = false
  var hasAnswerBegun = false
  /// What a request is answered when its answer has not begun by then.
  var late: (due: NIODeadline, time: TimeAmount, reply: HTTPReply)?
  /// What came behind the request that is being answered.
  private var waiting = CircularBuffer<Item>()
  private var isTaking = false
  var isPaused = false
  var whenWritable: (() -> Void)?
  /// The answer is as long as the connection.
  var endsWithConnection = false

  init(
    _ connections: ServedConnections, _ conversation: any HTTPConversation, _ connection: HTTPConnection,
    _ incoming: IncomingBytes, caller: Caller?, peer: LoopbackPeer?
  ) {
    self.connections = connections
    self.incoming = incoming
    self.connection = connection
    self.conversation = conversation
    self.caller = caller
    self.peer = peer
    latest = connections.limits.request.map { since + TimeAmount($0) }
    let idle = since + TimeAmount(connections.limits.idle)
    deadline = latest.map { min($0, idle) } ?? idle
    note()
  }

  private func note() { connection.note(progress, since: since) }

  private var progress: HTTPConnection.Progress {
    switch state {
    case .idle: .silent
    case .inHead: .inHead
    case .collecting: .inBody
    case .streaming, .answering: .handling
    case .ending: isSent ? .over : .answering
    case .closed: .over
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

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case ChannelEvent.inputClosed = event else { return context.fireUserInboundEventTriggered(event) }
    isInputOver = true
    // A client that is gone has ended its side too.
    isStillCaller() ? take(.end) : close()
  }

  /// In its order: what comes behind a request that is not answered waits.
  private func take(_ item: Item) {
    if isOver {
      if case .end = item, isSent { close() }
      return
    }
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

  /// The client sends no more, and nothing but that waits behind this request.
  var hasAskedAll: Bool { isInputOver && waiting.count <= 1 }

  /// Whether a request is read to its end and not answered.
  private var isBusy: Bool { if case .answering = state { true } else { false } }

  func setAutoRead(_ isOn: Bool) {
    try? context?.channel.syncOptions?.setOption(.autoRead, value: isOn)
  }

  func pause() {
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
    case .end: inputEnded()
    }
  }

  private func handle(_ part: HTTPServerRequestPart) {
    switch (part, state) {
    case (.head(let head), .idle), (.head(let head), .inHead): begin(head)
    case (.body(var bytes), .collecting(let head, var body, let limit)):
      guard body.readableBytes + bytes.readableBytes <= limit else { return refuse(.largeBody) }
      state = .closed
      body.writeBuffer(&bytes)
      state = .collecting(head, body, limit: limit)
    case (.end, .collecting(let head, let body, _)):
      if !connections.limits.keepsConnections { isOver = true }
      answer(head, body)
    case (.body(let bytes), .streaming(let body)):
      deadline = nil
      restartLate()
      body.yield(bytes)
    case (.end, .streaming(let body)):
      state = .answering
      deadline = nil
      restartLate()
      body.finish(nil)
    case (.head, _), (.body, _), (.end, _): break
    }
  }

  /// A body that moves may take any time; the answer has its time from the latest part of it.
  private func restartLate() {
    if let time = late?.time { late?.due = .now() + time }
  }

  private func handle(_ error: HTTPParserError) {
    switch state {
    case .idle, .inHead, .collecting: if case .headerOverflow = error { refuse(.largeHead) } else { refuse(.noHTTP) }
    // Framing that breaks in the middle of a body: nothing behind it is another request.
    case .streaming(let body):
      body.finish(.cut)
      hasAnswerBegun ? close() : refuse(.noHTTP)
    case .answering, .ending, .closed: break
    }
  }

  /// The first byte of a request came.
  func headBegins() {
    since = .now()
    state = .inHead
    deadline = since + TimeAmount(connections.limits.headTime)
  }

  /// The client sends no more, and all that it asked is answered.
  private func inputEnded() {
    switch state {
    case .idle: closeWhenSent()
    case .inHead, .collecting, .streaming: close()
    case .answering, .ending, .closed: break
    }
  }

  // MARK: Time and the end

  func checkTime(_ now: NIODeadline) {
    if let late, now >= late.due, !hasAnswerBegun, let exchange { return reply(late.reply, to: exchange) }
    if let writeDeadline, now >= writeDeadline { return close() }
    // A client that goes ends its side before the kernel says that nobody has it.
    if isInputOver, !isStillCaller() { return close() }
    guard let deadline, now >= deadline else { return }
    switch state {
    case .inHead: refuse(.lateHead)
    case .collecting: refuse(.lateBody)
    case .streaming(let body):
      body.finish(.stalled)
      self.deadline = nil
    case .idle, .answering, .ending, .closed: close()
    }
  }

  func stop() {
    isStopping = true
    if progress <= (connections.limits.keepsConnections ? .inHead : .inBody) { close() }
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
