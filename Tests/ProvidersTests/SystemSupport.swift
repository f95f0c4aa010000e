import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

let redirectText = "cameras://sign-in"
let deviceID = "00010203-0405-4607-8809-0a0b0c0d0e0f"

func site(_ base: String = "https://vms.example.com", redirect: String = redirectText) -> SiteSettings {
  SiteSettings(
    name: providerName, displayName: "Example", baseURL: URL(string: base)!,
    redirect: .fixed(RedirectURI(rawValue: redirect)!))
}

func vms(_ change: (inout VMSSettings) -> Void = { _ in }) -> VMSProvider {
  var settings = VMSSettings(site: site(), clientName: "grantd", clientVersion: "2.0")
  change(&settings)
  return VMSProvider(settings)
}

func zephr(_ change: (inout ZephrSettings) -> Void = { _ in }) -> ZephrProvider {
  var settings = ZephrSettings(site: site("https://news.example.com", redirect: "news://auth"))
  change(&settings)
  return ZephrProvider(settings)
}

let noMetadata = ServerMetadata(issuer: "")

/// The options of a login.
func loginRequest(_ redirect: String = redirectText, idp: String? = nil, before: SavedGrant? = nil) -> LoginRequest {
  var request = LoginRequest(
    scopes: [], resource: nil, redirectURI: RedirectURI(rawValue: redirect), state: Secret("the state"), nonce: nil,
    verifier: nil, prompt: nil, loginHint: nil, parameters: [:], madeAt: start,
    // 00 01 … 0f
    identifier: "AAECAwQFBgcICQoLDA0ODw")
  request.identityProvider = idp
  request.before = before
  return request
}

func systemLogin(_ memory: [String: String] = ["device_uuid": deviceID], redirect: String = redirectText) -> SavedLogin
{
  var login = login(nonce: nil, scopes: [])
  login.redirectURI = redirect
  login.memory = memory.mapValues(Secret.init)
  return login
}

func systemGrant(_ extra: String, subject: String? = "7") -> SavedGrant {
  var grant = savedGrant(refreshToken: nil, scopes: [], identity: subject.map { Identity(subject: $0) })
  grant.extra = Data(extra.utf8)
  return grant
}

/// A conversation whose other side says these things in order.
struct Conversation {
  private var answers: [Result<HTTPResponse, ProviderFailure>]
  private(set) var sent: [HTTPRequest] = []
  var now = at(1)

  init(_ answers: HTTPResponse...) { self.answers = answers.map { .success($0) } }
  init(_ answers: [Result<HTTPResponse, ProviderFailure>]) { self.answers = answers }

  mutating func run<Value: Sendable>(_ first: Step<Value>) -> Result<Value, ProviderFailure> {
    var step = first
    for _ in 0..<20 {
      switch step {
      case .done(let value): return .success(value)
      case .failed(let failure): return .failure(failure)
      case .send(let request, let then):
        switch next(request) {
        case .success(let response): step = then(response, now)
        case .failure(let failure): return .failure(failure)
        }
      case .attempt(let request, let then): step = then(next(request), now)
      case .keys:
        Issue.record("nobody signs anything here")
        return .failure(.lost(message: ""))
      }
    }
    Issue.record("the conversation does not end")
    return .failure(.lost(message: ""))
  }

  private mutating func next(_ request: HTTPRequest) -> Result<HTTPResponse, ProviderFailure> {
    sent.append(request)
    guard !answers.isEmpty else {
      Issue.record("one request too many: \(request)")
      return .failure(.lost(message: ""))
    }
    return answers.removeFirst()
  }

  /// Each request as `GET /path {body}`.
  var lines: [String] {
    sent.map { request in
      let query = request.url.query(percentEncoded: true).map { "?\($0)" } ?? ""
      let body = request.body.map { " \(String(decoding: $0, as: UTF8.self))" } ?? ""
      return "\(request.method) \(request.url.path(percentEncoded: true))\(query)\(body)"
    }
  }
}

extension HTTPRequest {
  func header(_ name: String) -> String? {
    headers.first { $0.name.lowercased() == name.lowercased() }?.value
  }
}

extension Result where Failure == ProviderFailure {
  var failure: ProviderFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

extension Result where Success == LoginAnswer, Failure == ProviderFailure {
  var issued: Issued? { if case .success(.issued(let issued)) = self { issued } else { nil } }

  var action: (action: LoginAction, memory: [String: String])? {
    guard case .success(.action(let action, let memory)) = self else { return nil }
    return (action, memory.mapValues(\.exposed))
  }

  /// The sessions that the user may choose from.
  var sessions: [ProviderSession]? {
    if case .sessionLimit(_, let sessions)? = action?.action { sessions } else { nil }
  }
}

extension Result where Success == Result<LoginAnswer, CallbackError>, Failure == ProviderFailure {
  var answer: Result<LoginAnswer, ProviderFailure>? {
    guard case .success(.success(let answer)) = self else { return nil }
    return .success(answer)
  }

  var error: CallbackError? { if case .success(.failure(let error)) = self { error } else { nil } }
}
