import BrokerAPI
import Foundation
import Grants
import OAuth
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

  func waitFor(_ login: LoginStart.Result, timeout: Double = 0) async throws -> LoginWait.Result {
    try await call(LoginWait.self, .init(login_id: login.login_id, timeout: timeout))
  }
}

extension LoginStart.Result {
  /// The parameters of the authorization request.
  var query: [String: String] {
    let items = destinations.first?.url.flatMap { URLComponents(string: $0) }?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { first, _ in first })
  }

  func callback(code: String = "work", _ changes: [String: String?] = [:]) -> String {
    var parameters: [String: String] = ["code": code, "state": query["state"] ?? ""]
    for (name, value) in changes { parameters[name] = value }
    let text = parameters.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
    return "\(destinations.first?.redirect_uri ?? "")?\(text)"
  }
}

/// Says who signed in: whoever the access token is named after.
struct NamingProvider: Provider {
  let base: OAuthProvider

  init(_ settings: ProviderSettings = .plain()) { base = OAuthProvider(settings) }

  var name: ProviderName { base.name }
  var about: ProviderAbout { base.about }
  func discovery() -> HTTPRequest? { base.discovery() }
  func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    try base.metadata(from: response)
  }
  func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest? {
    try base.keysRequest(metadata)
  }
  func authorization(_ request: LoginRequest, metadata: ServerMetadata) throws(ProviderFailure) -> AuthorizationPlace {
    try base.authorization(request, metadata: metadata)
  }
  func code(from callback: String, login: SavedLogin, metadata: ServerMetadata) throws(CallbackError) -> Secret {
    try base.code(from: callback, login: login, metadata: metadata)
  }
  func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<Issued> {
    named(base.exchange(code: code, login: login, metadata: metadata))
  }
  func refresh(_ grant: SavedGrant, token: Secret, metadata: ServerMetadata) -> Step<Issued> {
    base.refresh(grant, token: token, metadata: metadata)
  }
  func revocation(of token: Secret, hint: String, metadata: ServerMetadata) -> HTTPRequest? {
    base.revocation(of: token, hint: hint, metadata: metadata)
  }
  func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome { base.revocationOutcome(response) }

  private func named(_ step: Step<Issued>) -> Step<Issued> {
    switch step {
    case .done(var issued):
      let token = issued.tokens.accessToken.exposed
      issued.identity = Identity(subject: token.components(separatedBy: "-a")[0])
      return .done(issued)
    case .failed: return step
    case .send(let request, let then): return .send(request) { response, now in self.named(then(response, now)) }
    case .keys(let unknown, let then): return .keys(unknown: unknown) { keys, now in self.named(then(keys, now)) }
    }
  }
}

extension CallbackOutcome {
  enum Kind { case completed, alreadyCompleted, denied, refused, failed, redirect }

  var kind: Kind {
    switch self {
    case .completed: .completed
    case .alreadyCompleted: .alreadyCompleted
    case .denied: .denied
    case .refused: .refused
    case .failed: .failed
    case .redirect: .redirect
    }
  }
}

extension Rig {
  /// Whether every refresh comes to its end.
  func isQuiet() async -> Bool {
    await eventually { await broker.refreshesInFlight == 0 }
  }
}
