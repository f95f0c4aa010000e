import DemoProvider
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization
import TestHTTP

/// The answer to a request.
struct Answer: Sendable {
  var status: Int
  var headers: HTTPHeaders
  /// Nil if the connection ended before the promised length.
  var body: String?

  var json: DemoServer.JSON? { body.flatMap { DemoServer.JSON(text: $0) } }
  func header(_ name: String) -> String? { headers.first(name: name) }

  /// The query of the Location header.
  var callback: [String: String] {
    let items = header("location").flatMap { URLComponents(string: $0) }?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { "\($0),\($1)" })
  }
}

/// A public client of one server, with nothing of the OAuth room in it.
struct TestClient: Sendable {
  let server: DemoServer
  var id = "demo"
  var redirectURI = "http://127.0.0.1:8999/callback"

  static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
  static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

  /// Nil where the connection ended without a head.
  func send(
    _ method: HTTPMethod, _ path: String, form: [String: String]? = nil, json: DemoServer.JSON? = nil,
    headers: [String: String] = [:]
  ) async -> Answer? {
    let url = path.hasPrefix("http") ? path : server.issuer + path
    var request = form.map { TestRequest.form(url, Self.encode($0)) } ?? TestRequest(method, url)
    request.method = method
    if let json {
      request.headers.add(name: "Content-Type", value: "application/json")
      request.body = json.text
    }
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    guard let answer = try? await request.send() else { return nil }
    return Answer(status: answer.status, headers: answer.headers, body: answer.body)
  }

  static func encode(_ parameters: [String: String]) -> String {
    parameters.map { "\($0.key)=\(escape($0.value))" }.joined(separator: "&")
  }

  private static func escape(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(CharacterSet(charactersIn: "-._~"))) ?? ""
  }

  /// The parameters of an authorization request; `changes` over them, nil removes.
  func authorizationRequest(_ changes: [String: String?] = [:]) -> [String: String] {
    var parameters = [
      "response_type": "code", "client_id": id, "redirect_uri": redirectURI, "state": "state-1", "nonce": "nonce-1",
      "scope": "openid profile email offline_access api.read", "code_challenge": Self.challenge,
      "code_challenge_method": "S256",
    ]
    for (name, value) in changes { parameters[name] = value }
    return parameters
  }

  func authorize(_ changes: [String: String?] = [:]) async -> Answer? {
    await send(.GET, "/authorize?" + Self.encode(authorizationRequest(changes)))
  }

  func code(user: String = "alice", _ changes: [String: String?] = [:]) async -> String {
    await authorize(changes.merging(["login_hint": user]) { $1 })?.callback["code"] ?? ""
  }

  func exchange(_ code: String, _ changes: [String: String?] = [:]) async -> Answer? {
    var form = [
      "grant_type": "authorization_code", "client_id": id, "code": code, "redirect_uri": redirectURI,
      "code_verifier": Self.verifier,
    ]
    for (name, value) in changes { form[name] = value }
    return await send(.POST, "/token", form: form)
  }

  func signIn(user: String = "alice") async -> Tokens {
    Tokens(await exchange(await code(user: user)))
  }

  func refresh(_ token: String, _ changes: [String: String?] = [:]) async -> Answer? {
    var form = ["grant_type": "refresh_token", "client_id": id, "refresh_token": token]
    for (name, value) in changes { form[name] = value }
    return await send(.POST, "/token", form: form)
  }

  func userinfo(_ token: String) async -> Answer? {
    await send(.GET, "/userinfo", headers: ["Authorization": "Bearer \(token)"])
  }

  /// Whether some published key verifies a token.
  func verifies(_ token: String) async -> Bool {
    guard case .array(let keys)? = await send(.GET, "/jwks")?.json?["keys"] else { return false }
    return TestKey.verifies(token, by: keys)
  }

  /// A token request with this grant type.
  func token(
    _ grant: String, _ fields: [String: String?] = [:], headers: [String: String] = [:]
  ) async -> Answer? {
    var form = ["grant_type": grant, "client_id": id]
    for (name, value) in fields { form[name] = value }
    return await send(.POST, "/token", form: form, headers: headers)
  }
}

/// A token response's members, empty where they are missing.
struct Tokens: Sendable {
  var access = ""
  var refresh = ""
  var id = ""

  init(_ answer: Answer?) {
    access = answer?.json?["access_token"]?.string ?? ""
    refresh = answer?.json?["refresh_token"]?.string ?? ""
    id = answer?.json?["id_token"]?.string ?? ""
  }
}

enum JWT {
  static func bytes(_ text: some StringProtocol) -> Data? {
    let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.count % 4) % 4))
  }

  static func part(_ index: Int, of token: String) -> DemoServer.JSON? {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let data = bytes(parts[index]) else { return nil }
    return DemoServer.JSON(text: String(decoding: data, as: UTF8.self))
  }
}

/// The default clock of servers and clients: it never advances, so that a token lives as long as its test, even on a busy
/// machine.
enum TestClock {
  static let now = Date()
}

/// A clock that moves only on request.
final class StepClock: Sendable {
  private let time = Mutex(Date(timeIntervalSince1970: 1_800_000_000))

  var now: Date { time.withLock { $0 } }

  func advance(_ seconds: Double) {
    time.withLock { $0 += seconds }
  }
}

/// A server for the time of `body`, and a client of it.
func withServer(
  _ change: (inout DemoServer.Options) -> Void = { _ in }, _ body: (DemoServer, TestClient) async throws -> Void
) async throws {
  var options = DemoServer.Options()
  options.now = { TestClock.now }
  change(&options)
  let server = try await DemoServer.start(options)
  do {
    try await body(server, TestClient(server: server))
  } catch {
    await server.stop()
    throw error
  }
  await server.stop()
}
