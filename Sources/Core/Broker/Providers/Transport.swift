public import FoundationEssentials
public import Grants
public import OAuth

/// Sends requests to providers. Redirects are never followed; bodies and times are bounded by the request's purpose.
public protocol Transport: Sendable {
  /// - Parameters:
  ///   - pool: the connections that it may use.
  ///   - late: the answer is read on after its time is over; nil: the request ends with its time.
  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse

  /// The scope of the address that the server of the URL has answered from.
  func scope(of url: URL) async throws(TransportError) -> AddressScope

  /// The HTTP proxy for requests to the URL; nil: they go to the server directly.
  func proxy(for url: URL) -> HTTPProxy?
}

extension Transport {
  /// Without a look-up: names are taken to be public.
  public func scope(of url: URL) async throws(TransportError) -> AddressScope {
    let host = (url.host() ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    return AddressScope(host) ?? (host == "localhost" ? .machine : .global)
  }

  public func proxy(for url: URL) -> HTTPProxy? { nil }
}

/// Shared connections. Each pool has its own, even to the same server: a provider that hangs stops no other one, and
/// requests of callers stop no refresh.
public struct ConnectionPool: Sendable, Hashable {
  public enum Use: Sendable, Hashable {
    /// Refreshes, and the metadata and keys that they need.
    case refreshes
    /// Starts of logins, registrations and checks, which callers begin when they want.
    case logins
    /// Codes, device codes and other values of a login that has started. They wait for no request that a caller begins: a
    /// code that was not sent in time is lost.
    case exchanges
    /// Checks of logout tokens, which any client of the endpoint can send.
    case logouts
    /// Revocations, which may be many: a login waits for none of them.
    case revocations
    /// Requests of callers with an account's token.
    case callers
    /// The same, sent through the broker by others.
    case forwarded
  }

  public var provider: ProviderName
  public var use: Use
  /// Connections to one server at once, each with one request at a time. Of ``Use/forwarded``, for each event loop.
  public var size: Int
  /// The nearest addresses that connections may go to; nil: all. For servers that a document named.
  public var reach: AddressScope?

  public init(_ provider: ProviderName, _ use: Use, size: Int, reach: AddressScope? = nil) {
    self.provider = provider
    self.use = use
    self.size = size
    self.reach = reach
  }
}

/// An answer that cannot be asked for again, such as that to a refresh whose refresh token is good once.
public struct LateAnswer: Sendable {
  /// How long it is read for, from the request's beginning on.
  public var limit: Duration
  /// Called once, when the request's time is over.
  public var isOverdue: @Sendable (TransportError) -> Void

  public init(limit: Duration, isOverdue: @escaping @Sendable (TransportError) -> Void) {
    self.limit = limit
    self.isOverdue = isOverdue
  }
}

/// No answer came. The text is for people and names no secret.
public struct TransportError: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, Equatable {
    /// Nothing was sent: name look-up, connect, TLS.
    case notSent
    /// It may have been sent and acted on.
    case lost
    case timedOut
    case tooLarge
    /// It was answered, in a content coding that cannot be decoded.
    case unreadable
  }

  /// The cause as far as it is visible: it selects the advice for the user.
  public enum Cause: String, Sendable, Equatable {
    case nameLookup
    /// No server listens there.
    case refused
    /// No road to there: the network is down, or a firewall says no.
    case unreachable
    case silence
    /// The server's certificate is not to be trusted: expired, for another name, of an unknown authority.
    case certificate
    /// No secure connection, for another reason.
    case tls
    /// The address is outside the pool's ``ConnectionPool/reach``.
    case reach
    /// The proxy of the request.
    case proxy
    /// The proxy requires a user's name and password, or other ones.
    case proxyCredentials
    case other
  }

  public var kind: Kind
  public var message: String
  public var cause: Cause

  public init(_ kind: Kind, _ message: String, cause: Cause = .other) {
    self.kind = kind
    self.message = message
    self.cause = cause
  }
}
