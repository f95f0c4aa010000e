import Broker
import BrokerAPI
import HTTPServer
import NIOCore
import NIOHTTP1

/// A client's request on its way to a provider's API, and the answer on its way back (``ForwardedAnswer``): each event has an
/// action, without I/O. ``ForwardedExchange`` performs the actions.
struct ForwardedRequest {
  private enum Phase {
    /// The broker decides.
    case deciding
    /// The decision depends on the body, which is read first.
    case reading
    /// The server gets the request, and answers it.
    case sent
    /// An error of the broker waits for the body, which shows the id of a JSON-RPC request.
    case refused(HTTPReply)
    /// The client got an error of the broker.
    case answered
    /// The exchange with the client ended.
    case over
  }

  enum Decider {
    /// The cache of the connection.
    case cache
    /// The broker, by the head; it may need the body.
    case head
    /// The broker, by the head and the body.
    case body
  }

  enum Action {
    /// ``decided(_:_:)`` follows.
    case decide(Decider)
    /// Read more of the body. No server needs it.
    case read
    /// Send the request to the server instead of an earlier one: ``serverAsked()`` follows.
    ///
    /// - isRepeatable: the server may get it twice (RFC 9110 §9.2.2).
    case send(hasBody: Bool, isRepeatable: Bool)
    /// The server takes more of the body.
    case write
    case answer(ForwardedAnswer.Action)
    /// Nothing more of the server is wanted.
    case cancel
    /// Answer with an error of the broker. Nothing more of the server is wanted.
    ///
    /// - isCall: the body is whole, and may be a JSON-RPC request.
    case refuse(HTTPReply, isCall: Bool)
  }

  private let head: HTTPRequestHead
  private let hasBody: Bool
  private var phase = Phase.deciding
  private var answer: ForwardedAnswer

  init(_ head: HTTPRequestHead, hasBody: Bool) {
    self.head = head
    self.hasBody = hasBody
    answer = ForwardedAnswer(head)
  }

  /// Whether the client has its whole answer, or hung up.
  var isOver: Bool { if case .over = phase { true } else { false } }

  // MARK: The decision

  enum Decision {
    /// The cache has none.
    case unknown
    /// A user approves this body and no other, or a rule allows the calls in it.
    case needsBody
    case allowed(ForwardedAnswer.Question)
    case refused(RPCError)
  }

  /// The request came.
  func began() -> Action? { if case .deciding = phase { .decide(.cache) } else { nil } }

  mutating func decided(_ decision: Decision, _ body: RetainedBody.State) -> Action? {
    guard case .deciding = phase else { return nil }
    switch decision {
    case .unknown: return .decide(.head)
    case .needsBody:
      phase = .reading
      return read(body)
    case .allowed(let question): return send(question)
    case .refused(let error): return refuse(HTTPReply(error), body)
    }
  }

  private mutating func read(_ body: RetainedBody.State) -> Action {
    switch body {
    case .partial: return .read
    case .whole:
      phase = .deciding
      return .decide(.body)
    case .failed: return refuse(Self.stopped, body)
    case .tooLong: return refuse(Self.tooLong, body)
    case .unkept: return refuse(Self.overloaded, body)
    }
  }

  private mutating func send(_ question: ForwardedAnswer.Question) -> Action {
    phase = .sent
    answer.asked(question)
    return .send(hasBody: hasBody, isRepeatable: !hasBody && !question.isSigned && isSafe)
  }

  /// RFC 9110 §9.2.1.
  private var isSafe: Bool {
    switch head.method {
    case .GET, .HEAD, .OPTIONS: true
    default: false
    }
  }

  /// The broker answers with an error: to a JSON-RPC request in its form, once its body shows the id.
  private mutating func refuse(_ reply: HTTPReply, _ body: RetainedBody.State) -> Action {
    switch body {
    case .partial where JSONRPCReply.mayAnswer(head):
      phase = .refused(reply)
      return .read
    case .partial, .whole, .failed, .tooLong, .unkept:
      phase = .answered
      return .refuse(reply, isCall: body == .whole && JSONRPCReply.mayAnswer(head))
    }
  }

  // MARK: The client

