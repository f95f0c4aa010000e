import BrokerAPI
import HTTPServer
import NIOCore
import NIOHTTP1
import OAuth

/// The answer of a provider's API on its way to the client: each event has an action, without I/O.
struct ForwardedAnswer {
  /// The maximum bytes of an answer that is returned as a whole.
  static let shortAnswer = 16 << 10
  /// The maximum bytes of a refusal that are examined.
  static let longestRefusal = 64 << 10

  private enum Phase {
    /// It has not begun.
    case none
    /// 401: the body is read for the reason.
    case refusal(HTTPResponseHead, ByteBuffer)
    /// The broker judges the answer; data of this time are queued.
    case judged(HTTPResponseHead, [Item])
    case short(HTTPResponseStatus, HTTPHeaders, ByteBuffer)
    case streamed
  }

  private enum Item {
    case part(ByteBuffer)
    case end
    case failure(HTTPReply)
  }

  /// The part of the request with the token that its answer depends on.
  struct Question {
    /// Whether the broker judges every answer, and not only errors.
    let isSigned: Bool
    /// Removes the token.
    let filter: TokenFilter
    /// The broker's URL for a `Location`; nil: the token does not go there.
    let redirect: (String) -> String?
  }

  enum Action {
    /// The broker judges the answer. The upstream is paused, or cancelled as its body is too long, or has ended.
    case judge(HTTPResponseHead, ByteBuffer, Upstream)
    case begin(HTTPResponseHead)
    case write(ByteBuffer)
    /// ``flushed(isWritable:)`` follows.
    case flush
    /// Nothing more of the server's answer is read for now.
    case pause
    case resume
    case end(ByteBuffer?)
    /// The whole answer.
    case reply(HTTPReply)
    /// The answer has begun: the client must see that it is incomplete. Nothing more of the server is wanted.
    case abort
  }

  enum Upstream { case paused, cancelled, ended }

  /// The client gets an error of the broker instead of the answer.
  struct Refusal: Error {
    let reply: HTTPReply
  }

  /// The request that is answered.
  private let head: HTTPRequestHead
  private var phase = Phase.none
  private var question: Question?
  private var filter = TokenFilter([])
  /// The server refuses the request: nothing more of its body is sent.
  private(set) var isHeld = false

  init(_ head: HTTPRequestHead) { self.head = head }

  private var isStreamed: Bool { if case .streamed = phase { true } else { false } }
  /// Whether the broker's verdict is awaited.
  var isJudged: Bool { if case .judged = phase { true } else { false } }

  /// A request was sent, perhaps again.
  mutating func asked(_ new: Question) {
    question = new
    phase = .none
    isHeld = false
  }

  // MARK: Events of the server

  mutating func began(_ head: HTTPResponseHead) throws(Refusal) -> Action? {
    guard let question else { return nil }
    let status = head.status.code
    if status >= 300 { isHeld = true }
    if status == 401 {
      phase = .refusal(head, ByteBuffer())
      return nil
    }
    guard (400..<500).contains(status) || question.isSigned else { return try pass(head, question) }
    return judge(head, ByteBuffer(), .paused)
  }

  mutating func sent(_ part: ByteBuffer) -> Action? {
    switch phase {
    case .refusal(let head, var body):
      guard body.readableBytes + part.readableBytes <= Self.longestRefusal else { return judge(head, body, .cancelled) }
      phase = .none
      var part = part
      body.writeBuffer(&part)
      phase = .refusal(head, body)
    case .judged(let head, var items):
      phase = .none
      items.append(.part(part))
      phase = .judged(head, items)
    case .short(let status, let headers, var body):
      guard var rest = filter.pass(part) else { return nil }
      phase = .none
      body.writeBuffer(&rest)
      phase = .short(status, headers, body)
    case .streamed: return filter.pass(part).map(Action.write)
    case .none: break
    }
    return nil
  }

  /// No more for now.
  func paused() -> Action? { isStreamed ? .flush : nil }

