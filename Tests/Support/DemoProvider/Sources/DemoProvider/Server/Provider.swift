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
    ledger = Mutex(Ledger(options: options, key: try SigningKey.first()))
  }

  /// A request with the faults that hit it.
  struct Turn: Sendable {
    var request: Request
    var faults: [DemoServer.Fault]
    /// The true time, which lifetimes are counted by.
    var now: Date
    /// What kind of request it is; `any` where it is for no endpoint.
    var place: DemoServer.Fault.Place

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
    if let place = Self.endpoints[request.path] ?? Dialect.place(request.path) {
      return .endpoint(place == .token ? .init(grantType: request.form["grant_type"]) : place)
    }
    if request.path.hasPrefix(Self.registrationPrefix) { return .endpoint(.register) }
    if let place = Self.vmsPlace(request.path) ?? zephrPlace(request.path) { return .endpoint(place) }
    if request.path.hasPrefix("/_control/") { return .control(String(request.path.dropFirst("/_control/".count))) }
    return request.path == "/" ? .home : .unknown
  }

  static let oidcPath = "/.well-known/openid-configuration"
  static let registrationPrefix = "/register/"
  private static let endpoints: [String: DemoServer.Fault.Place] = [
    oidcPath: .discovery, "/.well-known/oauth-authorization-server": .discovery,
    "/jwks": .jwks, "/authorize": .authorize, "/par": .par, "/device_authorization": .device, "/device": .devicePage,
    "/token": .token, "/userinfo": .userinfo, "/resource": .resource, "/revoke": .revoke, "/introspect": .introspect,
    "/register": .register, "/end_session": .endSession,
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
    var response: Response
    do throws(OAuthFailure) {
      response = try work(turn, at: place)
    } catch {
      response = .failure(error)
    }
    if let nonce = nextNonce(at: place) { response.headers.append(("DPoP-Nonce", nonce)) }
    return response
  }

  private func work(_ turn: Turn, at place: DemoServer.Fault.Place) throws(OAuthFailure) -> Response {
    switch place {
    case .discovery: discovery(turn)
    case .jwks: jwks(turn)
    case .authorize: authorize(turn)
    case .par: try Dialect(path: turn.request.path) == .uber ? pushHint(turn) : push(turn)
    case .device: try authorizeDevice(turn)
    case .devicePage: devicePage(turn)
    case .token, .tokenCode, .tokenRefresh, .tokenDevice, .tokenClient, .tokenAssertion, .tokenExchange,
      .tokenPassword:
      try token(turn)
    case .userinfo: try userinfo(turn)
    case .resource: try Dialect(path: turn.request.path) == .dropbox ? dropbox(turn) : resource(turn)
    case .revoke: try Dialect(path: turn.request.path) == .dropbox ? dropbox(turn) : revoke(turn)
    case .introspect: try introspect(turn)
    case .register: try register(turn)
    case .endSession: endSession(turn)
    case .vmsBasic, .vmsURL, .vmsPage, .vmsLogin, .vmsLogout, .vmsSessions, .vmsSession, .vmsUser: vms(turn)
    case .zephrStart, .zephrPage, .zephrRegister, .zephrProfile, .zephrLogout: zephr(turn)
    case .external: bridgeReturned(turn)
    case .any, .vms, .zephr: Response(status: 404)
    }
  }

  private static let methods: [DemoServer.Fault.Place: [HTTPMethod]] = [
    .discovery: [.GET, .HEAD], .jwks: [.GET, .HEAD], .authorize: [.GET, .POST], .devicePage: [.GET, .POST],
    .userinfo: [.GET, .POST], .resource: [.GET, .HEAD, .POST, .PUT, .DELETE, .PATCH],
    .register: [.GET, .POST, .PUT, .DELETE], .endSession: [.GET, .POST],
    .vmsBasic: [.GET], .vmsURL: [.GET], .vmsPage: [.GET, .POST], .vmsSessions: [.GET], .vmsUser: [.GET],
    .external: [.GET], .zephrStart: [.GET], .zephrPage: [.GET, .POST], .zephrProfile: [.GET],
  ]

  /// Whether a client may be answered at this URI.
  func allows(redirect uri: String, for client: DemoServer.Client) -> Bool {
    if client.redirectURIs.contains(uri) { return true }
    guard let url = URLComponents(string: uri), url.scheme == "http", url.user == nil, url.password == nil,
      url.fragment == nil
    else { return false }
    return url.host == "127.0.0.1" || url.host == "[::1]" || url.host == "::1"
  }

  /// The newest key's signature, with the faults of the turn in it.
  func sign(_ claims: DemoServer.JSON, type: String = "JWT", _ turn: Turn) throws(OAuthFailure) -> String {
    var claims = claims
    if let fault = turn.fault(.claimAbsent) {
      claims = claims.overlaid(with: [fault.parameters.value ?? "at_hash": .null])
    }
    guard let key = ledger.withLock({ $0.keys.first }),
      let token = try? key.sign(claims, type: type, faults: turn.faults)
    else { throw .serverError("nothing could be signed") }
    return token
  }
}
