import BrokerAPI
import Callers
import Listening
import NIOCore
import NIOHTTP1

// The answer to the request that is being handled: as a whole, or in parts.
extension HTTPConnectionHandler {
  /// The whole answer of an exchange; ignored if it was already answered.
  func reply(_ reply: HTTPReply, to exchange: HTTPExchange) {
    guard exchange === self.exchange, !state.hasBegun else { return }
    guard let body = state.body else { return write(reply) }
    var reply = reply
    reply.isLast = true
    write(reply)
    // The rest of the body is not wanted. Its end may lead to another answer, which is ignored.
    body.finish(.cut)
  }

  func write(_ reply: HTTPReply) {
    guard let context, isStillCaller() else { return close() }
    let isLast = reply.isLast || state.isLastAnswer(hasMore: hasMoreRequests)
    let head = state.head
    state.begin()
    response.isFromMemory = reply.isFromMemory
    var headers = reply.headers
    // RFC 9110 §8.6.
    if reply.status.mayHaveResponseBody {
      headers.replaceOrAdd(name: "Content-Length", value: String(reply.body.readableBytes))
    }
    addConnection(&headers, isLast: isLast, head)
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

  /// - Parameter head: that of the request; nil: it was refused before that.
  private func addConnection(_ headers: inout HTTPHeaders, isLast: Bool, _ head: HTTPRequestHead?) {
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
    state.answered(isLast: isLast)
    times.deadline = isLast ? nil : times.since + TimeAmount(connections.limits.idle)
    context.write(wrapOutboundOut(.end(nil)), promise: written)
    guard isLast else {
      if !flow.isInRead { connections.flushes.add(context) }
      return goOn()
    }
    dropInput()
    flow.isReadingPaused = true
    goOnReading()
    endWhenSent(written.futureResult)
    context.flush()
  }

  /// The time in which a client may still send dropped data at the stop: closing earlier would reset the connection.
  private static let lingerAtStop = TimeAmount.milliseconds(500)

  /// - Parameter sent: all answers are with the kernel: the connection ends, at once or when the client has ended its side.
  private func endWhenSent(_ sent: EventLoopFuture<Void>) {
    sent.assumeIsolated().whenComplete { [self] result in
      let isSent = if case .success = result { true } else { false }
      guard !state.sent(isSent) else { return close() }
      times.deadline = .now() + (connections.isStopping ? Self.lingerAtStop : TimeAmount(connections.limits.linger))
      self.context?.close(mode: .output, promise: nil)
    }
  }

  /// All answers are written, and there is nothing more to answer.
  func closeWhenSent() {
    guard let context else { return }
    exchange?.ended()
    exchange = nil
    dropInput()
    flow.isReadingPaused = true
    goOnReading()
    state.end()
    times.deadline = nil
    let sent = context.eventLoop.makePromise(of: Void.self)
    track(sent.futureResult)
    endWhenSent(sent.futureResult)
    incoming.flush(sent)
  }

  /// Checked again before each answer: it goes only to the identified socket, and to no other with the same addresses.
  func isStillCaller() -> Bool {
    guard let peer = client.peer, let channel = context?.channel else { return true }
    return HTTPConnection.peer(of: channel) == peer
  }

  // MARK: An answer in parts

  func begin(_ answer: HTTPResponseHead, of exchange: HTTPExchange) {
    guard let context, exchange === self.exchange, !state.hasBegun, isStillCaller() else { return close() }
    var answer = answer
    let isLast = state.begin(
      hasLength: answer.headers.contains(name: "Content-Length"), hasMore: hasMoreRequests)
    addConnection(&answer.headers, isLast: isLast, state.head)
    context.write(wrapOutboundOut(.head(answer)), promise: nil)
  }

  func write(_ bytes: ByteBuffer, of exchange: HTTPExchange) {
    guard let context, exchange === self.exchange, state.hasBegun, state.head?.method != .HEAD else { return }
    let written = context.eventLoop.makePromise(of: Void.self)
    context.write(wrapOutboundOut(.body(.byteBuffer(bytes))), promise: written)
    track(written.futureResult)
  }

  func flush(_ exchange: HTTPExchange) {
    guard let context, exchange === self.exchange, state.hasBegun else { return }
    context.flush()
  }

  func onWritable(_ exchange: HTTPExchange, _ action: @escaping () -> Void) {
    guard exchange === self.exchange else { return }
    response.whenWritable = action
  }

  func end(_ exchange: HTTPExchange) {
    guard exchange === self.exchange, state.hasBegun else { return }
    self.exchange = nil
    response.whenWritable = nil
    exchange.ended()
    let isLast = state.isLast(hasMore: hasMoreRequests)
    state.body?.finish(.cut)
    finish(isLast: isLast)
  }

  /// An answer that cannot be completed: the client must see that it is cut.
  func abort(_ exchange: HTTPExchange) {
    guard exchange === self.exchange else { return }
    if !state.isCut { context?.flush() }
    close()
  }

  /// While bytes wait for a client that does not read, its time runs.
  private func track(_ written: EventLoopFuture<Void>) {
    flow.unwritten += 1
    if flow.unwritten == 1 { times.write = .now() + TimeAmount(connections.limits.stall) }
    written.assumeIsolated().whenComplete { [self] _ in
      flow.unwritten -= 1
      times.write = flow.unwritten == 0 ? nil : .now() + TimeAmount(connections.limits.stall)
      guard flow.unwritten == 0, state.isBetweenRequests else { return }
      if state.isStopping { closeWhenSent() } else { recordProgress() }
    }
  }
}
