import Broker
import BrokerAPI
import FoundationEssentials
import Grants
import HTTPServer
import HTTPTransport
import NIOCore
import NIOHTTP1
import OAuth

/// Carries a request of a client to a provider's API, and the answer back: reports the events of the client, the broker and
/// the server to a ``ForwardedRequest``, which decides, and performs its actions. Lives on the event loop of its connection,
/// which the broker's decisions leave and come back to.
final class ForwardedExchange: UpstreamReceiver {
  private let endpoint: ForwardEndpoint
  private let target: ForwardTarget
  private let body: RetainedBody
  private let client: HTTPExchange
  private var server: UpstreamExchange?
  private var request: ForwardedRequest
  /// For the broker.
  private var forward: ForwardRequest
  private var work: Task<Void, Never>?
  private var sent: AuthorizedRequest?

  init(
    _ endpoint: ForwardEndpoint, _ head: HTTPRequestHead, _ target: ForwardTarget, _ body: HTTPRequestBody,
    _ client: HTTPExchange
  ) {
    self.endpoint = endpoint
    self.target = target
    self.body = RetainedBody(body, endpoint.retained, endpoint.share)
    self.client = client
    request = ForwardedRequest(head, hasBody: body.length != 0)
    forward = ForwardRequest(
      account: target.account, method: head.method == .MSEARCH ? "M-SEARCH" : head.method.rawValue,
      target: target.target, host: target.host, headers: ForwardHeaders.request(head.headers))
  }

  func start() {
    let own = NIOLoopBound(self, eventLoop: client.loop)
    client.onEnd { own.value.stop() }
    perform(request.began())
  }

  private func perform(_ action: ForwardedRequest.Action?) {
    switch action {
    case nil: break
    case .decide(let decider): decide(by: decider)
    case .read:
      drop()
      listen()
      body.want()
    case .send(let hasBody, let isRepeatable): send(hasBody: hasBody, isRepeatable: isRepeatable)
    case .write: write()
    case .answer(let action): perform(action)
    case .cancel: drop()
    case .refuse(let reply, let isCall):
      drop()
      client.reply(isCall ? body.whole.flatMap { JSONRPCReply.error(reply, to: $0) } ?? reply : reply)
    }
  }

  private func listen() { body.onMore { [unowned self] in perform(request.bodyCame(body.state)) } }

  private func drop() {
    server?.cancel()
    server = nil
  }

  /// The client has its whole answer, or hung up.
  private func stop() {
    request.stop()
    work?.cancel()
    server?.cancel()
    body.stop()
  }

  // MARK: The broker

  private func decide(by decider: ForwardedRequest.Decider) {
    switch decider {
    case .cache:
      guard let known = endpoint.cache.authorized(forward) else {
        return perform(request.decided(.unknown, body.state))
      }
      allowed(known)
    case .head: ask(isRead: false)
    case .body:
      let whole = body.whole ?? []
      forward.body = .read(
        digest: whole.isEmpty ? nil : bodyDigest(of: whole),
        MCPContent(method: forward.method, headers: forward.headers.map { ($0.name, $0.value) }, body: whole))
      ask(isRead: true)
    }
  }

  /// - Parameter isRead: whether the body was read.
  private func ask(isRead: Bool) {
    let (broker, principal, forward) = (endpoint.broker, endpoint.principal, forward)
    let session = HTTPSession(principal, client)
    run { () -> Result<AuthorizedRequest, RPCError>? in
      if let error = await session.enter(broker.entrance) { return .failure(error) }
      if !isRead, await broker.readsBody(forward, principal) { return nil }
      return await broker.authorize(forward, session: session)
    } then: { [self] decision in
      decided(decision)
    }
  }

