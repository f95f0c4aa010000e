import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// A provider as its template and a few keys make it, and one login there.
struct SignInRig {
  static let start = Timestamp(seconds: 1_800_000_000)
  static let state = "the-state"
  static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
  /// S256 of it (RFC 7636 appendix B).
  static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

  let provider: OAuthProvider
  let metadata: ServerMetadata

  init(_ keys: String) throws {
    let settings = try Fixture().load("[provider.x]\n\(keys)")
    provider = OAuthProvider(try #require(settings.providers.first))
    metadata = try provider.metadata(from: nil)
  }

  func request(_ change: (inout LoginRequest) -> Void = { _ in }) throws -> LoginRequest {
    let redirect: RedirectURI =
      switch provider.authorizationTraits.redirect {
      case .fixed(let uri): uri
      case .loopback(_, let path): try RedirectURI("http://127.0.0.1:4711\(path)")
      }
    var request = LoginRequest(
      scopes: provider.tokenTraits.scopes, resource: nil, redirectURI: redirect, state: Secret(Self.state),
      nonce: provider.tokenTraits.usesIDTokens ? Secret("the-nonce") : nil,
      verifier: provider.authorizationTraits.usesPKCE ? CodeVerifier(rawValue: Secret(Self.verifier)) : nil,
      prompt: nil,
      loginHint: nil, parameters: [:], madeAt: Self.start, identifier: "jti")
    change(&request)
    return request
  }

  /// The URL for the user.
  func place(
    _ answers: [Result<HTTPResponse, ProviderFailure>] = [], _ change: (inout LoginRequest) -> Void = { _ in }
  ) throws -> (place: AuthorizationPlace, sent: [HTTPRequest]) {
    let (end, sent) = talk(provider.authorization(try request(change), metadata: metadata), answers)
    return (try end.get(), sent)
  }

  /// The login as it waits, opened where the client says.
  func login(
    opened: OpenedDestination? = nil, _ change: (inout LoginRequest) -> Void = { _ in }
  ) throws -> SavedLogin {
    let request = try request(change)
    var login = SavedLogin(
      id: try #require(LoginID(rawValue: "login-1")), provider: provider.name,
      account: try #require(AccountName(rawValue: "x")), state: request.state, nonce: request.nonce,
      verifier: request.verifier?.secret, redirectURI: request.redirectURI?.rawValue ?? "", scopes: request.scopes,
      resource: nil, maxAge: nil, uid: 1000, startedAt: Self.start, expiresAt: Self.start + .seconds(600))
    login.memory = try talk(provider.authorization(request, metadata: metadata)).end.get().memory
    login.opened = opened
    return login
  }

  /// What an address means for the login, and what it brings.
  func claim(_ address: String, _ login: SavedLogin) -> CallbackClaim {
    provider.claim(ReturnedAddress(address), login: login)
  }

  func answer(_ address: String, _ login: SavedLogin) throws -> Result<LoginAnswer, CallbackError> {
    try talk(provider.answer(to: ReturnedAddress(address), login: login, metadata: metadata)).end.get()
  }

  /// The exchange of a code that the address brought.
  func exchange(
    _ address: String, _ login: SavedLogin, _ body: String, status: Int = 200
  ) throws -> (end: Result<Issued, ProviderFailure>, sent: [HTTPRequest]) {
    guard case .code(let code, let memory) = try answer(address, login).get() else { throw NoCode() }
    var login = login
    login.memory.merge(memory) { $1 }
    let (end, sent) = talk(
      provider.exchange(code: code, login: login, metadata: metadata), [.success(json(body, status: status))])
    return (
      end.map { answer in
        guard case .issued(let issued) = answer else { fatalError("the exchange asks for more") }
        return issued
      }, sent
    )
  }

  func grant(_ issued: Issued, _ login: SavedLogin) -> SavedGrant {
    SavedGrant(
      account: login.account, provider: login.provider, identity: issued.identity, requestedScopes: login.scopes,
      grantedScopes: issued.tokens.scope ?? login.scopes, refreshToken: issued.tokens.refreshToken, generation: 1,
      createdAt: Self.start, loggedInAt: Self.start, extra: issued.tokens.extra)
  }

  func refresh(_ grant: SavedGrant, _ body: String) throws -> Issued {
    try talk(
      provider.refresh(grant, token: Secret("r"), key: SavedToken.Key(), metadata: metadata), [.success(json(body))]
    ).end.flatMap(\.issued).get()
  }
}

struct NoCode: Error {}

/// A conversation to its end, with these answers in order.
func talk<Output: Sendable>(
  _ first: Step<Output>, _ answers: [Result<HTTPResponse, ProviderFailure>] = []
) -> (end: Result<Output, ProviderFailure>, sent: [HTTPRequest]) {
  var sent: [HTTPRequest] = []
  var step = first
  while true {
    switch step {
    case .done(let output): return (.success(output), sent)
    case .failed(let failure): return (.failure(failure), sent)
    case .keys(_, let then): step = then(.failure(.lost(message: "there are no keys")), SignInRig.start)
    case .send(let request, let then):
      guard sent.count < answers.count else { return (.failure(.lost(message: "no answer")), sent + [request]) }
      sent.append(request)
      switch answers[sent.count - 1] {
      case .success(let response): step = then(response, SignInRig.start)
      case .failure(let failure): return (.failure(failure), sent)
      }
    case .attempt(let request, let then):
      sent.append(request)
      let answer = sent.count <= answers.count ? answers[sent.count - 1] : .failure(.lost(message: "no answer"))
      step = then(answer, SignInRig.start)
    }
  }
}

func json(_ body: String, status: Int = 200) -> HTTPResponse {
  HTTPResponse(status: status, headers: [.init("Content-Type", "application/json")], body: Data(body.utf8))
}

extension URL {
  /// The parameters of its query; a repeated one is marked.
  var parameters: [String: String] {
    let found = ReturnedAddress(absoluteString).query
    return Dictionary(found.map { ($0.name, $0.value) }) { "\($0) AND \($1)" }
  }
}

extension HTTPRequest {
  var form: [String: String] {
    let found = ReturnedAddress("x:/?" + String(decoding: body ?? Data(), as: UTF8.self)).query
    return Dictionary(found.map { ($0.name, $0.value) }) { "\($0) AND \($1)" }
  }
}

/// The result of a URL, in short.
func word(_ result: Result<LoginAnswer, CallbackError>) -> String {
  switch result {
  // Exposed to be compared: these are the test's own.
  case .success(.code(let code, _)): "code \(code.exposed)"
  case .success(.issued(let issued)): "token \(issued.tokens.accessToken.exposed)"
  case .success(.action): "action"
  case .failure(.denied(let error)): "denied \(error.code)"
  case .failure(.cancelled): "cancelled"
  case .failure(.missingState): "missingState"
  case .failure(.wrongState): "wrongState"
  case .failure(.unexpectedToken): "unexpectedToken"
  case .failure(.neitherCodeNorError): "neitherCodeNorError"
  case .failure(.noToken(let why)): "noToken(\"\(why)\")"
  case .failure(let error): error.description
  }
}
