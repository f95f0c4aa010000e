public import BrokerAPI
public import FoundationEssentials
import Grants
public import OAuth
import Synchronization

/// A request that goes through the broker to a provider's API, as its client sent it.
public struct ForwardRequest: Sendable {
  public var account: String
  public var method: String
  /// The path below the account's API base with the query, or with ``host`` the whole path at that host.
  public var target: String
  /// Another one of the account's API origins: its host, with the port where it has one.
  public var host: String?
  /// The client's headers that are passed on.
  public var headers: [HTTPRequest.Header]
  /// The content of the body as far as it was read: a rule may depend on it.
  public var body = Body.unread

  public enum Body: Sendable, Equatable {
    case unread
    /// The digest of ``bodyDigest(of:)``; nil: there is no body.
    case read(digest: String?, MCPContent)
  }

  /// Its messages; nil: they were not read.
  var content: MCPContent? { if case .read(_, let content) = body { content } else { nil } }

  public init(
    account: String, method: String, target: String, host: String?, headers: [HTTPRequest.Header]
  ) {
    self.account = account
    self.method = method
    self.target = target
    self.host = host
    self.headers = headers
  }
}

/// A request with an account's token in it, to be sent once.
public struct AuthorizedRequest: Sendable {
  public let basis: AuthorizedBasis
  public let method: String
  /// Path and query, as sent.
  public let target: String
  /// As they are sent, without those of the connection and the body.
  public let headers: [HTTPRequest.Header]

  /// Before and after it was signed; nil: it has no signature.
  let signing: (unsigned: HTTPRequest, signed: HTTPRequest)?
  let call: APICall

  /// As it is sent. It has no body.
  public var request: HTTPRequest {
    signing?.signed ?? basis.request(method, target, headers)
  }

  /// Whether the broker has to see every answer, and not only errors.
  public var isSigned: Bool { signing != nil }
}

extension AuthorizedRequest: Redacted {
  /// Its headers hold the token.
  public var description: String { "\(method) \(basis.server.authority)" }
}

extension ForwardRequest: Redacted {
  /// Its headers may contain data only for its client.
  public var description: String { "\(method) for account \(account)" }
}

/// What requests with one token to one server have in common.
public final class AuthorizedBasis: Sendable {
  public let server: UpstreamServer
  /// Not to be repeated to the client, the longest first.
  public let secrets: [String]
  /// The origins that the token may go to.
  public let origins: Set<String>
  /// The base of the client's paths.
  public let base: URL?

  /// Headers added to the client's.
  let added: [HTTPRequest.Header]
  let target: ProviderEndpoints
  let token: SavedToken
  /// `https://api.example.com:8443`.
  private let place: String
  /// The token in the form for event loops; it is withdrawn with any change of the token or its provider's settings.
  private let served = Mutex<TokenCache.Slot?>(nil)

  init(
    _ server: UpstreamServer, adding added: [HTTPRequest.Header], secrets: [String], _ target: ProviderEndpoints,
    _ token: SavedToken
  ) {
    self.server = server
    self.added = added
    self.secrets = secrets
    self.target = target
    self.token = token
    let traits = target.provider.apiTraits
    origins = traits.origins
    base = traits.base
    place = "\(server.isSecure ? "https" : "http")://\(server.authority)"
  }

  func record(_ slot: TokenCache.Slot?) {
    guard let slot, slot.entry.generation == token.generation else { return }
    served.withLock { $0 = slot }
  }

  var slot: TokenCache.Slot? { served.withLock { $0 } }

  func request(_ method: String, _ target: String, _ headers: [HTTPRequest.Header]) -> HTTPRequest {
    var request = HTTPRequest(
      purpose: .resource, method: method,
      url: URL(string: place + target, encodingInvalidCharacters: false) ?? base ?? URL(filePath: "/"), headers: headers
    )
    request.tls = server.tls
    return request
  }
}

/// The action after an answer of a provider's API.
public enum ForwardVerdict: Sendable {
  /// It is the client's.
  case passed
  /// It is the client's, or this error for a client that shows the broker's errors to its user: only a login helps.
  case stepUp(RPCError)
  /// The token was refused, or the proof's nonce: the same once more.
  case again(AuthorizedRequest)
  case refused(RPCError)
}
