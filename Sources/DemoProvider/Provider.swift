import Foundation
import NIOHTTP1
import Synchronization

/// The endpoints and what they share. It does no I/O: a request in, a response out.
final class Provider: Sendable {
  let issuer: String
  let options: DemoServer.Options
  let ledger: Mutex<Ledger>

  init(issuer: String, options: DemoServer.Options) throws {
    self.issuer = issuer
    self.options = options
    ledger = Mutex(Ledger(settings: options.settings, key: try SigningKey.first()))
  }

  /// A request with the faults that hit it.
  struct Turn: Sendable {
    var request: Request
    var faults: [DemoServer.Fault]
    /// The true time, which lifetimes are counted by.
    var now: Date

    func fault(_ kind: DemoServer.Fault.Kind) -> DemoServer.Fault? {
      faults.first { $0.kind == kind }
    }

    /// The time that this answer claims: in its Date header and its ID token.
    var claimedNow: Date {
      now.addingTimeInterval(fault(.clockOffset).map { $0.parameters.seconds ?? -300 } ?? 0)
    }
  }

  enum Route: Hashable {
    case endpoint(DemoServer.Fault.Place)
    case control(String)
    case home
    case unknown
  }

  func route(of request: Request) -> Route {
    if let place = Self.endpoints[request.path] {
      guard place == .token else { return .endpoint(place) }
      switch request.form["grant_type"] {
      case "authorization_code": return .endpoint(.tokenCode)
      case "refresh_token": return .endpoint(.tokenRefresh)
      default: return .endpoint(.token)
      }
    }
    if request.path.hasPrefix("/_control/") { return .control(String(request.path.dropFirst("/_control/".count))) }
    return request.path == "/" ? .home : .unknown
  }

  private static let endpoints: [String: DemoServer.Fault.Place] = [
    "/.well-known/openid-configuration": .discovery, "/.well-known/oauth-authorization-server": .discovery,
    "/jwks": .jwks, "/authorize": .authorize, "/token": .token, "/userinfo": .userinfo, "/revoke": .revoke,
    "/introspect": .introspect, "/end_session": .endSession,
  ]

  /// The right answer, state changes included; faults of the stage `issuing` act here.
  func answer(_ turn: Turn, at route: Route) -> Response {
    guard case .endpoint(let place) = route else {
      switch route {
      case .home: return .page(.home(issuer: issuer))
      case .control(let command): return control(command, turn.request)
      case .unknown, .endpoint: return .page(.problem("There is nothing at this address."), status: 404)
      }
    }
    guard Self.methods[place, default: [.POST]].contains(turn.request.method) else {
      return Response(status: 405, headers: [("Allow", "GET, POST")])
    }
    do throws(OAuthFailure) {
      switch place {
      case .discovery: return discovery(turn)
      case .jwks: return .json(["keys": .array(ledger.withLock { $0.keys.map(\.publicJWK) })])
      case .authorize: return authorize(turn)
      case .token, .tokenCode, .tokenRefresh: return try token(turn)
      case .userinfo: return userinfo(turn)
      case .revoke: return try revoke(turn)
      case .introspect: return try introspect(turn)
      case .endSession: return endSession(turn)
      case .any: return Response(status: 404)
      }
    } catch {
      return .failure(error)
    }
  }

  private static let methods: [DemoServer.Fault.Place: [HTTPMethod]] = [
    .discovery: [.GET, .HEAD], .jwks: [.GET, .HEAD], .authorize: [.GET, .POST], .userinfo: [.GET, .POST],
    .endSession: [.GET, .POST],
  ]
}

extension Provider {
  /// The client, authenticated in exactly one way (RFC 6749 §2.3): `none`, `client_secret_basic`, `client_secret_post`.
  func client(of request: Request) throws(OAuthFailure) -> DemoServer.Client {
    let form = request.form
    var id = form["client_id"]
    var secret = form["client_secret"]
    if let basic = request.credentials(scheme: "Basic") {
      guard secret == nil else { throw .invalidRequest("two methods of client authentication") }
      let parts = Data(base64Encoded: basic).map { String(decoding: $0, as: UTF8.self) }?
        .split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map { Form.decode($0) }
      guard let parts, parts.count == 2 else { throw .invalidClient("the Basic credentials cannot be read") }
      guard id == nil || id == parts[0] else { throw .invalidRequest("client_id differs from the Basic credentials") }
      (id, secret) = (parts[0], parts[1])
    }
    guard let id else { throw .invalidClient("no client_id") }
    guard let client = options.clients.first(where: { $0.id == id }) else {
      throw .invalidClient("the client is unknown")
    }
    guard client.secret == secret else { throw .invalidClient("the client's authentication is wrong") }
    return client
  }

  /// Whether a client may be answered at this URI.
  func allows(redirect uri: String, for client: DemoServer.Client) -> Bool {
    if client.redirectURIs.contains(uri) { return true }
    guard let url = URLComponents(string: uri), url.scheme == "http", url.user == nil, url.password == nil,
      url.fragment == nil
    else { return false }
    return url.host == "127.0.0.1" || url.host == "[::1]" || url.host == "::1"
  }
}
