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
  /// The maximum bytes of an answer that is returned as a whole.
  private static let shortAnswer = 16 << 10
  /// The maximum bytes of a refusal that are examined.
  private static let longestRefusal = 64 << 10

  /// What becomes of the answer.
  private enum Phase {
    /// It has not begun.
    case none
    /// 401: the body is read for the reason.
    case refusal(HTTPResponseHead, ByteBuffer)
    /// The broker judges the answer; data of this time are queued.
    case judged([Item])
    case short(HTTPResponseStatus, HTTPHeaders, ByteBuffer)
    case streamed
    case over
  }

  private enum Item {
    case part(ByteBuffer)
    case end
    case failure(TransportError)
  }

  private let endpoint: ForwardEndpoint
  private let head: HTTPRequestHead
  private let target: ForwardTarget
  private let body: RetainedBody
  private let exchange: HTTPExchange
  private var forward: ForwardRequest
  private var work: Task<Void, Never>?
  private var sent: AuthorizedRequest?
  private var upstream: UpstreamExchange?
  private var phase = Phase.none
  private var filter = TokenFilter([])
  /// The server refuses the request: nothing more of its body is sent.
  private var isHeld = false

  init(
    _ endpoint: ForwardEndpoint, _ head: HTTPRequestHead, _ target: ForwardTarget, _ body: HTTPRequestBody,
    _ exchange: HTTPExchange
  ) {
    self.endpoint = endpoint
    self.head = head
    self.target = target
    self.body = RetainedBody(body, endpoint.retained, endpoint.share)
    self.exchange = exchange
    forward = ForwardRequest(
      account: target.account, method: head.method == .MSEARCH ? "M-SEARCH" : head.method.rawValue,
      target: target.target, host: target.host, headers: ForwardHeaders.request(head.headers))
  }

  private var isOver: Bool { if case .over = phase { true } else { false } }

  // MARK: What the broker decides

  func start() {
    let own = NIOLoopBound(self, eventLoop: exchange.loop)
    exchange.onEnd { own.value.stop() }
    guard !isOver else { return }
    if let request = endpoint.lane.authorized(forward) { return send(request) }
    let (broker, principal, forward) = (endpoint.broker, endpoint.principal, forward)
    let session = HTTPSession(principal, exchange)
    run { () -> Result<AuthorizedRequest, RPCError>? in
      if let error = await session.enter(broker.entrance) { return .failure(error) }
      return await broker.readsBody(forward, principal) ? nil : await broker.authorize(forward, session: session)
    } then: { [self] decision in
      decision.map(decided) ?? readWhole()
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

  /// A user approves this body and no other, or a rule allows the calls in it.
  private func readWhole() {
    // The answer ends the body, which must not be answered too.
    if body.isTooLong || body.isIncomplete { body.onMore {} }
    if body.failure != nil { return refuse(Self.stopped) }
    if body.isTooLong {
      return refuse(
        HTTPReply(
          .payloadTooLarge, error: "body_too_large", "a rule depends on the body of this request, and it is too long",
          hint: "Bodies have 1 MiB at most then."
        ).last())
    }
    if body.isIncomplete {
      return refuse(
        HTTPReply(
          .serviceUnavailable, error: "overloaded", "the bodies of your other requests take all the room that you have",
          hint: "Send the request again when they have ended."
        ).last())
    }
    guard let whole = body.whole else {
      body.onMore { [unowned self] in readWhole() }
      return body.want()
    }
    body.onMore {}
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
    guard body.rewind() else {
      var reply = HTTPReply(
        .badGateway, error: "token_refused",
        "the token was refused and is renewed; the body was not kept to be sent again", hint: "Send the request again.")
      reply.headers.add(name: "Retry-After", value: "0")
      return refuse(reply.last())
    }
    sent = request
    phase = .none
    isHeld = false
    let hasBody = body.length != 0
    let repeatable = ["GET", "HEAD", "OPTIONS"].contains(request.method)
    if hasBody { body.onMore { [unowned self] in if let upstream { upstreamTakesMore(upstream) } } }
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
    guard !isHeld, !isOver else { return }
    while upstream.isWritable {
      switch body.next() {
      case .part(let part): upstream.write(part)
      case .end: return upstream.endBody()
      case .failed: return fail(Self.stopped)
      case nil:
        upstream.flush()
        return body.want()
      }
    }
    upstream.flush()
  }

  private static var stopped: HTTPReply {
    HTTPReply(
      .requestTimeout, error: "timeout", "the request's body stopped before its end",
      hint: "Send it without pauses of more than 30 seconds."
    ).last()
  }

  // MARK: The answer

  func upstreamBegan(_ head: HTTPResponseHead) {
    let status = head.status.code
    if status >= 300 { isHeld = true }
    if status == 401 {
      phase = .refusal(head, ByteBuffer())
    } else if (400..<500).contains(status) || sent?.isSigned == true {
      upstream?.pause()
      judge(head, ByteBuffer())
    } else {
      pass(head)
    }
  }

  func upstreamSent(_ part: ByteBuffer) {
    switch phase {
    case .refusal(let head, var body):
      phase = .none
      if body.readableBytes + part.readableBytes <= Self.longestRefusal {
        var part = part
        body.writeBuffer(&part)
        phase = .refusal(head, body)
      } else {
        upstream?.cancel()
        judge(head, body)
      }
    case .judged(var items):
      phase = .none
      items.append(.part(part))
      phase = .judged(items)
    case .short(let status, let headers, var body):
      guard var rest = filter.pass(part) else { return }
      phase = .none
      body.writeBuffer(&rest)
      phase = .short(status, headers, body)
    case .streamed: if let rest = filter.pass(part) { exchange.write(rest) }
    case .none, .over: break
    }
  }

  func upstreamPaused() {
    guard case .streamed = phase else { return }
    exchange.flush()
    if !exchange.isWritable, !isOver { upstream?.pause() }
  }

  func upstreamEnded() {
    switch phase {
    case .refusal(let head, let body): judge(head, body)
    case .judged(let items): phase = .judged(items + [.end])
    case .short(let status, let headers, var body):
      if var rest = filter.end() { body.writeBuffer(&rest) }
      exchange.reply(HTTPReply(status, headers, body: body))
    case .streamed:
      if let rest = filter.end() { exchange.write(rest) }
      exchange.end()
    case .none, .over: break
    }
  }

  func upstreamFailed(_ error: TransportError) {
    if case .judged(let items) = phase {
      phase = .judged(items + [.failure(error)])
    } else {
      fail(failed(error).last())
    }
  }

  private func fail(_ reply: HTTPReply) {
    upstream?.cancel()
    // If the answer has begun, the client must see that it is incomplete.
    if case .streamed = phase { exchange.abort() } else { refuse(reply) }
  }

  /// Answers with an error of the broker: to a JSON-RPC request in its form, once its body shows the id.
  private func refuse(_ reply: HTTPReply) {
    upstream = nil
    phase = .none
    guard JSONRPCReply.mayAnswer(head), body.failure == nil, !body.isIncomplete else { return exchange.reply(reply) }
    guard let whole = body.whole else {
      body.onMore { [unowned self] in refuse(reply) }
      return body.want()
    }
    body.onMore {}
    exchange.reply(JSONRPCReply.error(reply, to: whole) ?? reply)
  }

  private func judge(_ head: HTTPResponseHead, _ body: ByteBuffer) {
    guard let sent else { return }
    phase = .judged([])
    let response = HTTPResponse(
      status: Int(head.status.code), headers: head.headers.map { .init($0.name, $0.value) },
      body: Data(body.readableBytesView))
    run { [broker = endpoint.broker] in
      await broker.judge(response, to: sent)
    } then: { [self] verdict in
      judged(verdict, head)
    }
  }

  private func judged(_ verdict: ForwardVerdict, _ head: HTTPResponseHead) {
    guard case .judged(let items) = phase else { return }
    switch verdict {
    case .again(let next):
      upstream?.cancel()
      send(next)
    case .refused(let error): fail(HTTPReply(error, refused: true))
    case .stepUp(let error) where head.status == .unauthorized || isJSONRPC(error):
      fail(HTTPReply(error, refused: true))
    case .stepUp: passJudged(head, items)
    case .passed where head.status == .unauthorized:
      fail(
        HTTPReply(
          .badGateway, error: "token_refused", "the provider's API answers 401",
          hint: "Ask the provider for the reason."))
    case .passed: passJudged(head, items)
    }
  }

  /// Whether the client understands a JSON-RPC error; others get the API's own answer.
  private func isJSONRPC(_ error: RPCError) -> Bool {
    guard JSONRPCReply.mayAnswer(head), let whole = body.whole else { return false }
    return JSONRPCReply.error(HTTPReply(error), to: whole) != nil
  }

  /// Passes an answer that the broker has judged, with the parts that came during that.
  private func passJudged(_ head: HTTPResponseHead, _ items: [Item]) {
    pass(head)
    for item in items {
      switch item {
      case .part(let part): upstreamSent(part)
      case .end: upstreamEnded()
      case .failure(let error): upstreamFailed(error)
      }
    }
    upstreamPaused()
    // A streamed answer continues only if the client accepts more.
    if case .streamed = phase, !exchange.isWritable { return }
    upstream?.resume()
  }

  /// Begins to return it, or reports its fault.
  private func pass(_ answer: HTTPResponseHead) {
    guard let sent else { return }
    let status = Int(answer.status.code)
    guard status >= 200 else {
      return fail(
        HTTPReply(
          .badGateway, error: "bad_gateway", "the provider's API changes the protocol",
          hint: "Upgrades, such as to WebSocket, are not passed on."
        ).last())
    }
    let hasNoBody = head.method == .HEAD || [204, 304].contains(status)
    if !hasNoBody, let reason = Self.unsearchable(answer) {
      return fail(
        HTTPReply(
          .badGateway, error: "answer_withheld", "the answer cannot be searched for the token: \(reason)",
          hint: "Ask for another form of it."))
    }
    filter = endpoint.filter(for: sent.basis)
    var headers = ForwardHeaders.answer(answer.headers, filter)
    if let location = answer.headers.first(name: "Location") {
      let own = target.redirect(
        location, of: sent.request.url, base: sent.basis.base, origins: sent.basis.origins)
      // Outside 3xx it names a created resource, and clients do not follow it.
      guard let own = own ?? ((300..<400).contains(status) ? nil : location) else {
        return fail(
          HTTPReply(
            .badGateway, error: "redirect_refused", "the provider's API redirects to another server",
            hint: "The token does not go there. An admin can add its origin to api_origins."))
      }
      headers.add(name: "Location", value: filter.cleaned(own))
    }
    // RFC 9110 §8.6.
    if status == 204 { headers.remove(name: "Content-Length") }
    let length = headers.first(name: "Content-Length")
    if length == nil, !hasNoBody, head.version == .http1_1 {
      headers.add(name: "Transfer-Encoding", value: "chunked")
    }
    // A short one in one piece.
    if let length = length.flatMap({ Int($0) }), (1...Self.shortAnswer).contains(length), !hasNoBody {
      phase = .short(answer.status, headers, ByteBuffer())
      return
    }
    phase = .streamed
    exchange.onWritable { [unowned self] in upstream?.resume() }
    exchange.begin(
      HTTPResponseHead(
        version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: headers))
  }

  /// As ``HTTPResponse/unsearchable``, from the head.
  private static func unsearchable(_ answer: HTTPResponseHead) -> String? {
    guard answer.headers["Transfer-Encoding"].allSatisfy({ $0.lowercased() == "chunked" }) else {
      return "it has a transfer coding beside the chunks"
    }
    let codings = answer.headers["Content-Encoding"]
    return HTTPResponse.unsearchable(
      status: Int(answer.status.code), coding: codings.count > 1 ? codings.joined(separator: ",") : codings.first,
      type: answer.headers.first(name: "Content-Type"))
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
    phase = .over
    work?.cancel()
    upstream?.cancel()
    body.stop()
  }
}
