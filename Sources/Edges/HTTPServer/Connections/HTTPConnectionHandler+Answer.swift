import BrokerAPI
import Callers
import Listening
import NIOCore
import NIOHTTP1

// The answer to the request that is being handled: as a whole, or in parts.
extension HTTPConnectionHandler {
  /// The whole answer of an exchange; ignored if it was already answered.
  func reply(_ reply: HTTPReply, to exchange: HTTPExchange) {
    guard exchange === self.exchange, !response.hasBegun else { return }
    var reply = reply
    if case .streaming(let body) = state {
      // The rest of the body is not wanted.
      body.finish(.cut)
      reply.isLast = true
    }
    write(reply)
  }

  func write(_ reply: HTTPReply) {
    guard let context, isStillCaller() else { return close() }
    response.hasBegun = true
    response.isFromMemory = reply.isFromMemory
    let isLast = reply.isLast || isLastAnswer
    var headers = reply.headers
    // RFC 9110 §8.6.
    if reply.status.mayHaveResponseBody {
      headers.replaceOrAdd(name: "Content-Length", value: String(reply.body.readableBytes))
    }
    addConnection(&headers, isLast: isLast)
    context.write(
      wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: reply.status, headers: headers))),
      promise: nil)
    if head?.method != .HEAD, reply.body.readableBytes > 0 {
      context.write(wrapOutboundOut(.body(.byteBuffer(reply.body))), promise: nil)
    }
    exchange?.ended()
    exchange = nil
    response.whenWritable = nil
    finish(isLast: isLast)
  }

  /// Whether the connection ends with the answer to this request.
  private var isLastAnswer: Bool {
    isStopping || isOver || !connections.limits.keepsConnections || hasAskedAll || !(head?.isKeepAlive ?? false)
  }

  private func addConnection(_ headers: inout HTTPHeaders, isLast: Bool) {
    if isLast {
      headers.replaceOrAdd(name: "Connection", value: "close")
    } else if head?.version == .http1_0 {
      headers.replaceOrAdd(name: "Connection", value: "keep-alive")
    }
  }

  private func finish(isLast: Bool) {
    guard let context else { return }
    let written = context.eventLoop.makePromise(of: Void.self)
    track(written.futureResult)
    times.since = .now()
    times.latest = nil
    state = isLast ? .ending : .idle
    times.deadline = isLast ? nil : times.since + TimeAmount(connections.limits.idle)
    head = nil
    context.write(wrapOutboundOut(.end(nil)), promise: written)
    guard isLast else {
      if !output.isInRead { connections.flushes.add(context) }
      return goOn()
    }
    isOver = true
    input.isPaused = true
    goOnReading()
    endWhenSent(written.futureResult)
    context.flush()
  }

  /// The time in which a client may still send dropped data at the stop: closing earlier would reset the connection.
  private static let lingerAtStop = TimeAmount.milliseconds(500)

  /// - Parameter sent: all answers are with the kernel: the connection ends, at once or when the client has ended its side.
  private func endWhenSent(_ sent: EventLoopFuture<Void>) {
    sent.assumeIsolated().whenComplete { [self] result in
      if case .success = result { response.endsWithConnection = false }
      guard case .ending = state, case .success = result, !input.hasEnded else { return close() }
      times.deadline = .now() + (connections.isStopping ? Self.lingerAtStop : TimeAmount(connections.limits.linger))
      output.isSent = true
      note()
      self.context?.close(mode: .output, promise: nil)
    }
  }

  /// All answers are written, and there is nothing more to answer.
  func closeWhenSent() {
    guard let context else { return }
    exchange?.ended()
    exchange = nil
    isOver = true
    input.isPaused = true
    goOnReading()
    state = .ending
    times.deadline = nil
    let sent = context.eventLoop.makePromise(of: Void.self)
    track(sent.futureResult)
    endWhenSent(sent.futureResult)
    incoming.flush(sent)
  }

  /// Checked again before each answer: it goes only to the identified socket, and to no other with the same addresses.
  func isStillCaller() -> Bool {
    guard let peer, let channel = context?.channel else { return true }
    return HTTPConnection.peer(of: channel) == peer
  }

  // MARK: An answer in parts

  func begin(_ answer: HTTPResponseHead, of exchange: HTTPExchange) {
    guard let context, exchange === self.exchange, !response.hasBegun, isStillCaller() else { return close() }
    response.hasBegun = true
    note()
    var answer = answer
    var isLast = isLastAnswer
    // HTTP/1.0 knows no chunks: the connection's end is the answer's.
    if head?.version == .http1_0, !answer.headers.contains(name: "Content-Length") { isLast = true }
    exchange.isLast = isLast
    response.endsWithConnection =
      head?.version == .http1_0 && !answer.headers.contains(name: "Content-Length") && head?.method != .HEAD
    addConnection(&answer.headers, isLast: isLast)
    context.write(wrapOutboundOut(.head(answer)), promise: nil)
  }

  func write(_ bytes: ByteBuffer, of exchange: HTTPExchange) {
    guard let context, exchange === self.exchange, response.hasBegun, head?.method != .HEAD else { return }
    let written = context.eventLoop.makePromise(of: Void.self)
    context.write(wrapOutboundOut(.body(.byteBuffer(bytes))), promise: written)
    track(written.futureResult)
  }

  func flush(_ exchange: HTTPExchange) {
    guard let context, exchange === self.exchange, response.hasBegun else { return }
    context.flush()
  }

  func onWritable(_ exchange: HTTPExchange, _ action: @escaping () -> Void) {
    guard exchange === self.exchange else { return }
    response.whenWritable = action
  }

  func end(_ exchange: HTTPExchange) {
    guard exchange === self.exchange, response.hasBegun else { return }
    self.exchange = nil
    response.whenWritable = nil
    exchange.ended()
    if case .streaming(let body) = state {
      body.finish(.cut)
      // The client still sends: the data are read only to be dropped.
      return finish(isLast: true)
    }
    finish(isLast: exchange.isLast || isStopping || hasAskedAll)
  }

  /// An answer that cannot be completed: the client must see that it is cut.
  func abort(_ exchange: HTTPExchange) {
    guard exchange === self.exchange else { return }
    if !response.endsWithConnection { context?.flush() }
    close()
  }

  /// While bytes wait for a client that does not read, its time runs.
  private func track(_ written: EventLoopFuture<Void>) {
    output.unwritten += 1
    if output.unwritten == 1 { times.write = .now() + TimeAmount(connections.limits.stall) }
    written.assumeIsolated().whenComplete { [self] _ in
      output.unwritten -= 1
      times.write = output.unwritten == 0 ? nil : .now() + TimeAmount(connections.limits.stall)
      guard output.unwritten == 0 else { return }
      switch state {
      case .idle, .inHead: isStopping ? closeWhenSent() : note()
      case .collecting, .streaming, .answering, .ending, .closed: break
      }
    }
  }
}
