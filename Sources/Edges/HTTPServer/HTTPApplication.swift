import BrokerAPI
public import Logging
public import NIOCore
public import NIOHTTP1
public import Principals

/// The meaning of a server's requests, and their permitted clients.
public protocol HTTPApplication: Sendable {
  /// Refusals by a request's head, before the application sees it.
  var checks: HTTPHeadChecks { get }
  /// The slots. Called once, on the server's event loop.
  func places(_ limits: HTTPServer.Limits, on loop: any EventLoop, _ logger: Logger) -> any ConnectionLimits
}

public enum HTTPHeadChecks: Sendable {
  /// Framing that two parsers could read differently, hosts that are not this machine, and browsers.
  case programs
  /// The same, but pages that a user opens may make the user's browser ask.
  case everybody
  /// Nothing: the application checks.
  case none
}

/// Assigns slots at a server, and chooses connections to evict. Used on the server's event loop.
public protocol ConnectionLimits: AnyObject {
  /// A connection was accepted: it is begun (``HTTPConnection/begin(_:)``) or closed, now or later.
  func accepted(_ connection: HTTPConnection)
  /// It was closed, by whomever.
  func ended(_ connection: HTTPConnection)
  /// No more will be accepted.
  func close()
}

/// An application for callers that the kernel tells, with places by holder.
public protocol CallerApplication: HTTPApplication {
  /// False: connections are served too whose caller the kernel does not tell; then the caller is nil.
  var identifiesCallers: Bool { get }
  /// Whether a rule names the caller. All callers without a rule share a small part of the places and of the rate.
  func callerClass(of caller: Caller) -> CallerClass
  /// A new connection. Called on its event loop.
  func conversation(with caller: Caller?) -> any HTTPConversation
}

extension CallerApplication {
  public func callerClass(of caller: Caller) -> CallerClass { .named }

  public var checks: HTTPHeadChecks { .programs }

  public func places(_ limits: HTTPServer.Limits, on loop: any EventLoop, _ logger: Logger) -> any ConnectionLimits {
    HolderConnectionLimits(self, limits, on: loop, logger)
  }
}

/// The requests of one connection, one after the other. Lives on its event loop.
public protocol HTTPConversation: AnyObject {
  /// The action for a request, from its head only.
  func intake(of head: HTTPRequestHead) -> BodyHandling
  /// Answers a request whose body is whole, at once or later, once (``HTTPExchange/reply(_:)``).
  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange)
  /// Answers a request while its body comes in.
  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange)
  /// The text for an unreadable request; the connection ends with it.
  ///
  /// - Parameter line: the first bytes of the connection's latest request line, as far as received.
  func words(for refusal: HTTPRefusal, line: [UInt8]) -> HTTPReply
}

extension HTTPConversation {
  public func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    exchange.reply(HTTPReply(.internalServerError))
  }

  public func words(for refusal: HTTPRefusal, line: [UInt8]) -> HTTPReply {
    switch refusal {
    case .noHTTP: HTTPReply(.badRequest, error: "bad_request", "this is not an HTTP/1.1 request")
    case .longLine: HTTPReply(.uriTooLong, error: "line_too_long", "the request line is too long")
    case .largeHead:
      HTTPReply(.requestHeaderFieldsTooLarge, error: "head_too_large", "the request line and the headers are too large")
    case .largeBody: HTTPReply(.payloadTooLarge, error: "body_too_large", "the request's body is too large")
    case .lateHead: HTTPReply(.requestTimeout, error: "timeout", "the request did not come in time")
    case .lateBody: HTTPReply(.requestTimeout, error: "timeout", "the request's body did not come in time")
    }
  }
}

/// Why a request cannot be read.
public enum HTTPRefusal: Sendable {
  case noHTTP
  case longLine
  case largeHead
  case largeBody
  case lateHead
  case lateBody
}

public enum BodyHandling: Sendable {
  /// Read the body, of no more bytes than this, and then have it answered.
  case whole(atMost: Int)
  /// Have it answered while the body comes in; where its answer has not begun by then, answer this.
  case stream(within: Duration, else: HTTPReply)
  /// Have it answered at once (``HTTPConversation/answer(_:_:_:)``), and drop the body. The connection ends with the answer.
  case withoutBody
  /// Answer this, and do not read the body.
  case refuse(HTTPReply)
}

/// An answer with all its body.
public struct HTTPReply: Sendable {
  public var status: HTTPResponseStatus
  public var headers: HTTPHeaders
  public var body: ByteBuffer
  /// Whether the connection ends with it.
  public var isLast = false
  /// It cost next to nothing, and is not counted in the rate of the caller.
  public var isFromMemory = false

  public init(_ status: HTTPResponseStatus, _ headers: HTTPHeaders = [:], body: ByteBuffer = ByteBuffer()) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  public init(_ status: HTTPResponseStatus, type: String, _ text: String) {
    self.init(
      status, ["Content-Type": type, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"],
      body: ByteBuffer(string: text))
  }

  /// An error of the broker's own, as JSON: `{"error":…,"message":…,"hint":…}`.
  public init(_ status: HTTPResponseStatus, error: String, _ message: String, hint: String? = nil) {
    var members = [
      JSON.Member(name: "error", value: .string(error)), JSON.Member(name: "message", value: .string(message)),
    ]
    if let hint { members.append(JSON.Member(name: "hint", value: .string(hint))) }
    self.init(
      status, type: "application/json", JSON.object(members).text() + "\n")
  }

  /// If the connection cannot be read after it.
  public func last() -> HTTPReply {
    var reply = self
    reply.isLast = true
    return reply
  }
}
