public import BrokerAPI
public import NIOCore
public import NIOHTTP1

/// What a server's requests mean.
public protocol HTTPApplication: Sendable {
  /// Whether connections are served whose caller the kernel does not tell; then the caller is nil.
  var identifiesCallers: Bool { get }
  /// Whether pages that a person visits may have the person's browser ask.
  var servesBrowsers: Bool { get }
  /// A new connection. Called on its event loop.
  func conversation(with caller: Caller?) -> any HTTPConversation
}

extension HTTPApplication {
  public var servesBrowsers: Bool { false }
}

/// The requests of one connection, one after the other. Lives on its event loop.
public protocol HTTPConversation: AnyObject {
  /// What is done with a request, from its head alone.
  func intake(of head: HTTPRequestHead) -> HTTPIntake
  /// Answers a request whose body is whole, at once or later, once (``HTTPExchange/reply(_:)``).
  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange)
  /// Answers a request while its body comes in.
  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange)
}

extension HTTPConversation {
  public func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    exchange.reply(HTTPReply(.internalServerError))
  }
}

public enum HTTPIntake: Sendable {
  /// Read the body, of no more bytes than this, and then have it answered.
  case whole(atMost: Int)
  /// Have it answered while the body comes in; where its answer has not begun by then, answer this.
  case stream(within: Duration, else: HTTPReply)
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
      status, type: "application/json", String(decoding: JSON.object(members).serialized(), as: UTF8.self) + "\n")
  }

  /// Where the request cannot be read on after it.
  public func last() -> HTTPReply {
    var reply = self
    reply.isLast = true
    return reply
  }
}
