import Broker
import BrokerAPI
import HTTPServer
import HTTPTransport
import NIOCore
import NIOHTTP1
import OAuth
import Principals

/// `/forward/ACCOUNT/…`: a request to the provider's API, sent with the account's token, which the client never has. Of one
/// connection, on its event loop.
final class ForwardEndpoint {
  /// From the request to the head of its answer.
  static let headTime = Duration.seconds(600)
  /// Bytes of a path with its query.
  static let longestTarget = 8000

  let broker: any LoopbackBroker
  let principal: Principal
  /// Most connections forward nothing.
  private(set) lazy var cache = broker.forwardCache(for: principal)
  let retained: RetainedBytes
  private let upstreamsOf: @Sendable (any EventLoop) -> Upstreams
  /// Those of the connection's loop.
  private var upstreams: Upstreams?
  /// The destination of the request that is being read.
  private var target: ForwardTarget?
  /// That of the token that was sent last.
  private weak var latest: AuthorizedBasis?
  private var latestFilter = TokenFilter([])

  init(
    _ broker: any LoopbackBroker, _ principal: Principal, _ retained: RetainedBytes,
    _ upstreams: @escaping @Sendable (any EventLoop) -> Upstreams
  ) {
    self.broker = broker
    self.retained = retained
    self.principal = principal
    upstreamsOf = upstreams
  }

  /// On whose account request bodies are kept.
  var share: Share { Share(holder: principal.holder, callerClass: broker.callerClass(of: principal)) }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    guard let target = ForwardTarget(head.uri) else {
      return .refuse(
        HTTPReply(
          .notFound, error: "not_found", "there is no such account",
          hint: "The path is /forward/ACCOUNT/ and the path at the provider's API."))
    }
    guard target.isPlain else {
      return .refuse(HTTPReply(.badRequest, error: "bad_request", PlainPath.refusal, hint: PlainPath.hint))
    }
    guard target.target.utf8.count <= Self.longestTarget else {
      return .refuse(
        HTTPReply(
          .badRequest, error: "bad_request", "the path and its query have more than \(Self.longestTarget) bytes",
          hint: "Make them shorter."))
    }
    // The parser uses this instead of bytes that are not UTF-8, so the header would differ.
    guard !head.headers.contains(where: { $0.value.utf8.contains(0xEF) && $0.value.contains("\u{FFFD}") }) else {
      return .refuse(
        HTTPReply(
          .badRequest, error: "bad_request", "a header has bytes that are not UTF-8",
          hint: "Write it in UTF-8, or in ASCII."))
    }
    // RFC 9110 §9.3.8: the answer to TRACE is the request, credentials and all.
    guard head.method != .TRACE, head.method != .CONNECT else {
      return .refuse(
        HTTPReply(
          .notImplemented, error: "not_implemented", "\(head.method.rawValue) is not sent with a token",
          hint: "Use another method."))
    }
    self.target = target
    return Self.streamed
  }

  private static let streamed = BodyHandling.stream(
    within: headTime,
    else: HTTPReply(
      .gatewayTimeout, error: "timeout", "the provider's API does not answer",
      hint: "See whether it works: grantctl doctor tells how the provider is."
    ).last())

  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    guard let target else { return }
    self.target = nil
    ForwardedExchange(self, head, target, body, exchange).start()
  }

  func send(_ request: UpstreamRequest, to receiver: any UpstreamReceiver, on loop: any EventLoop) -> UpstreamExchange {
    let known = upstreams ?? upstreamsOf(loop)
    upstreams = known
    return known.send(request, to: receiver)
  }

  /// Removes the token from an answer.
  func filter(for basis: AuthorizedBasis) -> TokenFilter {
    if latest !== basis {
      latest = basis
      latestFilter = TokenFilter(basis.secrets)
    }
    return latestFilter
  }
}
