import Callers
import Glibc
import Listening
import NIOCore
import NIOHTTP1
import Principals

/// One connection: its requests, one after the other. Lives on its loop.
final class HTTPConnectionHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  enum State {
    /// Between requests.
    case idle
    /// A part of a head came.
    case inHead
    case collecting(HTTPRequestHead, limit: Int)
    case streaming(HTTPRequestBody)
    /// The request is read to its end.
    case answering
    /// The answer is written and the connection ends: further input is dropped, since closing would reset the
    /// connection and could lose the answer.
    case ending
    case closed
  }

  /// How long the rest of a request's body is awaited at the stop.
  private static let restOfBody = TimeAmount.seconds(1)

  /// The end of the current limit.
  struct Times {
    /// The limit of its current state.
    var since = NIODeadline.now()
    /// When the connection is closed; nil: it may take its time.
    var deadline: NIODeadline? {
      didSet { if let deadline, let latest, deadline > latest { self.deadline = latest } }
    }
    /// When its request must be whole; nil: it is, or may take its time.
    var latest: NIODeadline?
    /// When it is closed because its client does not read; nil: nothing waits for that.
    var write: NIODeadline?
    /// The answer to a request that has none by then.
    var late: (due: NIODeadline, time: TimeAmount, reply: HTTPReply)?
  }

  /// The answer to the request that is being handled.
  struct Response {
    var hasBegun = false
    /// It is not counted in the rate of the caller.
    var isFromMemory = false
    /// It is as long as the connection.
    var endsWithConnection = false
    var whenWritable: (() -> Void)?
  }

  struct Output {
    /// Parts and ends of answers that are not with the kernel.
    var unwritten = 0
    /// The last answer is with the kernel.
    var isSent = false
    /// Output is sent at the end of the current read.
    var isInRead = false
  }

  struct Input {
    var isPaused = false
    /// The client sends no more, so that there is nothing to wait for once it has its answer.
    var hasEnded = false
  }

  let connections: ServedConnections
  let incoming: IncomingBytes
  let connection: HTTPConnection
  let conversation: any HTTPConversation
  let caller: Caller?
  let share: Share
  var pace: Pace<HTTPConnectionHandler>?
  let peer: LoopbackPeer?
  var context: ChannelHandlerContext?
  var state = State.idle {
    didSet { note() }
  }
  var exchange: HTTPExchange?
  var head: HTTPRequestHead?
  /// The body of the request that is being read.
  var collected = ByteBuffer()
  var response = Response()
  var times = Times()
  var turn = Turn()
  var input = Input()
  var output = Output()
  var isStopping = false
  /// Nothing that comes is looked at any more.
  var isOver = false {
    didSet {
      guard isOver else { return }
      turn.waiting.removeAll()
      incoming.dropHeld()
    }
  }

  init(
    _ connections: ServedConnections, _ conversation: any HTTPConversation, _ connection: HTTPConnection,
    _ incoming: IncomingBytes, caller: Caller?, of share: Share, _ pace: Pace<HTTPConnectionHandler>?,
    peer: LoopbackPeer?
  ) {
    self.connections = connections
    self.incoming = incoming
    self.connection = connection
    self.conversation = conversation
    self.caller = caller
    self.share = share
    self.pace = pace
    self.peer = peer
    times.latest = connections.limits.request.map { times.since + TimeAmount($0) }
    let idle = times.since + TimeAmount(connections.limits.idle)
    times.deadline = times.latest.map { min($0, idle) } ?? idle
    note()
  }

  func note() { connection.note(progress, since: times.since) }

  private var progress: HTTPConnection.Progress {
    switch state {
    case .idle: output.unwritten > 0 ? .answering : turn.isBehind ? .inBody : .silent
    case .inHead: output.unwritten > 0 ? .answering : turn.isBehind ? .inBody : .inHead
    case .collecting: .inBody
    case .streaming: response.hasBegun ? .handling : .uploading
    case .answering: .handling
    case .ending: output.isSent ? .over : .answering
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
      response.whenWritable?()
      goOn()
    }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? HTTPParserError else { return close() }
    take(.failure(error))
  }

  func setAutoRead(_ isOn: Bool) {
    try? context?.channel.syncOptions?.setOption(.autoRead, value: isOn)
  }

  func pause() {
    guard !input.isPaused else { return }
    input.isPaused = true
    setAutoRead(false)
  }

  func goOnReading() {
    guard input.isPaused else { return }
    input.isPaused = false
    setAutoRead(true)
  }

  /// The first byte of a request came.
  func headBegins() {
    times.since = .now()
    state = .inHead
    times.deadline = times.since + TimeAmount(connections.limits.headTime)
  }

  // MARK: Time and the end

  func checkTime(_ now: NIODeadline) {
    if let late = times.late, now >= late.due, !response.hasBegun, let exchange {
      return reply(late.reply, to: exchange)
    }
    if let write = times.write, now >= write { return close() }
    // A closing client ends its side before the kernel reports that it has no owner.
    if input.hasEnded, !isStillCaller() { return close() }
    // Its input has arrived, and waits until its own answers are read, or for its slot.
    guard let deadline = times.deadline, now >= deadline, !hasMore else { return }
    switch state {
    case .inHead: refuse(.lateHead)
    case .collecting: refuse(.lateBody)
    case .streaming(let body):
      times.deadline = nil
      body.finish(.stalled)
    case .idle, .answering, .ending, .closed: close()
    }
  }

  func stop() {
    isStopping = true
    // It has a request that is handled when its turn comes.
    guard !turn.isQueued else { return }
    // Its user has sent too many requests for the time that is left.
    if turn.isPaced { return closeWhenSent() }
    if progress <= (connections.limits.keepsConnections ? .inHead : .inBody) {
      // Bytes that are not read would have the kernel drop answers that it has not sent yet.
      return hasMore || input.isPaused ? closeWhenSent() : close()
    }
    guard case .collecting = state else { return }
    let end = NIODeadline.now() + Self.restOfBody
    times.deadline = times.deadline.map { min($0, end) } ?? end
  }

  func close() {
    if response.endsWithConnection {
      // Its end would be the answer's: a reset is none.
      _ = (context?.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
    context?.close(promise: nil)
  }

  private func end() {
    if case .streaming(let body) = state { body.finish(.cut) }
    state = .closed
    turn.waiting.removeAll()
    context = nil
    response.whenWritable = nil
    exchange?.ended()
    exchange = nil
  }
}