  /// Leaves the loop for the work, and returns with its result.
  private func run<Output: Sendable>(
    _ work: @escaping @Sendable () async -> Output, then: @escaping (Output) -> Void
  ) {
    let (loop, own) = (client.loop, NIOLoopBound((self, then), eventLoop: client.loop))
    self.work = Task {
      let output = await work()
      loop.execute {
        let (exchange, then) = own.value
        if !exchange.request.isOver { then(output) }
      }
    }
  }

  private func decided(_ decision: Result<AuthorizedRequest, RPCError>?) {
    switch decision {
    case nil: perform(request.decided(.needsBody, body.state))
    case .failure(let error)?: perform(request.decided(.refused(error), body.state))
    case .success(let authorized)?:
      endpoint.cache.keep(authorized, of: forward)
      allowed(authorized)
    }
  }

  private func allowed(_ authorized: AuthorizedRequest) {
    sent = authorized
    perform(request.decided(.allowed(question(authorized)), body.state))
  }

  private func question(_ authorized: AuthorizedRequest) -> ForwardedAnswer.Question {
    .init(
      isSigned: authorized.isSigned, filter: endpoint.filter(for: authorized.basis),
      redirect: { [target] in
        target.redirect(
          $0, of: authorized.request.url, base: authorized.basis.base, origins: authorized.basis.origins)
      })
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
    guard request.awaitsVerdict else { return }
    let known: ForwardedRequest.Verdict
    switch verdict {
    case .passed: known = .passed
    case .again(let next):
      sent = next
      known = .again(question(next), canSend: body.canRewind)
    case .stepUp(let error): known = .stepUp(error) { [body] in body.whole }
    case .refused(let error): known = .refused(error)
    }
    for action in request.judged(known, body.state) where !request.isOver { perform(action) }
  }

  // MARK: The request

  private func send(hasBody: Bool, isRepeatable: Bool) {
    guard let sent else { return }
    drop()
    // The decision to send has asked for that.
    guard body.rewind() else { return perform(request.bodyFailed(body.state)) }
    if hasBody { listen() }
    server = endpoint.send(
      UpstreamRequest(
        server: sent.basis.server, head: ForwardHeaders.head(sent, bodyLength: body.length),
        body: hasBody ? .streamed : .none, isRepeatable: isRepeatable), to: self, on: client.loop)
    perform(request.serverAsked())
  }

  func upstreamTakesMore(_ exchange: UpstreamExchange) {
    // It may be before `send` returns.
    server = exchange
    perform(request.serverTookMore())
  }

  /// Writes the received parts until the server's side is full.
  private func write() {
    guard let server else { return }
    while server.isWritable {
      switch body.next() {
      case .part(let part): server.write(part)
      case .end: return server.endBody()
      case .failed: return perform(request.bodyFailed(body.state))
      case nil:
        server.flush()
        return body.want()
      }
    }
    server.flush()
  }

  // MARK: The answer

  func upstreamBegan(_ head: HTTPResponseHead) { perform(request.serverBegan(head, body.state)) }
  func upstreamSent(_ part: ByteBuffer) { perform(request.serverSent(part)) }
  func upstreamPaused() { perform(request.serverPaused()) }
  func upstreamEnded() { perform(request.serverEnded()) }
  func upstreamFailed(_ error: TransportError) { perform(request.serverFailed(error, body.state)) }

  private func perform(_ action: ForwardedAnswer.Action) {
    switch action {
    case .judge(let head, let body, let upstream):
      switch upstream {
      case .paused: server?.pause()
      case .cancelled: server?.cancel()
      case .ended: break
      }
      judge(head, body)
    case .begin(let head):
      client.onWritable { [unowned self] in perform(request.clientTookMore()) }
      client.begin(head)
    case .write(let part): client.write(part)
    case .flush:
      client.flush()
      perform(request.flushed(isWritable: client.isWritable))
    case .pause: server?.pause()
    case .resume: server?.resume()
    case .end(let rest):
      if let rest { client.write(rest) }
      client.end()
    case .reply(let reply): client.reply(reply)
    case .abort:
      server?.cancel()
      client.abort()
    }
  }
}
