import Broker
import Logging
import NIOCore
import NIOHTTP1

/// One connection: one request, one answer, the end.
final class Connection: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private enum State {
    case reading(timeout: Scheduled<Void>)
    case handling(deadline: Scheduled<Void>)
    case answering(cut: Scheduled<Void>)
    /// The answer is written; what the client still sends is read and dropped, since closing on it would reset the
    /// connection and might take the page away.
    case answered(cut: Scheduled<Void>)
    case closed
  }

  private let reception: Reception
  private let intake: Intake
  private var state = State.closed
  private var channelContext: ChannelHandlerContext?
  /// The client will send no more, so that there is nothing to wait for once it has its answer.
  private var isInputOver = false
  private var isStopping = false

  private var limits: CallbackListener.Limits { reception.context.limits }

  init(reception: Reception, intake: Intake) {
    self.reception = reception
    self.intake = intake
  }

  func handlerAdded(context: ChannelHandlerContext) {
    channelContext = context
    state = .reading(
      timeout: context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.request)) { [self] in
        // Browsers open connections in advance: no page for those.
        if intake.isTouched { answer(Response(.requestTimeout)) } else { close() }
      })
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    end()
  }

  func channelInactive(context: ChannelHandlerContext) {
    end()
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // Bodies and further requests: the connection is for one.
    guard case .head(let head) = unwrapInboundIn(data), case .reading(let timeout) = state else { return }
    timeout.cancel()
    intake.discard()
    let desk = Desk(
      port: context.localAddress?.port ?? 0, paths: reception.context.paths, requestLineLimit: limits.requestLine)
    switch desk.ruling(on: head) {
    case .callback(let url): complete(url)
    case .page(let page): answer(Response(page, withBody: head.method != .HEAD))
    case .nothing: answer(Response.noContent)
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case Intake.Excess.requestLine: answerIfReading(.requestLineTooLong)
    case Intake.Excess.headers: answerIfReading(.headersTooLarge)
    case ChannelEvent.inputClosed: inputClosed()
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    switch error {
    case HTTPParserError.headerOverflow: answerIfReading(.headersTooLarge)
    case is HTTPParserError: answerIfReading(.badRequest)
    default: close()
    }
  }

  /// Ends at once if nothing is being done, else with the answer.
  func stop() {
    isStopping = true
    switch state {
    case .reading, .answered: close()
    case .handling, .answering, .closed: break
    }
  }

  private func complete(_ url: String) {
    guard let context = channelContext, let outcome = reception.complete(url) else {
      return answer(Response(.busy))
    }
    let deadline = reception.context.configuration.handlerDeadline
    state = .handling(
      deadline: context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(deadline)) { [self] in
        reception.context.logger.warning("callback not completed in time", metadata: ["deadline": "\(deadline)"])
        answer(Response(.tooSlow))
      })
    outcome.whenComplete { [self] result in
      guard case .handling(let deadline) = state, case .success(let outcome) = result else { return }
      deadline.cancel()
      answer(Response(Page(outcome)))
    }
  }

  private func answerIfReading(_ page: Page) {
    guard case .reading(let timeout) = state else { return }
    timeout.cancel()
    answer(Response(page))
  }

  private func answer(_ response: Response) {
    guard let context = channelContext else { return }
    intake.discard()
    // Bounds the writing too: a client that does not read does not keep its place.
    state = .answering(
      cut: context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.linger)) { [self] in close() })
    reception.context.logger.debug("callback request answered", metadata: ["status": "\(response.head.status.code)"])
    context.write(wrapOutboundOut(.head(response.head)), promise: nil)
    if let body = response.body {
      context.write(wrapOutboundOut(.body(.byteBuffer(context.channel.allocator.buffer(string: body)))), promise: nil)
    }
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.assumeIsolated().whenComplete { [self] _ in answerWritten() }
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
  }

  private func answerWritten() {
    guard case .answering(let cut) = state else { return }
    state = .answered(cut: cut)
    if isInputOver || isStopping {
      close()
    } else {
      channelContext?.close(mode: .output, promise: nil)
    }
  }

  private func inputClosed() {
    isInputOver = true
    switch state {
    case .reading, .answered: close()
    case .handling, .answering, .closed: break
    }
  }

  private func close() {
    channelContext?.close(promise: nil)
  }

  private func end() {
    switch state {
    case .reading(let timer), .handling(let timer), .answering(let timer), .answered(let timer): timer.cancel()
    case .closed: break
    }
    state = .closed
    channelContext = nil
  }
}
