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
    /// It is not counted in the rate of the caller.
    var isFromMemory = false
    var whenWritable: (() -> Void)?
  }

  /// The bytes of both directions.
  struct Flow {
    var isReadingPaused = false
    /// Output is sent at the end of the current read.
    var isInRead = false
    /// Parts and ends of answers that are not with the kernel.
    var unwritten = 0
  }

  /// The other end, and on whose account it is counted.
  struct Client {
    let caller: Caller?
    let share: Share
    var pace: Pace<HTTPConnectionHandler>?
    /// A TCP connection's other end.
    let peer: LoopbackPeer?
  }

  let connections: ServedConnections
  let incoming: IncomingBytes
  let connection: HTTPConnection
  let conversation: any HTTPConversation
  var client: Client
  var context: ChannelHandlerContext?
  var state: HTTPConnectionState {
    didSet { recordProgress() }
  }
  var exchange: HTTPExchange?
  var response = Response()
  var times = Times()
  var turn = Turn()
  var flow = Flow()

  init(
    _ connections: ServedConnections, _ conversation: any HTTPConversation, _ connection: HTTPConnection,
    _ incoming: IncomingBytes, _ client: Client
  ) {
    self.connections = connections
    self.incoming = incoming
    self.connection = connection
    self.conversation = conversation
    self.client = client
    state = HTTPConnectionState(keepsConnections: connections.limits.keepsConnections)
    times.latest = connections.limits.request.map { times.since + TimeAmount($0) }
    let idle = times.since + TimeAmount(connections.limits.idle)
    times.deadline = times.latest.map { min($0, idle) } ?? idle
    recordProgress()
  }

  /// False: its place was taken away.
  @discardableResult
  func recordProgress() -> Bool { connection.record(state.progress(load), since: times.since) }

  private var load: HTTPConnectionState.Load {
    HTTPConnectionState.Load(isWriting: flow.unwritten > 0, isBehind: turn.isBehind)
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

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { receive(.part(unwrapInboundIn(data))) }

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
    receive(.failure(error))
  }

  func setAutoRead(_ isOn: Bool) {
    try? context?.channel.syncOptions?.setOption(.autoRead, value: isOn)
  }

  func pause() {
    guard !flow.isReadingPaused else { return }
    flow.isReadingPaused = true
    setAutoRead(false)
  }

  func goOnReading() {
    guard flow.isReadingPaused else { return }
    flow.isReadingPaused = false
    setAutoRead(true)
  }

  /// The first byte of a request came.
  func headBegins() {
    times.since = .now()
    state.headBegan()
    times.deadline = times.since + TimeAmount(connections.limits.headTime)
  }

  // MARK: Time and the end

  func checkTime(_ now: NIODeadline) {
    if let late = times.late, now >= late.due, !state.hasBegun, let exchange {
      return reply(late.reply, to: exchange)
    }
    if let write = times.write, now >= write { return close() }
    // A closing client ends its side before the kernel reports that it has no owner.
    if state.hasInputEnded, !isStillCaller() { return close() }
    // Its input has arrived, and waits until its own answers are read, or for its slot.
    guard let deadline = times.deadline, now >= deadline, !hasMore else { return }
    perform(state.timedOut())
  }

  func stop() {
    let wait: HTTPConnectionState.Wait? = turn.isQueued ? .turn : turn.isPaced ? .pace : nil
    switch state.stop(load, wait, isUnread: hasMore || flow.isReadingPaused) {
    case .nothing: break
    case .close: close()
    case .closeWhenSent: closeWhenSent()
    case .hurry:
      let end = NIODeadline.now() + Self.restOfBody
      times.deadline = times.deadline.map { min($0, end) } ?? end
    }
  }

  func close() {
    if state.isCut {
      // A reset is not the end of an answer.
      _ = (context?.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
    context?.close(promise: nil)
  }

  private func end() {
    state.body?.finish(.cut)
    state.close()
    turn.waiting.removeAll()
    context = nil
    response.whenWritable = nil
    exchange?.ended()
    exchange = nil
  }
}
