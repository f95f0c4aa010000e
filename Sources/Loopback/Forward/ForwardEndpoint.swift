import Broker
import BrokerAPI
import FoundationEssentials
import Grants
import HTTPServer
import NIOCore
import NIOHTTP1
import OAuth
import Synchronization

/// `/forward/ACCOUNT/…`: a request to the provider's API, sent with the account's token, which the client never has.
struct ForwardEndpoint: Sendable {
  /// From the request to the head of its answer.
  static let headTime = Duration.seconds(600)
  /// Bytes of an answer that is handed on as a whole.
  private static let shortAnswer = 16 << 10
  /// Bytes of a refusal that are read to see what was refused.
  private static let longestRefusal = 64 << 10

  let broker: any LoopbackBroker
  let upstream: any Upstream
  let principal: Principal

  func intake(of head: HTTPRequestHead) -> HTTPIntake {
    guard let target = ForwardTarget(head.uri) else {
      return .refuse(
        HTTPReply(
          .notFound, error: "not_found", "there is no such account",
          hint: "The path is /forward/ACCOUNT/ and the path at the provider's API."))
    }
    guard target.isPlain, target.target.utf8.count <= 8000 else {
      return .refuse(
        HTTPReply(
          .badRequest, error: "bad_request", "the path has steps upwards, or is too long",
          hint: "Write it without \"..\", in 8,000 bytes at most."))
    }
    // The parser puts this in the place of bytes that are no UTF-8, so the header would be another.
    guard !head.headers.contains(where: { $0.value.utf8.contains(0xEF) && $0.value.contains("\u{FFFD}") }) else {
      return .refuse(
        HTTPReply(
          .badRequest, error: "bad_request", "a header has bytes that are no UTF-8",
          hint: "Write it in UTF-8, or in ASCII."))
    }
    // RFC 9110 §9.3.8: the answer to TRACE is the request, credentials and all.
    guard head.method != .TRACE, head.method != .CONNECT else {
      return .refuse(
        HTTPReply(
          .notImplemented, error: "not_implemented", "\(head.method.rawValue) is not sent with a token",
          hint: "Use another method."))
    }
    return .stream(
      within: Self.headTime,
      else: HTTPReply(
        .gatewayTimeout, error: "timeout", "the provider's API does not answer",
        hint: "See whether it works: grantctl doctor tells how the provider is."
      ).last())
  }

  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    guard let target = ForwardTarget(head.uri) else { return }
    let retained = RetainedBody(body)
    let task = Task {
      do {
        try await forward(head, target, retained, exchange)
      } catch {
        // The answer was under way: the client must see that it is cut.
        exchange.abort()
      }
      await retained.stop()
    }
    exchange.onEnd { task.cancel() }
  }

  private func forward(
    _ head: HTTPRequestHead, _ target: ForwardTarget, _ body: RetainedBody, _ exchange: HTTPExchange
  ) async throws {
    var request = ForwardRequest(
      account: target.account, method: head.method == .MSEARCH ? "M-SEARCH" : head.method.rawValue,
      target: target.target, host: target.host,
      headers: ForwardHeaders.request(head.headers))
    let session = HTTPSession(principal, exchange)
    if await broker.asksSomebody(request, principal) {
      // A person allows this body, and no other.
      let whole: [UInt8]?
      do {
        whole = try await body.whole()
      } catch {
        return exchange.reply(Self.stopped)
      }
      guard let whole else {
        return exchange.reply(
          HTTPReply(
            .payloadTooLarge, error: "body_too_large", "a person has to allow this request, and its body is too long",
            hint: "A rule asks for confirmation: bodies have 1 MiB at most then."
          ).last())
      }
      request.body = .digest(whole.isEmpty ? nil : bodyDigest(of: whole))
    }
    switch await broker.authorize(request, session: session) {
    case .failure(let error): exchange.reply(HTTPReply(error))
    case .success(let authorized):
      try await send(authorized, body, head, target, exchange)
    }
  }

  private static var stopped: HTTPReply {
    HTTPReply(
      .requestTimeout, error: "timeout", "the request's body stopped before its end",
      hint: "Send it without pauses of more than 30 seconds."
    ).last()
  }

  /// What came of one sending.
  private enum Outcome: Sendable {
    case answered
    case again(AuthorizedRequest)
    case reply(HTTPReply)
  }

  private func send(
    _ sent: AuthorizedRequest, _ retained: RetainedBody, _ head: HTTPRequestHead, _ target: ForwardTarget,
    _ exchange: HTTPExchange
  ) async throws {
    guard let body = await retained.begin() else {
      var reply = HTTPReply(
        .badGateway, error: "token_refused",
        "the token was refused and is renewed; the body is too long to be sent again", hint: "Send the request again.")
      reply.headers.add(name: "Retry-After", value: "0")
      return exchange.reply(reply.last())
    }
    let hasBegun = Flag()
    let outcome = Mutex(Outcome.answered)
    do {
      try await upstream.exchange(sent.request, over: sent.pool, body: body) { answer in
        // The HTTP client sends nothing more of a body that is refused.
        if answer.status >= 300 { await retained.hold() }
        let came = try await take(answer, sent, head, target, exchange, hasBegun)
        outcome.withLock { $0 = came }
      }
    } catch let error as HTTPBodyError {
      guard !hasBegun.isSet else { throw error }
      return exchange.reply(Self.stopped)
    } catch {
      guard !hasBegun.isSet else { throw error }
      return exchange.reply(Self.failed(error, sent).last())
    }
    switch outcome.withLock({ $0 }) {
    case .answered: return
    case .reply(let reply): exchange.reply(reply)
    case .again(let next):
      try await send(next, retained, head, target, exchange)
    }
  }

  /// Hands an answer on, or says what is to be done instead.
  private func take(
    _ answer: UpstreamAnswer, _ sent: AuthorizedRequest, _ head: HTTPRequestHead, _ target: ForwardTarget,
    _ exchange: HTTPExchange, _ hasBegun: Flag
  ) async throws -> Outcome {
    var response = HTTPResponse(status: answer.status, headers: answer.headers, body: .init())
    if (400..<500).contains(answer.status) {
      if answer.status == 401 {
        // Small: what is refused, and why.
        do {
          try await answer.parts { part in
            guard response.body.count + part.readableBytes <= Self.longestRefusal else { throw TooLong() }
            response.body.append(contentsOf: part.readableBytesView)
          }
        } catch is TooLong {}
      }
      switch await broker.judge(response, to: sent) {
      case .again(let next): return .again(next)
      case .refused(let error): return .reply(HTTPReply(error, refused: true))
      case .passed where answer.status == 401:
        return .reply(
          HTTPReply(.badGateway, error: "token_refused", "the provider's API answers 401", hint: "See its words there.")
        )
      case .passed: break
      }
    } else {
      _ = await broker.judge(response, to: sent)
    }
    guard answer.status >= 200 else {
      return .reply(
        HTTPReply(
          .badGateway, error: "bad_gateway", "the provider's API changes the protocol",
          hint: "Upgrades, such as to WebSocket, are not passed on."
        ).last())
    }
    if let reason = Self.unsearchable(answer, head) {
      return .reply(
        HTTPReply(
          .badGateway, error: "answer_withheld", "the answer cannot be searched for the token: \(reason)",
          hint: "Ask for another form of it."))
    }
    var filter = TokenFilter(sent.secrets)
    var headers = HTTPHeaders(
      ForwardHeaders.answer(answer.headers).filter { filter.cleaned($0.name) == $0.name }
        .map { ($0.name, filter.cleaned($0.value)) })
    if let location = answer.headers.first(where: { $0.name.lowercased() == "location" })?.value {
      let own = target.redirect(location, of: sent)
      // Elsewhere it names what was made, and nobody goes there by itself.
      guard let own = own ?? ((300..<400).contains(answer.status) ? nil : location) else {
        return .reply(
          HTTPReply(
            .badGateway, error: "redirect_refused", "the provider's API redirects to another server",
            hint: "The token does not go there. An admin can add its origin to api_origins."))
      }
      headers.add(name: "Location", value: filter.cleaned(own))
    }
    let hasNoBody = head.method == .HEAD || [204, 304].contains(answer.status)
    if !headers.contains(name: "Content-Length"), !hasNoBody, head.version == .http1_1 {
      headers.add(name: "Transfer-Encoding", value: "chunked")
    }
    // A short one in one piece.
    if let length = headers.first(name: "Content-Length").flatMap({ Int($0) }), (1...Self.shortAnswer).contains(length),
      !hasNoBody
    {
      var body = ByteBuffer()
      try await answer.parts { part in
        if var rest = filter.pass(part) { body.writeBuffer(&rest) }
      }
      if var rest = filter.end() { body.writeBuffer(&rest) }
      hasBegun.set()
      exchange.reply(HTTPReply(HTTPResponseStatus(statusCode: answer.status), headers, body: body))
      return .answered
    }
    hasBegun.set()
    try await exchange.begin(
      HTTPResponseHead(
        version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status), headers: headers))
    try await answer.parts { part in
      if let rest = filter.pass(part) { try await exchange.write(rest) }
    }
    if let rest = filter.end() { try await exchange.write(rest) }
    exchange.end()
    return .answered
  }

  private struct TooLong: Error {}

  /// As ``HTTPResponse/unsearchable``, from the head.
  private static func unsearchable(_ answer: UpstreamAnswer, _ head: HTTPRequestHead) -> String? {
    guard head.method != .HEAD, ![204, 304].contains(answer.status) else { return nil }
    return HTTPResponse(status: answer.status, headers: answer.headers, body: .init([0])).unsearchable
  }

  private static func failed(_ error: any Error, _ sent: AuthorizedRequest) -> HTTPReply {
    let host = sent.request.url.host() ?? "the provider's API"
    let hint = "See whether the provider's API works, and api_base and api_origins in its section."
    guard let error = error as? TransportError else {
      return HTTPReply(.badGateway, error: "bad_gateway", "\(host) gave no answer that can be read", hint: hint)
    }
    switch error.kind {
    case .timedOut: return HTTPReply(.gatewayTimeout, error: "timeout", error.message, hint: hint)
    case .notSent, .lost, .tooLarge: return HTTPReply(.badGateway, error: "bad_gateway", error.message, hint: hint)
    }
  }
}

extension HTTPReply {
  /// An error of the broker. Never 401: clients would look for a sign-in of their own.
  ///
  /// - Parameter refused: the provider's API said so.
  init(_ error: RPCError, refused: Bool = false) {
    let status: HTTPResponseStatus =
      switch error.reason {
      case .notPermitted: .forbidden
      case .unknownAccount: .notFound
      case .rateLimited: .tooManyRequests
      case .temporarilyUnavailable, .overloaded, .storeFailure, .shuttingDown: .serviceUnavailable
      case .timedOut: .gatewayTimeout
      case .unsupportedByProvider: .forbidden
      case nil where error.code == -32602: .badRequest
      default: .badGateway
      }
    self.init(
      refused ? .badGateway : status, error: error.reason?.rawValue ?? "bad_request", error.message,
      hint: error.hint ?? error.reason?.defaultHint)
    if status == .serviceUnavailable || status == .tooManyRequests {
      headers.add(name: "Retry-After", value: String(max(1, Int((error.retry_after ?? 5).rounded(.up)))))
    }
  }
}