  mutating func ended() -> Action? {
    switch phase {
    case .refusal(let head, let body): return judge(head, body, .ended)
    case .judged(let head, let items): phase = .judged(head, items + [.end])
    case .short(let status, let headers, var body):
      if var rest = filter.end() { body.writeBuffer(&rest) }
      return .reply(HTTPReply(status, headers, body: body))
    case .streamed: return .end(filter.end())
    case .none: break
    }
    return nil
  }

  /// The server cannot be reached, or its answer is incomplete.
  mutating func failed(_ reply: HTTPReply) throws(Refusal) -> Action? {
    guard case .judged(let head, let items) = phase else { return try fail(reply) }
    phase = .judged(head, items + [.failure(reply)])
    return nil
  }

  /// The end without an answer of the server.
  mutating func fail(_ reply: HTTPReply) throws(Refusal) -> Action {
    guard !isStreamed else { return .abort }
    phase = .none
    throw Refusal(reply: reply)
  }

  // MARK: The broker's verdict

  enum Verdict {
    case passed
    /// - Parameter isShown: whether the client shows the broker's error to its user.
    case stepUp(RPCError, isShown: Bool)
    case refused(RPCError)
  }

  /// The actions, with those of the data that came before the verdict; empty: there is no answer to judge.
  mutating func judged(_ verdict: Verdict) throws(Refusal) -> [Action] {
    guard case .judged(let head, let items) = phase, let question else { return [] }
    switch verdict {
    case .refused(let error): return [try fail(HTTPReply(error, refused: true))]
    case .stepUp(let error, let isShown) where isShown || head.status == .unauthorized:
      return [try fail(HTTPReply(error, refused: true))]
    case .passed where head.status == .unauthorized:
      let reply = HTTPReply(
        .badGateway, error: "token_refused", "the provider's API answers 401", hint: "Ask the provider for the reason.")
      return [try fail(reply)]
    case .passed, .stepUp: break
    }
    var actions: [Action] = []
    func add(_ action: Action?) { if let action { actions.append(action) } }
    add(try pass(head, question))
    for item in items {
      switch item {
      case .part(let part): add(sent(part))
      // Nothing follows the end.
      case .end:
        add(ended())
        return actions
      case .failure(let reply):
        add(try failed(reply))
        return actions
      }
    }
    // The server was paused for the verdict.
    add(isStreamed ? .flush : .resume)
    return actions
  }

  private mutating func judge(_ head: HTTPResponseHead, _ body: ByteBuffer, _ upstream: Upstream) -> Action {
    phase = .judged(head, [])
    return .judge(head, body, upstream)
  }

  // MARK: The client

  /// The client's side takes more, or not now, after all received data were sent.
  func flushed(isWritable: Bool) -> Action? { isStreamed ? (isWritable ? .resume : .pause) : nil }

  /// The client's side takes more again.
  func clientTookMore() -> Action? { isStreamed ? .resume : nil }

  /// Begins to return it, or reports its fault.
  private mutating func pass(_ answer: HTTPResponseHead, _ question: Question) throws(Refusal) -> Action? {
    let status = Int(answer.status.code)
    guard status >= 200 else {
      return try fail(
        HTTPReply(
          .badGateway, error: "bad_gateway", "the provider's API changes the protocol",
          hint: "Upgrades, such as to WebSocket, are not passed on."
        ).last())
    }
    let hasNoBody = head.method == .HEAD || [204, 304].contains(status)
    if !hasNoBody, let reason = Self.unsearchable(answer) {
      return try fail(
        HTTPReply(
          .badGateway, error: "answer_withheld", "the answer cannot be searched for the token: \(reason)",
          hint: "Ask for another form of it."))
    }
    filter = question.filter
    var headers = ForwardHeaders.answer(answer.headers, filter)
    if let location = answer.headers.first(name: "Location") {
      let own = question.redirect(location)
      // Outside 3xx it names a created resource, and clients do not follow it.
      guard let own = own ?? ((300..<400).contains(status) ? nil : location) else {
        return try fail(
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
      return nil
    }
    phase = .streamed
    return .begin(
      HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: headers))
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
}
