import Broker
import BrokerAPI
import FoundationEssentials
import Grants
import HTTPServer
import HTTPTransport
import NIOCore
import NIOHTTP1
import OAuth

/// One request on its way to a provider's API, and the answer on its way back. Lives on the event loop of its connection,
/// which the broker's decisions leave and come back to.
final class ForwardedRequest: UpstreamReceiver {
  private let endpoint: ForwardEndpoint
  private let target: ForwardTarget
  private let body: RetainedBody
  private let exchange: HTTPExchange
  private var forward: ForwardRequest
  private var work: Task<Void, Never>?
  private var sent: AuthorizedRequest?
  private var upstream: UpstreamExchange?
  private var state: ForwardedRequestState
  private var answer = ForwardedAnswer()

  init(
    _ endpoint: ForwardEndpoint, _ head: HTTPRequestHead, _ target: ForwardTarget, _ body: HTTPRequestBody,
    _ exchange: HTTPExchange
  ) {
    self.endpoint = endpoint
    state = ForwardedRequestState(head)
    self.target = target
    self.body = RetainedBody(body, endpoint.retained, endpoint.share)
    self.exchange = exchange
    forward = ForwardRequest(
      account: target.account, method: head.method == .MSEARCH ? "M-SEARCH" : head.method.rawValue,
      target: target.target, host: target.host, headers: ForwardHeaders.request(head.headers))
  }

  private var isOver: Bool { answer.isOver }

  // MARK: What the broker decides

  func start() {
    let own = NIOLoopBound(self, eventLoop: exchange.loop)
    exchange.onEnd { own.value.stop() }
    guard !isOver else { return }
    if let request = endpoint.lane.authorized(forward) { return send(request) }
    perform(state.began())
  }

  private func perform(_ action: ForwardedRequestState.Action?) {
    switch action {
    case nil: break
    case .decide(let byBody): byBody ? decideByBody() : decide()
    case .read:
      listen()
      body.want()
    case .send: transmit()
    case .write: if let upstream { upstreamTakesMore(upstream) }
    case .refuse(let reply): refuse(reply)
    case .reply(let reply, let isCall):
      exchange.reply(isCall ? body.whole.flatMap { JSONRPCReply.error(reply, to: $0) } ?? reply : reply)
    }
  }

  private func listen() { body.onMore { [unowned self] in perform(state.bodyCame(body.state)) } }

  private func decide() {
    let (broker, principal, forward) = (endpoint.broker, endpoint.principal, forward)
    let session = HTTPSession(principal, exchange)
    run { () -> Result<AuthorizedRequest, RPCError>? in
      if let error = await session.enter(broker.entrance) { return .failure(error) }
      return await broker.readsBody(forward, principal) ? nil : await broker.authorize(forward, session: session)
    } then: { [self] decision in
      if let decision { decided(decision) } else { perform(state.needsBody(body.state)) }
    }
  }

  /// Leaves the loop for the work, and returns with its result.
  private func run<Output: Sendable>(
    _ work: @escaping @Sendable () async -> Output, then: @escaping (Output) -> Void
  ) {
    let (loop, own) = (exchange.loop, NIOLoopBound((self, then), eventLoop: exchange.loop))
    self.work = Task {
      let output = await work()
      loop.execute {
        let (request, then) = own.value
        if !request.isOver { then(output) }
      }
    }
  }

  private func decideByBody() {
    let whole = body.whole ?? []
    forward.body = .read(
      digest: whole.isEmpty ? nil : bodyDigest(of: whole),
      MCPContent(method: forward.method, headers: forward.headers.map { ($0.name, $0.value) }, body: whole))
    let session = HTTPSession(endpoint.principal, exchange)
    run { [broker = endpoint.broker, forward] () -> Result<AuthorizedRequest, RPCError> in
      if let error = await session.enter(broker.entrance) { return .failure(error) }
      return await broker.authorize(forward, session: session)
    } then: { [self] decision in
      decided(decision)
    }
  }

  private func decided(_ decision: Result<AuthorizedRequest, RPCError>) {
    switch decision {
    case .failure(let error): refuse(HTTPReply(error))
    case .success(let request):
      endpoint.lane.keep(request, of: forward)
      send(request)
    }
  }

  // MARK: The request

  private func send(_ request: AuthorizedRequest) {
    sent = request
    perform(state.allowed(canSend: body.rewind(), hasBody: body.length != 0))
  }

  private func transmit() {
    guard let request = sent else { return }
    answer.asked(
      .init(
        head: state.head, isSigned: request.isSigned, filter: endpoint.filter(for: request.basis),
        redirect: { [target] in
          target.redirect($0, of: request.request.url, base: request.basis.base, origins: request.basis.origins)
        }))
    let hasBody = body.length != 0
    let repeatable = ["GET", "HEAD", "OPTIONS"].contains(request.method)
    if hasBody { listen() }
    let new = endpoint.send(
      UpstreamRequest(
        server: request.basis.server, head: wire(request), body: hasBody ? .streamed : .none,
        isRepeatable: !hasBody && !request.isSigned && repeatable), to: self, on: exchange.loop)
    // It may have ended already.
    isOver ? new.cancel() : (upstream = new)
  }

