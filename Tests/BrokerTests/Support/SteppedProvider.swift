import Foundation
import Grants
import OAuth
import Providers

@testable import Broker

/// A provider whose callback names no login, and that may ask for more than a sign-in: what the token endpoint answers
/// with 419 is a session limit, with 422 a rejection.
struct SteppedProvider: Provider {
  let base: OAuthProvider
  var authorizationTraits: AuthorizationTraits
  var logoutTraits: LogoutTraits
  var apiTraits: APITraits
  /// The default values of calls.
  var defaults: [HTTPRequest.Header] = []

  init(settings: ProviderSettings = .plain(), _ change: (inout SteppedProvider) -> Void = { _ in }) {
    base = OAuthProvider(settings)
    authorizationTraits = base.authorizationTraits
    authorizationTraits.correlation = .singleLogin
    logoutTraits = base.logoutTraits
    logoutTraits.listsSessions = true
    apiTraits = base.apiTraits
    change(&self)
  }

  var description: ProviderDescription { base.description }
  var tokenTraits: TokenTraits { base.tokenTraits }
  var refreshTraits: RefreshTraits { base.refreshTraits }
  var revocationTraits: RevocationTraits { base.revocationTraits }

  var name: ProviderName { base.name }
  func discovery() -> HTTPRequest? { base.discovery() }
  func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    try base.metadata(from: response)
  }

  func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace> {
    let app = NativePlace(app: "app", url: URL(string: "app://sign-in")!)
    return base.authorization(request, metadata: metadata).map {
      AuthorizationPlace(url: $0.url, warnings: [], natives: [app], memory: ["device": Secret("device-1")])
    }
  }

  func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim {
    if callback.scheme == "bridge" { return .passOn(URL(string: "https://id.example/next")!) }
    return (try? RedirectURI(login.redirectURI)).map(callback.isAt) == true ? .unnamed : .foreign
  }

  func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>> {
    if let key = callback.value("key") {
      return .done(.success(.action(.registration(identifier: nil), memory: ["key": Secret(key)])))
    }
    guard let code = callback.value("code") else { return .done(.failure(.neitherCodeNorError)) }
    return .done(.success(.code(Secret(code), memory: ["code": Secret(code)])))
  }

  func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer> {
    ask(["code": code.exposed], login)
  }

  func resume(_ login: SavedLogin, with input: LoginInput, metadata: ServerMetadata) -> Step<LoginAnswer> {
    switch input {
    case .session(let id): ask(["code": login.memory["code"]?.exposed ?? "", "session_id": id], login)
    case .attributes, .again: ask(["code": login.memory["key"]?.exposed ?? ""], login)
    }
  }

  /// At the issuer, if there is one.
  private func address(_ path: String) -> URL {
    URL(string: (base.settings.server.issuer?.rawValue ?? "https://id.example") + path)!
  }

  private func ask(_ form: [String: String], _ login: SavedLogin) -> Step<LoginAnswer> {
    let body = form.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
    let request = HTTPRequest(
      purpose: .token, method: "POST", url: address("/token"), body: Data(body.utf8))
    return .send(request) { response, _ in
      switch response.status {
      case 419:
        let sessions = [ProviderSession(id: "s1"), ProviderSession(id: "s2")]
        return .done(.action(.sessionLimit(limit: 2, sessions: sessions), memory: login.memory))
      case 422: return .failed(.rejected(Rejection(code: "bad_request", message: "no", fields: ["f": ["wrong"]])))
      case 503: return .failed(.unclear(message: "out of order", retryAfter: nil))
      default: break
      }
      guard let tokens = try? TokenResponse.parse(response, quirks: TokenResponseQuirks()) else {
        return .failed(.invalid(message: "no token", nil))
      }
      return .done(.issued(Issued(tokens: tokens, idToken: nil, identity: Identity(subject: "alice"), warning: nil)))
    }
  }

  func sessions(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<[ProviderSession]> {
    let request = HTTPRequest(
      purpose: .resource, method: "GET", url: address("/sessions"),
      headers: [.init("Authorization", "Bearer \(token.accessToken.exposed)")])
    return .send(request) { response, _ in
      response.status == 401
        ? .failed(.tokenRefused(message: "HTTP 401", nil)) : .done([ProviderSession(id: "s1", isCurrent: true)])
    }
  }

  func endSession(
    _ id: String, of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<Bool> {
    sessions(of: grant, token: token, metadata: metadata).map { sessions in sessions.contains { $0.id == id } }
  }

  func introspection(of token: Secret, hint: String, metadata: ServerMetadata) -> Step<IntrospectionResponse> {
    base.introspection(of: token, hint: hint, metadata: metadata)
  }
  func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    base.userInfo(of: grant, token: token, metadata: metadata)
  }
  func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse> {
    base.exchange(request, of: grant, metadata: metadata)
  }
  func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest {
    let own = Set(request.headers.map(\.name))
    var request = base.authorized(request, by: token, of: grant)
    request.headers += defaults.filter { !own.contains($0.name) }
    return request
  }
  func verdict(on response: HTTPResponse) -> ResourceVerdict { base.verdict(on: response) }
  func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued> {
    base.issue(source, to: grant, key: key, subject: subject, actor: actor, metadata: metadata)
  }

  func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<RefreshAnswer> { base.refresh(grant, token: token, key: key, metadata: metadata) }

  func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest? {
    var request = base.revocation(of: token, hint: hint, context: context, metadata: metadata)
    if let device = context["device"] { request?.headers.append(.init("X-Device", device)) }
    return request
  }
  func revocationContext(of grant: SavedGrant, reach: String?) -> [String: String] {
    ["device": "device-1"].merging(reach.map { ["where": $0] } ?? [:]) { $1 }
  }
  func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome { base.revocationOutcome(response) }
}
