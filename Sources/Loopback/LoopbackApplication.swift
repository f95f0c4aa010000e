public import Broker
public import BrokerAPI
public import HTTPServer
import NIOCore
import NIOHTTP1
import Synchronization

/// What programs get over HTTP that speak nothing else: a token endpoint (RFC 6749 §3.2).
public final class LoopbackApplication: Sendable {
  private struct State {
    var settings = LoopbackSettings()
    var dispatcher: (any Dispatcher)?
  }

  private let state = Mutex(State())

  public init() {}

  /// Who answers; there is a broker only when the configuration was read.
  public func dispatch(by dispatcher: any Dispatcher) { state.withLock { $0.dispatcher = dispatcher } }

  /// What is configured now; a reload brings others.
  public func configure(_ settings: LoopbackSettings) { state.withLock { $0.settings = settings } }

  var settings: LoopbackSettings { state.withLock { $0.settings } }
  var dispatcher: (any Dispatcher)? { state.withLock { $0.dispatcher } }
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
public struct LoopbackListener: HTTPApplication {
  private let application: LoopbackApplication
  private let kind: CallerKind

  public init(_ application: LoopbackApplication, _ kind: CallerKind) {
    self.application = application
    self.kind = kind
  }

  public var identifiesCallers: Bool { true }

  public func conversation(with caller: Caller?) -> any HTTPConversation {
    guard let caller, let dispatcher = application.dispatcher else { return NobodysConversation() }
    return LoopbackConversation(application, dispatcher, kind.principal(of: caller))
  }
}

/// The requests of one connection.
final class LoopbackConversation: HTTPConversation {
  private let application: LoopbackApplication
  private let principal: Principal
  private let tokens: TokenEndpoint

  init(_ application: LoopbackApplication, _ dispatcher: any Dispatcher, _ principal: Principal) {
    self.application = application
    self.principal = principal
    tokens = TokenEndpoint(application, dispatcher, principal)
  }

  func intake(of head: HTTPRequestHead) -> HTTPIntake {
    switch head.path {
    case "/token": tokens.intake(of: head)
    default:
      .refuse(
        HTTPReply(
          .notFound, error: "not_found", "there is nothing at this path",
          hint: "There is POST /token. docs/http.md describes it."))
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    tokens.answer(head, body, exchange)
  }
}

/// Of a caller whom the kernel does not tell: nothing.
private final class NobodysConversation: HTTPConversation {
  func intake(of head: HTTPRequestHead) -> HTTPIntake {
    .refuse(HTTPReply(.forbidden, error: "forbidden", "the kernel does not tell who asks").last())
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {}
}

extension HTTPRequestHead {
  /// Without the query.
  var path: Substring { uri.prefix { $0 != "?" } }
}

/// A request over HTTP, as the broker's methods see it.
final class HTTPSession: Session {
  let principal: Principal
  private let exchange: HTTPExchange

  init(_ principal: Principal, _ exchange: HTTPExchange) {
    self.principal = principal
    self.exchange = exchange
  }

  var caller: Caller { principal.caller }
  var isReading: Bool { exchange.isOpen }
  func notify(method: String, params: JSON) -> Bool { false }
  func holdOpen() {}
  func onClose(_ action: @escaping @Sendable () -> Void) { exchange.onEnd(action) }
}