  private func wire(_ request: AuthorizedRequest) -> HTTPRequestHead {
    var headers = HTTPHeaders()
    headers.reserveCapacity(request.headers.count + 2)
    headers.add(name: "Host", value: request.basis.server.authority)
    for header in request.headers { headers.add(name: header.name, value: header.value) }
    switch body.length {
    case nil: headers.add(name: "Transfer-Encoding", value: "chunked")
    // RFC 9110 §8.6: where a method has a body as a rule, none is said to be one of no bytes.
    case 0?: if ["POST", "PUT", "PATCH"].contains(request.method) { headers.add(name: "Content-Length", value: "0") }
    case let length?: headers.add(name: "Content-Length", value: String(length))
    }
    return HTTPRequestHead(
      version: .http1_1, method: HTTPMethod(rawValue: request.method), uri: request.target, headers: headers)
  }

  func upstreamTakesMore(_ upstream: UpstreamExchange) {
    guard !answer.isHeld, !isOver else { return }
    while upstream.isWritable {
      switch body.next() {
      case .part(let part): upstream.write(part)
      case .end: return upstream.endBody()
      case .failed: return perform(answer.fail(ForwardedRequestState.stopped))
      case nil:
        upstream.flush()
        return body.want()
      }
    }
    upstream.flush()
  }

  // MARK: The answer

  func upstreamBegan(_ head: HTTPResponseHead) { perform(answer.began(head)) }
  func upstreamSent(_ part: ByteBuffer) { perform(answer.sent(part)) }
  func upstreamPaused() { perform(answer.paused()) }
  func upstreamEnded() { perform(answer.ended()) }
  func upstreamFailed(_ error: TransportError) { perform(answer.failed(failed(error).last())) }

  private func perform(_ action: ForwardedAnswer.Action?) {
    switch action {
    case nil: break
    case .judge(let head, let body, let state):
      switch state {
      case .paused: upstream?.pause()
      case .cancelled: upstream?.cancel()
      case .ended: break
      }
      judge(head, body)
    case .begin(let head):
      exchange.onWritable { [unowned self] in upstream?.resume() }
      exchange.begin(head)
    case .write(let part): exchange.write(part)
    case .flush:
      exchange.flush()
      if !exchange.isWritable, !isOver { upstream?.pause() }
    case .end(let rest):
      if let rest { exchange.write(rest) }
      exchange.end()
    case .reply(let reply): exchange.reply(reply)
    case .refuse(let reply):
      upstream?.cancel()
      refuse(reply)
    case .abort:
      upstream?.cancel()
      exchange.abort()
    }
  }

  /// Answers with an error of the broker.
  private func refuse(_ reply: HTTPReply) {
    upstream = nil
    answer.refused()
    perform(state.refused(reply, body.state))
  }

  private func judge(_ head: HTTPResponseHead, _ body: ByteBuffer) {
    guard let sent else { return }
    let response = HTTPResponse(
      status: Int(head.status.code), headers: head.headers.map { .init($0.name, $0.value) },
      body: Data(body.readableBytesView))
    run { [broker = endpoint.broker] in
      await broker.judge(response, to: sent)
    } then: { [self] verdict in
      judged(verdict)
    }
  }

  private func judged(_ verdict: ForwardVerdict) {
    guard answer.isJudged else { return }
    let actions: [ForwardedAnswer.Action]
    switch verdict {
    case .again(let next):
      upstream?.cancel()
      return send(next)
    case .refused(let error): actions = answer.judged(.refused(error))
    case .stepUp(let error): actions = answer.judged(.stepUp(error, isShown: isJSONRPC(error)))
    case .passed: actions = answer.judged(.passed)
    }
    for action in actions where !isOver { perform(action) }
    // A streamed answer continues only if the client accepts more.
    if !answer.isStreamed || exchange.isWritable { upstream?.resume() }
  }

  /// Whether the client understands a JSON-RPC error; others get the API's own answer.
  private func isJSONRPC(_ error: RPCError) -> Bool {
    guard JSONRPCReply.mayAnswer(state.head), let whole = body.whole else { return false }
    return JSONRPCReply.error(HTTPReply(error), to: whole) != nil
  }

  private func failed(_ error: TransportError) -> HTTPReply {
    let hint = "See whether the provider's API works, and api_base and api_origins in its section."
    return switch error.kind {
    case .timedOut: HTTPReply(.gatewayTimeout, error: "timeout", error.message, hint: hint)
    case .notSent, .lost, .tooLarge, .unreadable:
      HTTPReply(.badGateway, error: "bad_gateway", error.message, hint: hint)
    }
  }

  // MARK: The end

  /// It is answered, or no client waits for the answer.
  private func stop() {
    state.stop()
    answer.stop()
    work?.cancel()
    upstream?.cancel()
    body.stop()
  }
}
