public import Broker
public import BrokerAPI
public import HTTPServer
public import HTTPTransport
public import NIOCore
import NIOHTTP1
public import OAuth
public import Principals
import Synchronization

/// The HTTP interface for programs that speak nothing else: a token endpoint (RFC 6749 §3.2), requests to a provider's
/// API that the broker sends with an account's token, and accounts in the form of clouds' metadata servers.
public final class LoopbackApplication: Sendable {
  private struct State {
    var settings = LoopbackSettings()
    var servesSystem = false
    var broker: (any LoopbackBroker)?
  }

  private let state = Mutex(State())

  let upstreams: @Sendable (any EventLoop) -> Upstreams
  let roles: AWSRoles
  let retained = RetainedBytes()
  let now: @Sendable () -> Timestamp

  /// - Parameters:
  ///   - transport: for the broker's own requests to clouds.
  ///   - upstreams: for forwarded requests, by the event loop of their connection.
  ///   - now: the wall clock.
  public init(
    _ transport: any Transport, upstreams: @escaping @Sendable (any EventLoop) -> Upstreams,
    now: @escaping @Sendable () -> Timestamp
  ) {
    self.upstreams = upstreams
    self.now = now
    roles = AWSRoles(transport, now: now)
  }

  /// The broker is that of the system: other users may run servers that root's programs connect to.
  public func serveSystem() { state.withLock { $0.servesSystem = true } }

  var servesSystem: Bool { state.withLock { $0.servesSystem } }

  /// Who answers; there is a broker only when the configuration was read.
  public func serve(_ broker: any LoopbackBroker) { state.withLock { $0.broker = broker } }

  /// The current configuration; a reload replaces it.
  public func configure(_ settings: LoopbackSettings) { state.withLock { $0.settings = settings } }

  var settings: LoopbackSettings { state.withLock { $0.settings } }
  var broker: (any LoopbackBroker)? { state.withLock { $0.broker } }
}

/// How the broker's listeners know who calls.
public enum CallerKind: Sendable {
  /// By a Unix socket: the process.
  case process
  /// By a loopback port: the user and the unit.
  case peer

  func principal(of caller: Caller) -> Principal {
    switch self {
    case .process: .process(caller)
    case .peer: .peer(caller)
    }
  }
}

/// The application as one listener serves it.
public struct LoopbackListener: CallerApplication {
  private let application: LoopbackApplication
  private let kind: CallerKind

  public init(_ application: LoopbackApplication, _ kind: CallerKind) {
    self.application = application
    self.kind = kind
  }

  public var identifiesCallers: Bool { true }

  public func callerClass(of caller: Caller) -> CallerClass {
    application.broker?.callerClass(of: kind.principal(of: caller)) ?? .unnamed
  }

  public func conversation(with caller: Caller?) -> any HTTPConversation {
    guard let caller, let broker = application.broker else { return UnidentifiedCallerConversation() }
    return LoopbackConversation(application, broker, kind.principal(of: caller))
  }
}

/// The requests of one connection.
final class LoopbackConversation: HTTPConversation {
  private let application: LoopbackApplication
  private let principal: Principal
  private let tokens: TokenEndpoint
  private let forward: ForwardEndpoint
  private let clouds: CloudRequests

  init(_ application: LoopbackApplication, _ broker: any LoopbackBroker, _ principal: Principal) {
    self.application = application
    self.principal = principal
    tokens = TokenEndpoint(application, broker, principal)
    clouds = CloudRequests(application, broker, principal)
    forward = ForwardEndpoint(broker, principal, application.retained, application.upstreams)
  }

  /// A header that a redirect cannot add. A server that answers root's `curl -L` could otherwise redirect it here, and have
  /// a request sent with a token that root may use.
  static let rootHeader = "Grantd-Request"

  private func isRedirectable(_ head: HTTPRequestHead) -> Bool {
    guard case .peer(let caller) = principal, caller.uid == 0, application.servesSystem else { return false }
    // The other paths require such a header of all callers.
    guard head.path.hasPrefix(ForwardTarget.prefix) || head.path.hasPrefix(CloudRequests.awsPrefix) else {
      return false
    }
    return !head.headers.contains(name: Self.rootHeader) && !head.headers.contains(name: "Authorization")
  }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    if isRedirectable(head) {
      return .refuse(
        HTTPReply(
          .forbidden, error: "forbidden", "a request of root needs a header that a redirect cannot add",
          hint: "Send \(Self.rootHeader): 1, or use the Unix socket."))
    }
    return switch head.path {
    case "/token": tokens.intake(of: head)
    case let path where path.hasPrefix(ForwardTarget.prefix): forward.intake(of: head)
    case _ where CloudRequests.isOne(head): clouds.intake(of: head)
    default:
      .refuse(
        HTTPReply(
          .notFound, error: "not_found", "there is nothing at this path",
          hint: "There are POST /token and /forward/ACCOUNT/PATH: docs/http.md describes them."))
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    head.path == "/token" ? tokens.answer(head, body, exchange) : clouds.answer(head, exchange)
  }

  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    forward.stream(head, body, exchange)
  }
}

/// For a caller that the kernel does not identify: nothing.
private final class UnidentifiedCallerConversation: HTTPConversation {
  func intake(of head: HTTPRequestHead) -> BodyHandling {
    .refuse(HTTPReply(.forbidden, error: "forbidden", "the kernel does not identify the caller").last())
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {}
}

extension HTTPRequestHead {
  /// Without the query.
  var path: Substring { uri.prefix { $0 != "?" } }
}

/// A request over HTTP, as the broker's methods see it.
public final class HTTPSession: Session {
  public let principal: Principal
  /// Nil: it continues if no client waits for its answer.
  private let exchange: HTTPExchange?
  /// The entrance that the request has not left.
  private let entrance = Mutex<Entrance?>(nil)

  public init(_ principal: Principal, _ exchange: HTTPExchange?) {
    self.principal = principal
    self.exchange = exchange
  }

  deinit { decided() }

  /// Has the broker perform the method when it is the caller's turn.
  public func perform<M: RPCMethod>(
    _ method: M.Type, _ params: M.Params, by broker: any LoopbackBroker
  ) async -> Result<M.Result, RPCError> {
    if let error = await enter(broker.entrance) { return .failure(error) }
    return await broker.perform(method, params, by: self)
  }

  /// Returns when the request may be decided, with an error if too many wait. Of a client that hung up none is.
  public func enter(_ entrance: Entrance) async -> RPCError? {
    guard await entrance.enter(principal.holder) else {
      return RPCError(
        .overloaded, "too many requests of \(principal.holder) are waiting", hint: "Send fewer requests at once.",
        retryAfter: 1)
    }
    self.entrance.withLock { $0 = entrance }
    guard isReading else {
      decided()
      return RPCError(.overloaded, "the caller has closed the connection")
    }
    return nil
  }

  public func decided() { entrance.withLock { $0.take() }?.release() }

  public var isReading: Bool { exchange?.isOpen ?? true }
  public func notify(method: String, params: JSON) -> Bool { false }
  public func holdOpen() {}
  public func onClose(_ action: @escaping @Sendable () -> Void) { exchange?.onEnd(action) }
}
