import BrokerAPI
import Glibc
import Logging
import NIOCore

/// One connection on its event loop. A plain cached `token.get` is answered here, in the turn that read it; every other
/// line goes to ``Answering``. What a turn answers is written in one piece.
final class ConnectionHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// Memory for replies that an idle connection keeps.
  private static let keptCapacity = 32 * 1024

  private let answering: Answering
  private let dispatcher: any Dispatcher
  private let table: ConnectionTable
  private let limits: SocketServer.Limits
  private let logger: Logger

  private var context: ChannelHandlerContext?
  private var connection: Connection?
  private var tokens: (any CachedTokens)?
  private var framer: LineFramer
  private var outgoing = ByteBuffer()
  /// How many of its bytes are notifications.
  private var outgoingNotifications = 0
  private var isWritable = true
  /// The channel would read more; we have to catch up first.
  private var isReadHeld = false
  private var hasInputEnded = false
  private var isClosing = false

  private var activity = 0
  private var idle = (activity: 0, since: NIODeadline.uptimeNanoseconds(0))
  private var unfinished: (line: Int, since: NIODeadline)?

  init(dispatcher: any Dispatcher, table: ConnectionTable, limits: SocketServer.Limits, logger: Logger) {
    answering = Answering(dispatcher: dispatcher, table: table)
    self.dispatcher = dispatcher
    self.table = table
    self.limits = limits
    self.logger = logger
    framer = LineFramer(limit: limits.line)
  }

  // MARK: the channel's life

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelActive(context: ChannelHandlerContext) {
    idle.since = .now()
    let identified = try? context.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self
    ) { socket -> (Connection, CredentialName?)? in
      guard let peer = Peer(of: socket) else { return nil }
      let connection = Connection(
        peer: peer, handler: self, eventLoop: context.eventLoop, table: table, limits: limits)
      return (connection, CredentialPeer.name(of: socket))
    }
    guard let (connection, wanted) = identified ?? nil else {
      logger.warning("a connection was refused: the kernel does not say whose it is")
      isClosing = true
      context.close(promise: nil)
      return
    }
    if let wanted {
      refuse(wanted, connection, context)
    } else if table.isDraining {
      refuse(Answering.shuttingDown, context)
    } else if let limit = table.admit(connection) {
      if let others = table.refused(at: .now()) {
        logger.warning(
          "a connection was refused: \(limit) are open\(others > 0 ? "; \(others) more before it" : "")",
          metadata: ["uid": "\(connection.caller.uid)"])
      }
      refuse(RPCError(.overloaded, "too many connections: \(limit) are open"), context)
    } else {
      self.connection = connection
      tokens = dispatcher.cachedTokens(for: connection.caller)
    }
  }

  /// The service manager reads a credential where programs ask: nothing, and any answer of ours, would be the credential.
  private func refuse(_ wanted: CredentialName, _ connection: Connection, _ context: ChannelHandlerContext) {
    isClosing = true
    guard table.admit(connection) == nil else { return context.close(promise: nil) }
    self.connection = connection
    if let others = table.refused(at: .now()) {
      let before = others > 0 ? " (\(others) more refused before it)" : ""
      logger.warning(
        "credential \(wanted.id) for \(wanted.unit) refused: LoadCredential= must name credentials.sock\(before)",
        metadata: ["uid": "\(connection.caller.uid)", "unit": "\(wanted.unit)"])
    }
    let times = CredentialServer.Limits()
    let isManagers = [0, geteuid()].contains(connection.caller.uid)
    closeWhenRead(context, CredentialHandler.refusal, within: isManagers ? times.write : times.foreignWrite)
  }

  func channelInactive(context: ChannelHandlerContext) {
    isClosing = true
    connection?.closed()
    connection = nil
    tokens = nil
    context.fireChannelInactive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case .some(.inputClosed) = event as? ChannelEvent else {
      context.fireUserInboundEventTriggered(event)
      return
    }
    hasInputEnded = true
    // A last line without a newline counts: `printf '{…}' | nc -U …` is a fair question.
    if !framer.isStopped, framer.isInsideLine { framer.feed(ByteBuffer(staticString: "\n")) }
    takeLines()
    catchUp(context)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    logger.debug("a connection failed: \(error)")
    context.close(promise: nil)
  }

  // MARK: reading

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    activity &+= 1
    connection?.noteAsked()
    framer.feed(unwrapInboundIn(data))
    takeLines()
  }

  func channelReadComplete(context: ChannelHandlerContext) { catchUp(context) }

  func read(context: ChannelHandlerContext) {
    isReadHeld = isPaused
    if !isReadHeld { context.read() }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    isWritable = context.channel.isWritable
    if isWritable { catchUp(context) }
  }

  /// Too much is unanswered or unread by the client: nothing more is taken from it.
  private var isFull: Bool {
    guard let connection, !isClosing, isWritable else { return true }
    return connection.running >= limits.requestsInFlight
  }

  private var isPaused: Bool { framer.isStopped || isFull }

  private func takeLines() {
    guard let connection, !isClosing else { return }
    framer.takeLines { frame in
      switch frame {
      case .line(let line): answer(line, connection)
      case .tooLong:
        let error = RPCError.invalidRequest("line longer than \(limits.line) bytes")
        outgoing.writeBytes(RPCReply.failure(.null, error).line())
      }
      return connection.running < limits.requestsInFlight && outgoing.readableBytes < limits.outbound
    }
  }

  private func answer(_ line: UnsafeRawBufferPointer, _ connection: Connection) {
    if let plain = PlainTokenGet.scan(line), !table.isDraining {
      let account = UnsafeRawBufferPointer(rebasing: line[plain.account])
      if let reply = tokens?.reply(account: account, minTTL: plain.minTTL) {
        outgoing.write(reply, id: UnsafeRawBufferPointer(rebasing: line[plain.id]))
        return
      }
    }
    guard line.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return }
    connection.begin(1)
    answering.start([UInt8](line), on: connection)
  }

  // MARK: writing

  /// Takes the replies and notifications that tasks left in the outbox.
  func sendOutbox() {
    guard let context, let connection else { return }
    let (outbox, isOverflown) = connection.takeOutbox()
    if isOverflown {
      logger.notice(
        "a client does not read its notifications: closed", metadata: ["pid": "\(connection.caller.pid)"])
      context.close(promise: nil)
      return
    }
    if outbox.finished > 0 { activity &+= 1 }
    outgoingNotifications += outbox.notificationBytes
    if outgoing.readableBytes == 0 {
      outgoing = outbox.bytes
    } else {
      outgoing.writeImmutableBuffer(outbox.bytes)
    }
    catchUp(context)
  }

  /// Writes what was answered, then goes on where it was held up.
  private func catchUp(_ context: ChannelHandlerContext) {
    flush(context)
    while framer.isStopped, !isFull {
      takeLines()
      flush(context)
    }
    if isReadHeld, !isPaused {
      isReadHeld = false
      context.read()
    }
    if hasInputEnded, !framer.isStopped, connection?.running == 0 { closeWhenWritten(context) }
  }

  /// Writes what there is, unless the client has too much to read already.
  private func flush(_ context: ChannelHandlerContext) {
    guard outgoing.readableBytes > 0, isWritable || isClosing else { return }
    // Taken out first: writing may call back into this handler.
    var bytes = ByteBuffer()
    swap(&bytes, &outgoing)
    context.writeAndFlush(wrapOutboundOut(bytes), promise: notificationsWritten(context))
    if outgoing.capacity == 0, bytes.capacity <= Self.keptCapacity {
      bytes.clear()
      outgoing = bytes
    }
  }

  /// Counts the notifications that are written now as read, once the kernel has them.
  private func notificationsWritten(_ context: ChannelHandlerContext) -> EventLoopPromise<Void>? {
    guard outgoingNotifications > 0, let connection else { return nil }
    let bytes = outgoingNotifications
    outgoingNotifications = 0
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.whenComplete { _ in connection.notificationsWritten(bytes) }
    return written
  }

  private func refuse(_ error: RPCError, _ context: ChannelHandlerContext) {
    outgoing.writeBytes(RPCReply.failure(.null, error).line())
    closeWhenWritten(context)
  }

  /// Closes as soon as the client has read everything, or has had its time to.
  private func closeWhenWritten(_ context: ChannelHandlerContext) {
    guard !isClosing else { return }
    isClosing = true
    flush(context)
    closeWhenRead(context, ByteBuffer(), within: limits.linger)
  }

  private func closeWhenRead(_ context: ChannelHandlerContext, _ last: ByteBuffer, within limit: Duration) {
    let channel = context.channel
    let lingering = context.eventLoop.scheduleTask(in: TimeAmount(limit)) { channel.close(promise: nil) }
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.whenComplete { _ in
      lingering.cancel()
      channel.close(promise: nil)
    }
    context.writeAndFlush(wrapOutboundOut(last), promise: written)
  }

  /// The server has drained. From now on the client can send nothing more, and learns so at once; what it has sent
  /// before is still answered: the input ends behind it.
  func finish() {
    guard let context, !isClosing else { return }
    sendOutbox()
    guard !isPaused, stopReceiving(context) else { return closeWhenWritten(context) }
    let channel = context.channel
    let lingering = context.eventLoop.scheduleTask(in: TimeAmount(limits.linger)) { channel.close(promise: nil) }
    channel.closeFuture.whenComplete { _ in lingering.cancel() }
  }

  /// Not by NIO, which would throw away what has come and was not read.
  private func stopReceiving(_ context: ChannelHandlerContext) -> Bool {
    let result = try? context.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self
    ) { socket in shutdown(socket, Int32(SHUT_RD)) }
    return (result ?? nil) == 0
  }

  // MARK: time-outs

  func tick(_ now: NIODeadline) {
    guard let context, let connection, !isClosing else { return }
    if limits.partialLine > .zero, framer.isInsideLine {
      if let unfinished, unfinished.line == framer.lines {
        if now - unfinished.since >= TimeAmount(limits.partialLine) {
          return refuse(.invalidRequest("the line was not finished within \(limits.partialLine)"), context)
        }
      } else {
        unfinished = (framer.lines, now)
      }
    } else {
      unfinished = nil
    }
    // The last answer may have been a token: a quiet connection keeps no buffer.
    if activity == idle.activity, outgoing.readableBytes == 0 { outgoing = ByteBuffer() }
    let limit = connection.isHeldOpen ? limits.idleSubscribed : limits.idle
    if connection.running > 0 || activity != idle.activity {
      idle = (activity, now)
    } else if limit > .zero, now - idle.since >= TimeAmount(limit) {
      logger.debug("a connection was idle: closed", metadata: ["pid": "\(connection.caller.pid)"])
      closeWhenWritten(context)
    }
  }
}
