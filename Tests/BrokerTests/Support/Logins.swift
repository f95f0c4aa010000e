import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers

@testable import Broker

extension Rig {
  func start(
    provider: String = "example", account: String = "work", as caller: Caller = .root
  ) async throws -> LoginStart.Result {
    try await call(LoginStart.self, .init(provider: provider, account: account), as: caller)
  }

  /// The browser comes back; each of `changes` replaces a parameter, or removes it where it is nil.
  func callBack(
    _ login: LoginStart.Result, code: String = "work", _ changes: [String: String?] = [:]
  ) async -> CallbackOutcome {
    await broker.handleCallback(url: login.callback(code: code, changes))
  }

  /// A browser of this user opens the address of a login.
  func open(_ login: LoginStart.Result, from browser: BrowserUser = .user(0)) async -> LoginOpening {
    await broker.openLogin(token: login.linkToken ?? "", from: browser)
  }

  func waitFor(_ login: LoginStart.Result, timeout: Double = 0) async throws -> LoginWait.Result {
    try await call(LoginWait.self, .init(login_id: login.login_id, timeout: timeout))
  }
}

extension Broker {
  /// A callback by root's browser.
  func handleCallback(url: String) async -> CallbackOutcome { await handleCallback(url: url, from: .user(0)) }
}

extension LoginStart.Result {
  func url(_ kind: String) -> String? { destinations.first { $0.kind == kind }?.url }

  /// The secret of the short URL on the callback endpoint.
  var linkToken: String? {
    url("browser").flatMap { URL(string: $0) }.flatMap { $0.path.hasPrefix("/go/") ? $0.lastPathComponent : nil }
  }

  /// The parameters of the authorization request.
  var query: [String: String] {
    let items = (url("manual") ?? destinations.first?.url).flatMap { URLComponents(string: $0) }?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { first, _ in first })
  }

  func callback(code: String = "work", _ changes: [String: String?] = [:]) -> String {
    var parameters: [String: String] = ["code": code, "state": query["state"] ?? ""]
    for (name, value) in changes { parameters[name] = value }
    let text = parameters.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
    return "\(destinations.first?.redirect_uri ?? "")?\(text)"
  }
}

/// Returns the user: the name in the access token. Accepts a logout token without its signature.
struct NamingProvider: Provider {
  let base: OAuthProvider

  init(_ settings: ProviderSettings = .plain()) { base = OAuthProvider(settings) }

  var name: ProviderName { base.name }
  var description: ProviderDescription { base.description }
  var authorizationTraits: AuthorizationTraits { base.authorizationTraits }
  var tokenTraits: TokenTraits { base.tokenTraits }
  var refreshTraits: RefreshTraits { base.refreshTraits }
  var revocationTraits: RevocationTraits { base.revocationTraits }
  var logoutTraits: LogoutTraits { base.logoutTraits }
  var apiTraits: APITraits { base.apiTraits }
  func discovery() -> HTTPRequest? { base.discovery() }
  func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    try base.metadata(from: response)
  }
  func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest? {
    try base.keysRequest(metadata)
  }
  func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace> {
    base.authorization(request, metadata: metadata)
  }
  func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim { base.claim(callback, login: login) }
  func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>> {
    base.answer(to: callback, login: login, metadata: metadata)
  }
  func exchange(
    username: String, password: Secret, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Issued> {
    base.exchange(username: username, password: password, login: login, metadata: metadata)
  }
  func deviceAuthorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<DevicePlace> {
    base.deviceAuthorization(request, metadata: metadata)
  }
  func poll(_ device: DeviceLogin, login: SavedLogin, metadata: ServerMetadata) -> Step<DeviceAnswer> {
    base.poll(device, login: login, metadata: metadata)
  }
  func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued> {
    base.issue(source, to: grant, key: key, subject: subject, actor: actor, metadata: metadata)
  }
  func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse> {
    base.exchange(request, of: grant, metadata: metadata)
  }
  func introspection(of token: Secret, hint: String, metadata: ServerMetadata) -> Step<IntrospectionResponse> {
    base.introspection(of: token, hint: hint, metadata: metadata)
  }
  func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    base.userInfo(of: grant, token: token, metadata: metadata)
  }
  func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL? {
    base.endSession(of: grant, returnTo: returnTo, state: state, metadata: metadata)
  }
  func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken> { .done(token) }
  func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer> {
    base.exchange(code: code, login: login, metadata: metadata).map { answer in
      guard case .issued(let issued) = answer else { return answer }
      return .issued(named(issued))
    }
  }
  func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<RefreshAnswer> {
    base.refresh(grant, token: token, key: key, metadata: metadata)
  }
  func tokenToRevoke(for token: Secret, hint: String, metadata: ServerMetadata) -> Step<TokenResponse>? {
    base.tokenToRevoke(for: token, hint: hint, metadata: metadata)
  }
  func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest? {
    base.revocation(of: token, hint: hint, context: context, metadata: metadata)
  }
  func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome { base.revocationOutcome(response) }

  private func named(_ issued: Issued) -> Issued {
    var issued = issued
    issued.identity = Identity(subject: issued.tokens.accessToken.exposed.components(separatedBy: "-a")[0])
    return issued
  }
}

extension CallbackOutcome {
  enum Kind {
    case completed, alreadyCompleted, signedOut, actionRequired, denied, refused, failed, redirect
    case otherUser, unknownUser, expired, providerFault
  }

  var kind: Kind {
    switch self {
    case .completed: .completed
    case .alreadyCompleted: .alreadyCompleted
    case .signedOut: .signedOut
    case .actionRequired: .actionRequired
    case .refused, .foreign: .refused
    case .failed(let error): error.kind
    case .redirect: .redirect
    case .otherUser: .otherUser
    case .unknownUser: .unknownUser
    case .expired: .expired
    }
  }

  /// The completed login, and the user's best name.
  func isCompleted(_ account: String, as name: String? = nil) -> Bool {
    guard case .completed(_, let login) = self else { return false }
    return login == .init(account: account, provider: "example", identity: name.map { SignedIn(bestName: $0) })
  }
}

extension RPCError {
  /// The page that it has.
  fileprivate var kind: CallbackOutcome.Kind {
    switch reason {
    case .loginDenied, .loginCancelled: .denied
    case .providerError, .temporarilyUnavailable, .providerMisconfigured: .providerFault
    default: .failed
    }
  }
}

extension Rig {
  /// Whether every refresh comes to its end.
  func isQuiet() async -> Bool {
    await eventually { await broker.engine.leases.inFlight == 0 }
  }
}
