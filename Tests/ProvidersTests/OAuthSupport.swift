import Crypto
import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

let issuerText = "https://login.example.com"

/// The settings of an OpenID provider that says where everything is.
func settings(_ kind: ProviderSettings.Kind = .oidc, _ change: (inout ProviderSettings) -> Void = { _ in })
  -> ProviderSettings
{
  var settings = ProviderSettings(name: providerName, kind: kind, displayName: "Example", clientID: "client")
  settings.server.issuer = try! Issuer(issuerText, allowInsecureHTTP: false)
  settings.server.discovery = .openID
  settings.access.scopes = kind == .oidc ? ["openid", "mail"] : ["mail"]
  settings.token.idToken.algorithms = ["ES256"]
  change(&settings)
  return settings
}

func provider(_ kind: ProviderSettings.Kind = .oidc, _ change: (inout ProviderSettings) -> Void = { _ in })
  -> OAuthProvider
{
  OAuthProvider(settings(kind, change))
}

let metadata = ServerMetadata(
  issuer: issuerText,
  endpoints: [
    .authorization: URL(string: issuerText + "/authorize"), .token: URL(string: issuerText + "/token"),
    .keys: URL(string: issuerText + "/keys"),
  ].compactMapValues(\.self))

func login(nonce: String? = "the nonce", scopes: [String] = ["openid", "mail"], maxAge: Int64? = nil) -> SavedLogin {
  SavedLogin(
    id: LoginID(rawValue: "login-1")!, provider: providerName, account: account, state: Secret("the state"),
    nonce: nonce.map(Secret.init), verifier: CodeVerifier(rawValue: Secret(String(repeating: "v", count: 43)))?.secret,
    redirectURI: "http://127.0.0.1:4711/callback", scopes: scopes, resource: nil, maxAge: maxAge, uid: 1000,
    startedAt: start, expiresAt: at(600))
}

/// A signing key of the provider.
struct SigningKey: Sendable {
  let kid: String
  private let key = P256.Signing.PrivateKey()

  init(_ kid: String) { self.kid = kid }

  var jwk: String {
    let raw = key.publicKey.rawRepresentation
    return
      #"{"kty":"EC","crv":"P-256","kid":"\#(kid)","x":"\#(encode(raw.prefix(32)))","y":"\#(encode(raw.suffix(32)))"}"#
  }

  /// An ID token with these claims; raw JSON values, nil removes one.
  func idToken(_ claims: [String: String?] = [:], issued seconds: Int64 = start.seconds) -> String {
    var all: [String: String?] = [
      "iss": "\"\(issuerText)\"", "sub": "\"alice\"", "aud": "\"client\"", "exp": "\(seconds + 300)",
      "iat": "\(seconds)", "nonce": "\"the nonce\"",
    ]
    all.merge(claims) { $1 }
    let body = "{" + all.compactMap { name, value in value.map { "\"\(name)\":\($0)" } }.joined(separator: ",") + "}"
    let text = encode(Data(#"{"alg":"ES256","kid":"\#(kid)"}"#.utf8)) + "." + encode(Data(body.utf8))
    return text + "." + encode(try! key.signature(for: SHA256.hash(data: Data(text.utf8))).rawRepresentation)
  }

  private func encode(_ data: Data) -> String {
    data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
}

let key = SigningKey("k1")
let newKey = SigningKey("k2")

func keySet(_ keys: SigningKey...) -> JWKSet {
  JWKSet(Data((#"{"keys":["# + keys.map(\.jwk).joined(separator: ",") + "]}").utf8))!
}

func tokenBody(idToken: String? = nil, refresh: String? = "refresh-2", access: String = "access-2") -> String {
  #"{"access_token":"\#(access)","token_type":"bearer","expires_in":3600"#
    + (refresh.map { #","refresh_token":"\#($0)""# } ?? "") + (idToken.map { #","id_token":"\#($0)""# } ?? "") + "}"
}

/// A provider's side of one conversation.
struct Script {
  var response = answer("{}")
  /// The answers to the questions for keys, in order; the last one repeats.
  var keys: [Result<JWKSet, ProviderFailure>] = [.success(keySet(key))]
  var now = at(1)

  private(set) var sent: [HTTPRequest] = []
  /// What was asked for: nil the known set, else a key that it lacks.
  private(set) var asked: [String?] = []

  init(
    _ response: HTTPResponse, keys: [Result<JWKSet, ProviderFailure>] = [.success(keySet(key))], now: Timestamp = at(1)
  ) {
    self.response = response
    self.keys = keys
    self.now = now
  }

  mutating func run<Value: Sendable>(_ first: Step<Value>) -> Result<Value, ProviderFailure> {
    var step = first
    for _ in 0..<10 {
      switch step {
      case .done(let value): return .success(value)
      case .failed(let failure): return .failure(failure)
      case .send(let request, let then):
        sent.append(request)
        step = then(response, now)
      case .attempt(let request, let then):
        sent.append(request)
        step = then(.success(response), now)
      case .keys(let unknown, let then):
        let reply = keys[min(asked.count, keys.count - 1)]
        asked.append(unknown)
        step = then(reply, now)
      }
    }
    Issue.record("the conversation does not end")
    return .failure(.lost(message: ""))
  }

  /// What a code is traded for, where that is tokens.
  mutating func tokens(_ first: Step<LoginAnswer>) -> Result<Issued, ProviderFailure> {
    run(first).flatMap { answer in
      if case .issued(let issued) = answer { return .success(issued) }
      Issue.record("no tokens: \(answer)")
      return .failure(.lost(message: ""))
    }
  }
}

/// The name of a failure's case, for tables.
func name(_ failure: ProviderFailure) -> String {
  switch failure {
  case .ended(let reason, _, _): "ended \(reason.rawValue)"
  case .misconfigured: "misconfigured"
  case .rateLimited: "rate limited"
  case .tryLater: "try later"
  case .requestRefused: "request refused"
  case .unclear: "unclear"
  case .lost: "lost"
  case .notSent: "not sent"
  case .blocked: "blocked"
  case .invalid: "invalid"
  case .rejected: "rejected"
  case .tokenRefused: "token refused"
  case .denied: "denied"
  case .unsupported: "unsupported"
  }
}

func name(_ result: Result<Issued, ProviderFailure>) -> String {
  switch result {
  case .success(let issued): issued.warning == nil ? "taken" : "taken with a warning"
  case .failure(let failure): name(failure)
  }
}

func name(_ result: Result<RefreshAnswer, ProviderFailure>) -> String {
  if case .success(.rotated(_, let failure)) = result { return "\(name(failure)), rotated" }
  return name(result.flatMap(\.issued))
}

func thrown<Value>(_ body: () throws(ProviderFailure) -> Value) -> String {
  do throws(ProviderFailure) {
    _ = try body()
    return "none"
  } catch {
    return name(error)
  }
}
