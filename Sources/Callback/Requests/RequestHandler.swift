import Broker
import FoundationEssentials
import Logging
import NIOCore
import NIOHTTP1

/// One connection: one request, one answer, the end.
final class RequestHandler: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private enum State {
    case reading(timeout: Scheduled<Void>)
    /// The head was read, and a body that is wanted is coming in.
    case receiving(IncomingForm, timeout: Scheduled<Void>)
    case handling(deadline: Scheduled<Void>)
    case answering(cut: Scheduled<Void>)
    /// The answer is written; what the client still sends is read and dropped, since closing on it would reset the
    /// connection and might take the page away.
    case answered(cut: Scheduled<Void>)
    case closed
  }

  private let connections: Connections
  private let bodyLimit: BodyLimit
  private let peer: Peer
  private var state = State.closed
  private var channelContext: ChannelHandlerContext?
  private let accepted = NIODeadline.now()
  /// The client will send no more, so that there is nothing to wait for once it has its answer.
  private var isInputOver = false
  private var isStopping = false

  private var limits: CallbackListener.Limits { connections.context.limits }

  init(connections: Connections, bodyLimit: BodyLimit, peer: Peer) {
    self.connections = connections
    self.bodyLimit = bodyLimit
    self.peer = peer
  }

  func handlerAdded(context: ChannelHandlerContext) {
    channelContext = context
    state = .reading(
      timeout: context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.request)) { [self] in
        // Browsers open connections in advance: no page for those.
        if bodyLimit.isTouched { refuse(.requestTimeout) } else { close() }
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
    switch (unwrapInboundIn(data), state) {
    case (.head(let head), .reading(let timeout)): headRead(head, timeout, context)
    case (.body(let bytes), .receiving(let form, _)):
      if !form.append(bytes) { answer(tooLarge(form)) }
    case (.end, .receiving(let form, _)): take(form)
    // Other bodies and further requests: the connection is for one.
    case (.head, _), (.body, _), (.end, _): break
    }
  }

  private func headRead(_ head: HTTPRequestHead, _ timeout: Scheduled<Void>, _ context: ChannelHandlerContext) {
    let classifier = RequestClassifier(
      port: context.localAddress?.port ?? 0, paths: connections.context.paths, requestLineLimit: limits.requestLine,
      formLimit: limits.form, fragmentLimit: limits.fragment)
    switch classifier.ruling(on: head) {
    case .callback(let url): complete(url, isWhole: false)
    case .link(let token): open(link: token)
    case .fragment(let url): receive(IncomingForm(.fragment(url: url), limit: limits.fragment), limits.fragment)
    case .page(let page): answer(Response(page, withBody: head.method != .HEAD))
    case .refusal(let refusal): answer(Response(refusal, withBody: head.method != .HEAD))
    case .nothing: answer(Response.noContent)
    case .logout(let provider): receive(IncomingForm(.logout(provider: provider), limit: limits.form), limits.form)
    }
    func receive(_ form: IncomingForm, _ limit: Int) {
      bodyLimit.admitForm(limit: limit)
      state = .receiving(form, timeout: timeout)
      if head.version == .http1_1, head.headers["Expect"].contains(where: { $0.lowercased() == "100-continue" }) {
        context.writeAndFlush(
          wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
      }
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case BodyLimit.Excess.requestLine: refuseIfReading(.requestLineTooLong)
    case BodyLimit.Excess.headers: refuseIfReading(.headersTooLarge)
    case BodyLimit.Excess.form: if case .receiving(let form, _) = state { answer(tooLarge(form)) }
    case ChannelEvent.inputClosed: inputClosed()
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    switch error {
    case HTTPParserError.headerOverflow: refuseIfReading(.headersTooLarge)
    case is HTTPParserError: refuseIfReading(.badRequest)
    default: close()
    }
  }

  /// How long its first words may still take before the end begins: nothing, where they came or are not coming.
  var grace: TimeAmount {
    guard case .reading = state, !bodyLimit.isTouched else { return .zero }
    return max(.zero, accepted + TimeAmount(limits.firstWords) - .now())
  }

  /// Its request is not whole.
  var awaitsRequest: Bool {
    switch state {
    case .reading, .receiving: true
    case .handling, .answering, .answered, .closed: false
    }
  }

  /// Not a byte of its request has come.
  var isSilent: Bool {
    guard case .reading = state else { return false }
    return !bodyLimit.isTouched
  }

  /// How far it is; the least is lost by closing the lowest.
  var progress: Int {
    switch state {
    case .closed, .answered: 0
    case .reading: isSilent ? 1 : 2
    case .receiving: 3
    case .answering: 4
    case .handling: 5
    }
  }

  var age: TimeAmount { .now() - accepted }

  /// Ends at once if nothing is being done, else with the answer.
  func stop() {
    isStopping = true
    switch state {
    case .reading, .receiving, .answered: close()
    case .handling, .answering, .closed: break
    }
  }

  private func take(_ form: IncomingForm) {
    switch form.purpose {
    case .logout(let provider): logOut(provider, form.bytes)
    case .fragment(let url):
      guard let address = form.address(url) else { return answer(Response(Page.badRequest)) }
      complete(address, isWhole: true)
    }
  }

  private func tooLarge(_ form: IncomingForm) -> Response {
    switch form.purpose {
    case .logout: Response(Refusal.tooLarge)
    case .fragment: Response(Page.fragmentTooLong)
    }
  }

  private func complete(_ url: String, isWhole: Bool) {
    guard let completion = connections.complete(url, isWhole: isWhole, from: peer) else {
      return answer(Response(Page.busy))
    }
    let deadline = connections.context.configuration.handlerDeadline
    wait(for: completion, noLongerThan: deadline) { [self] in
      connections.context.logger.warning("callback not completed in time", metadata: ["deadline": "\(deadline)"])
      answer(Response(Page.tooSlow))
    } then: { [self] completion in
      switch completion {
      case .fragmentWanted: answer(.fragmentPage)
      case .outcome(let outcome): answer(Response(isWhole ? Page(outcome).inPlace : Page(outcome)))
      }
    }
  }

  private func open(link token: String) {
    guard let opening = connections.open(link: token, from: peer) else { return answer(Response(Page.busy)) }
    wait(for: opening, noLongerThan: connections.context.configuration.handlerDeadline) { [self] in
      answer(Response(Page.linkTooSlow))
    } then: { [self] opening in
      answer(Response(Page(opening)))
    }
  }

  private func logOut(_ provider: String, _ bytes: Data) {
    guard !bytes.isEmpty else { return answer(Response(.empty)) }
    guard let outcome = connections.logOut(provider, bytes) else { return answer(Response(Refusal.busy)) }
    let deadline = connections.context.configuration.logoutDeadline
    wait(for: outcome, noLongerThan: deadline) { [self] in
      connections.context.logger.warning("logout token not looked at in time", metadata: ["deadline": "\(deadline)"])
      answer(Response(Refusal.tooSlow))
    } then: { [self] outcome in
      answer(Response(outcome))
    }
  }

  private func wait<Outcome: Sendable>(
    for outcome: EventLoopFuture<Outcome>.Isolated, noLongerThan deadline: Duration, late: @escaping () -> Void,
    then end: @escaping (Outcome) -> Void
  ) {
    guard let context = channelContext else { return }
    stopTimer()
    bodyLimit.discard()
    state = .handling(deadline: context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(deadline), late))
    outcome.whenComplete { [self] result in
      guard case .handling = state, case .success(let outcome) = result else { return }
      end(outcome)
    }
  }

  /// Whatever cannot be read is answered in the words of the path that it was meant for.
  private func refuse(_ page: Page) {
    answer(bodyLimit.isForLogout ? Response(Refusal(page)) : Response(page))
  }

  private func refuseIfReading(_ page: Page) {
    switch state {
    case .reading, .receiving: refuse(page)
    case .handling, .answering, .answered, .closed: break
    }
  }

  private func answer(_ response: Response) {
    guard let context = channelContext else { return }
    stopTimer()
    bodyLimit.discard()
    // Bounds the writing too: a client that does not read does not keep its place.
    state = .answering(
      cut: context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.linger)) { [self] in close() })
    connections.context.logger.debug("callback request answered", metadata: ["status": "\(response.head.status.code)"])
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
    case .reading, .receiving, .answered: close()
    case .handling, .answering, .closed: break
    }
  }

  private func close() {
    channelContext?.close(promise: nil)
  }

  private func stopTimer() {
    switch state {
    case .reading(let timer), .receiving(_, let timer), .handling(let timer), .answering(let timer),
      .answered(let timer):
      timer.cancel()
    case .closed: break
    }
  }

  private func end() {
    stopTimer()
    state = .closed
    channelContext = nil
  }
}
