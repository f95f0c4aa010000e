import HTTPServer
import NIOHTTP1

/// A client's request on its way to a provider's API, until the server answers it (``ForwardedAnswer``): each event has an
/// action, without I/O.
struct ForwardedRequestState {
  private enum Phase {
    /// The broker decides.
    case deciding
    /// The decision depends on the body, which is read first.
    case reading
    case sent(hasBody: Bool)
    /// An error of the broker waits for the body, which shows the id of a JSON-RPC request.
    case refused(HTTPReply)
    /// The broker has answered, or the client hung up.
    case over
  }

  enum Action {
    case decide(byBody: Bool)
    /// More of the body is wanted.
    case read
    case send
    /// The server can have more of the body.
    case write
    /// An error of the broker: ``ForwardedRequestState/refused(_:_:)`` follows.
    case refuse(HTTPReply)
    /// - isCall: the body is whole, and may be a JSON-RPC request.
    case reply(HTTPReply, isCall: Bool)
  }

  let head: HTTPRequestHead
  private var phase = Phase.deciding

  init(_ head: HTTPRequestHead) { self.head = head }

  // MARK: The decision

  /// The request came, and is not known from a previous one.
  func began() -> Action { .decide(byBody: false) }

  /// A user approves this body and no other, or a rule allows the calls in it.
  mutating func needsBody(_ body: RetainedBody.State) -> Action {
    phase = .reading
    return read(body)
  }

  private mutating func read(_ body: RetainedBody.State) -> Action {
    switch body {
    case .partial: return .read
    case .whole:
      phase = .deciding
      return .decide(byBody: true)
    case .failed: return .refuse(Self.stopped)
    case .tooLong:
      return .refuse(
        HTTPReply(
          .payloadTooLarge, error: "body_too_large", "a rule depends on the body of this request, and it is too long",
          hint: "Bodies have 1 MiB at most then."
        ).last())
    case .unkept:
      return .refuse(
        HTTPReply(
          .serviceUnavailable, error: "overloaded", "the bodies of your other requests take all the room that you have",
          hint: "Send the request again when they have ended."
        ).last())
    }
  }

  /// The request may be sent, perhaps again.
  ///
  /// - Parameter canSend: whether the body can be sent from its first byte.
  mutating func allowed(canSend: Bool, hasBody: Bool) -> Action {
    guard canSend else {
      var reply = HTTPReply(
        .badGateway, error: "token_refused",
        "the token was refused and is renewed; the body was not kept to be sent again", hint: "Send the request again.")
      reply.headers.add(name: "Retry-After", value: "0")
      return .refuse(reply.last())
    }
    phase = .sent(hasBody: hasBody)
    return .send
  }

  /// The broker answers with an error: to a JSON-RPC request in its form, once its body shows the id.
  mutating func refused(_ reply: HTTPReply, _ body: RetainedBody.State) -> Action {
    switch body {
    case .partial where JSONRPCReply.mayAnswer(head):
      phase = .refused(reply)
      return .read
    case .partial, .whole, .failed, .tooLong, .unkept:
      phase = .over
      return .reply(reply, isCall: body == .whole && JSONRPCReply.mayAnswer(head))
    }
  }

  // MARK: The client

  /// More of the body, its end or its failure.
  mutating func bodyCame(_ body: RetainedBody.State) -> Action? {
    switch phase {
    case .reading: return read(body)
    case .sent(let hasBody): return hasBody ? .write : nil
    case .refused(let reply): return refused(reply, body)
    case .deciding, .over: return nil
    }
  }

  /// It is answered, or no client waits for the answer.
  mutating func stop() { phase = .over }

  static var stopped: HTTPReply {
    HTTPReply(
      .requestTimeout, error: "timeout", "the request's body stopped before its end",
      hint: "Send it without pauses of more than 30 seconds."
    ).last()
  }
}