  /// More of the body, its end or its failure.
  mutating func bodyCame(_ body: RetainedBody.State) -> Action? {
    switch phase {
    case .reading: return read(body)
    case .sent: return serverTookMore()
    case .refused(let reply): return refuse(reply, body)
    case .deciding, .answered, .over: return nil
    }
  }

  /// All data were sent to the client (``ForwardedAnswer/Action/flush``).
  func flushed(isWritable: Bool) -> Action? { isSent ? answer.flushed(isWritable: isWritable).map(Action.answer) : nil }

  /// The client's side takes more again.
  func clientTookMore() -> Action? { isSent ? answer.clientTookMore().map(Action.answer) : nil }

  /// The client has its whole answer, or hung up.
  mutating func stop() {
    phase = .over
    answer = ForwardedAnswer(head)
  }

  // MARK: The server

  private var isSent: Bool { if case .sent = phase { true } else { false } }

  /// The request was given to the server's side, which may have failed at once.
  func serverAsked() -> Action? { isSent ? nil : .cancel }

  /// The server's side takes the body, or more of it. A server that refuses the request gets no more.
  func serverTookMore() -> Action? { isSent && hasBody && !answer.isHeld ? .write : nil }

  /// The part of the body that is sent next will not come.
  mutating func bodyFailed(_ body: RetainedBody.State) -> Action? {
    guard isSent else { return nil }
    do throws(ForwardedAnswer.Refusal) {
      return Action.answer(try answer.fail(Self.stopped))
    } catch {
      return refuse(error.reply, body)
    }
  }

  mutating func serverBegan(_ response: HTTPResponseHead, _ body: RetainedBody.State) -> Action? {
    guard isSent else { return nil }
    do throws(ForwardedAnswer.Refusal) {
      return try answer.began(response).map(Action.answer)
    } catch {
      return refuse(error.reply, body)
    }
  }

  mutating func serverSent(_ part: ByteBuffer) -> Action? { isSent ? answer.sent(part).map(Action.answer) : nil }

  /// No more for now.
  func serverPaused() -> Action? { isSent ? answer.paused().map(Action.answer) : nil }

  mutating func serverEnded() -> Action? { isSent ? answer.ended().map(Action.answer) : nil }

  mutating func serverFailed(_ error: TransportError, _ body: RetainedBody.State) -> Action? {
    guard isSent else { return nil }
    do throws(ForwardedAnswer.Refusal) {
      return try answer.failed(HTTPReply(error).last()).map(Action.answer)
    } catch {
      return refuse(error.reply, body)
    }
  }

  // MARK: The broker's verdict

  enum Verdict {
    case passed
    /// The same request again, with another token or proof.
    ///
    /// - canSend: the body can be sent from its first byte.
    case again(ForwardedAnswer.Question, canSend: Bool)
    /// - body: copies the whole body; nil: it was not kept.
    case stepUp(RPCError, body: () -> [UInt8]?)
    case refused(RPCError)
  }

  /// Whether an answer waits for its verdict.
  var awaitsVerdict: Bool { isSent && answer.isJudged }

  /// The verdict on the answer (``ForwardedAnswer/Action/judge(_:_:_:)``). The actions include those of the data that came
  /// before it; empty: no answer waits for it.
  mutating func judged(_ verdict: Verdict, _ body: RetainedBody.State) -> [Action] {
    guard awaitsVerdict else { return [] }
    let known: ForwardedAnswer.Verdict
    switch verdict {
    case .again(let question, let canSend): return [canSend ? send(question) : refuse(Self.unkept, body)]
    case .stepUp(let error, let whole): known = .stepUp(error, isShown: isShown(error, whole))
    case .passed: known = .passed
    case .refused(let error): known = .refused(error)
    }
    do throws(ForwardedAnswer.Refusal) {
      return try answer.judged(known).map(Action.answer)
    } catch {
      return [refuse(error.reply, body)]
    }
  }

  /// Whether the client understands a JSON-RPC error; others get the API's own answer.
  private func isShown(_ error: RPCError, _ body: () -> [UInt8]?) -> Bool {
    guard JSONRPCReply.mayAnswer(head), let body = body() else { return false }
    return JSONRPCReply.error(HTTPReply(error), to: body) != nil
  }
}
