import BrokerAPI
import Callers
import Glibc
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
    case collecting(HTTPRequestHead, limit: Int)
    case streaming(HTTPRequestBody)
    /// The request is read to its end.
    case answering
    /// The answer is written and the connection ends: what the client still sends is dropped, since closing on it would
    /// reset the connection and might take the answer away.
    case ending
    case closed
  }

  /// What a connection may do at a time, in parts of requests, before others have their turn. A head costs more than a part
  /// of a body.
  private static let turn = 32
  private static let costOfHead = 8
  /// Bytes that are parsed at a time, in which there may be many requests; and of a body whose length is known.
  private static let slice = 2048
  private static let largeSlice = 65_536

  /// How long what a request still lacks of its body is waited for at the stop.
  private static let restOfBody = TimeAmount.seconds(1)

  let connections: ServedConnections
  let incoming: IncomingBytes
  let connection: HTTPConnection
  let conversation: any HTTPConversation
  let caller: Caller?
  let peer: LoopbackPeer?
  /// Whose turn it takes.
  let holder: Holder
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
  /// Parts and ends of answers that are not with the kernel.
  var unwritten = 0
  var since = NIODeadline.now()
  var isStopping = false
  /// Nothing that comes is looked at any more.
  var isOver = false {
    didSet {
      guard isOver else { return }
      waiting.removeAll()
      incoming.dropHeld()
    }
  }
  /// The client sends no more, so that there is nothing to wait for once it has its answer.
  var isInputOver = false
  /// The last answer was handed to the kernel.
  var isSent = false {
    didSet { note() }
  }
  var isInRead = false
  var hasAnswerBegun = false
  /// Of the body of the request that is being read.
  var collected = ByteBuffer()
  /// What a request is answered when its answer has not begun by then.
  var late: (due: NIODeadline, time: TimeAmount, reply: HTTPReply)?
  /// What is parsed and waits for the answer before, or for the connection's turn.
  private var waiting = CircularBuffer<Item>()
  private var isTaking = false
  /// What is left of its turn.
  private var credit = 0
  /// Something came that was not handled at once.
  private var isBehind = false
  /// It waits for its turn.
  private var isQueued = false
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
    holder = caller?.holder ?? connection.holder
    latest = connections.limits.request.map { since + TimeAmount($0) }
    let idle = since + TimeAmount(connections.limits.idle)
    deadline = latest.map { min($0, idle) } ?? idle
    note()
  }

  func note() { connection.note(progress, since: since) }

  private var progress: HTTPConnection.Progress {
    switch state {
    case .idle: unwritten > 0 ? .answering : isBehind ? .inBody : .silent
    case .inHead: unwritten > 0 ? .answering : isBehind ? .inBody : .inHead
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

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { take(.part(unwrapInboundIn(data))) }

  func channelReadComplete(context: ChannelHandlerContext) {
    context.flush()
    context.fireChannelReadComplete()
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      whenWritable?()
      goOn()
    }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? HTTPParserError else { return close() }
    take(.failure(error))
  }

  /// The client sends no more, and is told so by ``Item/end`` behind all that it sent.
  func inputCloses() {
    isInputOver = true
    // A client that is gone has ended its side too.
    guard isStillCaller() else { return close() }
    if isOver {
      if isSent { close() }
    } else {
      goOn()
    }
  }

  /// In its order.
  private func take(_ item: Item) {
    guard !isOver else { return }
    waiting.isEmpty && canTake ? handle(item) : waiting.append(item)
  }

  /// Whether it can take more now: not behind a request that is not answered, nor, where a client does not read its
  /// answers, another request; and no more at a time than a turn.
  private var canTake: Bool {
    guard credit > 0, !isOver, let context else { return false }
    return switch state {
    case .answering, .ending, .closed: false
    case .streaming: true
    case .idle, .inHead, .collecting: context.channel.isWritable
    }
  }

  /// Something came, or what stood before it is done.
  func goOn() {
    guard !isTaking, !isQueued else { return }
    credit = Self.turn
    isTaking = true
    while canTake {
      if let item = waiting.popFirst() {
        handle(item)
      } else if incoming.hasMore {
        incoming.parse(bodyLeft >= Self.largeSlice ? Self.largeSlice : Self.slice)
      } else {
        break
      }
    }
    isTaking = false
    guard !isOver, context != nil else { return }
    if isInputOver, !hasMore { return inputEnded() }
    if connections.isStopping {
      stop()
      if isOver { return }
    }
    if hasMore != isBehind {
      isBehind = hasMore
      note()
    }
    if credit <= 0, hasMore {
      isQueued = true
      connections.wait(self)
    }
    // A part of a chunk's head is none of a body.
    if case .streaming(let body) = state, body.isWanted, !hasMore { context?.read() }
    // A connection that is read on tells of its end. What comes behind a request is no more than one read, then.
    if hasMore { pause() } else if !isBusy, !isStreaming { goOnReading() }
  }

  /// What was read is here. What it writes is sent with the read's end.
  func goOnInRead() {
    isInRead = true
    goOn()
    isInRead = false
  }

  /// It has its turn again.
  func takeTurn() {
    isQueued = false
    guard context != nil else { return }
    goOnInRead()
    incoming.parsed()
  }

  /// Whether something came that is not handled.
  var hasMore: Bool { !waiting.isEmpty || incoming.hasMore }

  /// Bytes of a body that are still to come, where its length is known.
  private var bodyLeft: Int { if case .streaming(let body) = state { body.left } else { 0 } }

  private var isStreaming: Bool { if case .streaming = state { true } else { false } }

  /// The client sends no more, and all of it is handled but this request.
  var hasAskedAll: Bool { isInputOver && !hasMore && !incoming.isParsing }

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
    credit -= 1
    switch item {
    case .part(let part): handle(part)
    case .failure(let error): handle(error)
    }
  }

  private func handle(_ part: HTTPServerRequestPart) {
    switch (part, state) {
    case (.head(let head), .idle), (.head(let head), .inHead):
      credit -= Self.costOfHead
      begin(head)
    case (.body(var bytes), .collecting(_, let limit)):
      guard collected.readableBytes + bytes.readableBytes <= limit else { return refuse(.largeBody) }
      collected.writeBuffer(&bytes)
    case (.end, .collecting(let head, _)):
      let body = collected
      collected = ByteBuffer()
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
      if !hasAnswerBegun { refuse(.noHTTP) }
      body.finish(.cut)
      if case .streaming = state { close() }
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
    case .idle, .inHead, .collecting: closeWhenSent()
    case .streaming(let body):
      let hadBegun = hasAnswerBegun
      body.finish(.cut)
      // Unless it was answered for that.
      if case .streaming = state { hadBegun ? close() : closeWhenSent() }
    case .answering, .ending, .closed: break
    }
  }

  // MARK: Time and the end

  func checkTime(_ now: NIODeadline) {
    if let late, now >= late.due, !hasAnswerBegun, let exchange { return reply(late.reply, to: exchange) }
    if let writeDeadline, now >= writeDeadline { return close() }
    // A client that goes ends its side before the kernel says that nobody has it.
    if isInputOver, !isStillCaller() { return close() }
    // What it sent is here, and waits for its own answers to be read, or for its turn.
    guard let deadline, now >= deadline, !hasMore else { return }
    switch state {
    case .inHead: refuse(.lateHead)
    case .collecting: refuse(.lateBody)
    case .streaming(let body):
      self.deadline = nil
      body.finish(.stalled)
    case .idle, .answering, .ending, .closed: close()
    }
  }

  func stop() {
    isStopping = true
    if progress <= (connections.limits.keepsConnections ? .inHead : .inBody) {
      // Bytes that are not read would have the kernel drop answers that it has not sent yet.
      return hasMore || isPaused ? closeWhenSent() : close()
    }
    guard case .collecting = state else { return }
    let end = NIODeadline.now() + Self.restOfBody
    deadline = deadline.map { min($0, end) } ?? end
  }

  func close() {
    if endsWithConnection {
      // Its end would be the answer's: a reset is none.
      _ = (context?.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
    context?.close(promise: nil)
  }

  private func end() {
    if case .streaming(let body) = state { body.finish(.cut) }
    state = .closed
    waiting.removeAll()
    context = nil
    whenWritable = nil
    exchange?.ended()
    exchange = nil
  }
}
