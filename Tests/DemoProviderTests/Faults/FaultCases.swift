import DemoProvider
import Foundation
import NIOHTTP1
import Testing

/// The answer of one request, and its effect on the server.
struct Sight: Sendable {
  var answer: Answer?
  var elapsed: Duration
  /// Whether the refresh or the exchange took effect at the server.
  var committed: Bool
  var verified: Bool

  var json: DemoServer.JSON? { answer?.json }
  var claims: DemoServer.JSON? { JWT.part(1, of: Tokens(answer).id) }
  var header: DemoServer.JSON? { JWT.part(0, of: Tokens(answer).id) }

  static func take(at place: DemoServer.Fault.Place, _ server: DemoServer, _ client: TestClient) async -> Sight {
    let code = place == .tokenCode ? await client.code() : ""
    let refresh = place == .tokenRefresh ? await client.signIn().refresh : ""
    let before = server.stats()
    let start = ContinuousClock.now
    let answer = await request(to: place, code: code, refresh: refresh, client)
    let elapsed = ContinuousClock.now - start
    let after = server.stats()
    return Sight(
      answer: answer, elapsed: elapsed,
      committed: after.refreshes > before.refreshes || after.grants.count > before.grants.count,
      verified: await client.verifies(Tokens(answer).id))
  }

  private static func request(
    to place: DemoServer.Fault.Place, code: String, refresh: String, _ client: TestClient
  ) async -> Answer? {
    switch place {
    case .tokenCode: await client.exchange(code)
    case .tokenRefresh: await client.refresh(refresh)
    case .tokenExchange:
      await client.token(
        "urn:ietf:params:oauth:grant-type:token-exchange",
        [
          "subject_token": await client.signIn().access,
          "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        ])
    case .discovery: await client.send(.GET, "/.well-known/openid-configuration")
    case .authorize: await client.authorize(["response_mode": "query"])
    case .par: await client.send(.POST, "/par", form: client.authorizationRequest())
    case .device: await client.send(.POST, "/device_authorization", form: ["client_id": client.id])
    case .jwks: await client.send(.GET, "/jwks")
    case .userinfo: await client.userinfo(await client.signIn().access)
    case .resource: await client.send(.GET, "/resource")
    case .revoke: await client.send(.POST, "/revoke", form: ["client_id": client.id, "token": "none"])
    case .introspect: await client.send(.POST, "/introspect", form: ["client_id": client.id, "token": "none"])
    case .endSession:
      await client.send(
        .GET, "/end_session?client_id=\(client.id)&post_logout_redirect_uri=http://127.0.0.1:1/bye&state=state-1")
    // No case of the table is for these.
    case .any, .token, .tokenDevice, .tokenClient, .tokenAssertion, .tokenPassword, .devicePage, .register, .external,
      .vms, .vmsBasic, .vmsURL, .vmsPage, .vmsLogin, .vmsLogout, .vmsSessions, .vmsSession, .vmsUser, .zephr,
      .zephrStart, .zephrPage, .zephrRegister, .zephrProfile, .zephrLogout:
      nil
    }
  }
}

/// One line of the table: a fault, where, and how it shows.
struct FaultCase: Sendable, CustomTestStringConvertible {
  typealias Parameters = DemoServer.Fault.Parameters

  var kind: DemoServer.Fault.Kind
  var place: DemoServer.Fault.Place
  var parameters: Parameters
  var shows: @Sendable (Sight) -> Bool
  /// Whether it shows in nothing but the time taken, which a busy machine takes without the fault too.
  var isSlowness: Bool { [.delay, .slowBody].contains(kind) }

  init(
    _ kind: DemoServer.Fault.Kind, _ place: DemoServer.Fault.Place, _ parameters: Parameters = .init(),
    shows: @escaping @Sendable (Sight) -> Bool
  ) {
    self.kind = kind
    self.place = place
    self.parameters = parameters
    self.shows = shows
  }

  var testDescription: String { "\(kind.rawValue) at \(place.rawValue)" }

  static let all: [FaultCase] = times + answers + deliveries + tokens + members + more

  private static let times: [FaultCase] = [
    .init(.delay, .tokenRefresh, .with { $0.seconds = 0.4 }) { $0.elapsed >= .seconds(0.4) && $0.committed },
    .init(.clockOffset, .tokenCode, .with { $0.seconds = -7200 }) {
      $0.claims?["iat"]?.number.map { $0 < TestClock.now.timeIntervalSince1970 - 7000 } ?? false
    },
    .init(.clockOffset, .discovery, .with { $0.seconds = 200_000_000 }) { sight in
      let year = sight.answer?.header("date").flatMap { $0.split(separator: " ").dropFirst(3).first }
      return year.flatMap { Int($0) }
        == Calendar(identifier: .gregorian).component(.year, from: TestClock.now + 200_000_000)
    },
  ]

  private static let answers: [FaultCase] = [
    .init(
      .status, .tokenRefresh,
      .with {
        $0.status = 429
        $0.retryAfter = "7"
        $0.body = "<slow>"
        $0.contentType = "text/html"
      }
    ) {
      $0.answer?.status == 429 && $0.answer?.header("retry-after") == "7" && $0.answer?.body == "<slow>"
        && $0.answer?.header("content-type") == "text/html" && !$0.committed
    },
    .init(.status, .tokenRefresh) { $0.answer?.status == 503 && $0.answer?.body == "" && !$0.committed },
    .init(.status, .tokenRefresh, .with { $0.moment = .after }) { $0.answer?.status == 503 && $0.committed },
    .init(.oauthError, .tokenRefresh) { $0.answer?.status == 400 && $0.json?["error"] == "invalid_grant" },
    .init(.oauthError, .authorize, .with { $0.error = "server_error" }) {
      $0.answer?.callback["error"] == "server_error" && $0.answer?.callback["state"] == "state-1"
    },
    .init(.html200, .discovery) {
      $0.answer?.status == 200 && $0.answer?.header("content-type")?.hasPrefix("text/html") == true
    },
    .init(.error200, .tokenRefresh) { $0.answer?.status == 200 && $0.json?["error"] == "invalid_grant" },
    .init(.empty400, .tokenCode) {
      $0.answer?.status == 400 && $0.answer?.body == "" && $0.answer?.header("content-type") == nil && !$0.committed
    },
    .init(.redirect, .tokenRefresh, .with { $0.location = "http://elsewhere.example/" }) {
      $0.answer?.status == 302 && $0.answer?.header("location") == "http://elsewhere.example/"
    },
  ]

  private static let deliveries: [FaultCase] = [
    .init(.dropBeforeCommit, .tokenRefresh) { $0.answer == nil && !$0.committed },
    .init(.dropAfterCommit, .tokenRefresh) { $0.answer == nil && $0.committed },
    .init(.truncated, .tokenRefresh) { $0.answer?.status == 200 && $0.answer?.body == nil && $0.committed },
    .init(.hugeBody, .tokenCode, .with { $0.bytes = 3_000_000 }) {
      ($0.answer?.body?.utf8.count ?? 0) > 3_000_000 && !Tokens($0.answer).access.isEmpty
    },
    .init(.slowBody, .discovery, .with { $0.bytesPerSecond = 3000 }) {
      $0.elapsed > .seconds(0.3) && $0.json?["issuer"] != nil
    },
  ]

  private static let tokens: [FaultCase] = [
    .init(.wrongIssuer, .discovery) { $0.json?["issuer"] == "http://wrong-issuer.example" },
    .init(.wrongIssuer, .tokenCode, .with { $0.value = "http://x.example" }) {
      $0.claims?["iss"] == "http://x.example"
    },
    .init(.missingIss, .authorize) { $0.answer?.callback["code"] != nil && $0.answer?.callback["iss"] == nil },
    .init(.wrongIss, .authorize) { $0.answer?.callback["iss"] == "http://wrong-issuer.example" },
    .init(.unknownKid, .tokenCode) { $0.header?["kid"] == "key-unknown" && !$0.verified },
    .init(.algNone, .tokenCode) { $0.header?["alg"] == "none" && Tokens($0.answer).id.hasSuffix(".") },
    .init(.badSignature, .tokenRefresh) { $0.header?["alg"] == "RS256" && !$0.verified },
    .init(.wrongNonce, .tokenCode) { $0.claims?["nonce"] == "wrong-nonce" && $0.verified },
    .init(.wrongAudience, .tokenCode) { $0.claims?["aud"] == "another-client" && $0.verified },
  ]

  private static let members: [FaultCase] = [
    .init(.expiresInString, .tokenRefresh) { $0.json?["expires_in"] == "5" },
    .init(.expiresInAbsent, .tokenRefresh) { $0.committed && $0.json != nil && $0.json?["expires_in"] == nil },
    .init(.expiresInHuge, .tokenCode) { ($0.json?["expires_in"]?.int ?? 0) > 1 << 40 },
    .init(.expiresInNegative, .tokenRefresh) { $0.json?["expires_in"] == -1 },
    .init(.expiresInZero, .tokenRefresh) { $0.json?["expires_in"] == 0 },
    .init(.noRefreshToken, .tokenRefresh) { $0.committed && $0.json != nil && $0.json?["refresh_token"] == nil },
    .init(.emptyRefreshToken, .tokenRefresh) { $0.json?["refresh_token"] == "" },
    .init(.tokenType, .tokenCode, .with { $0.value = "DPoP" }) { $0.json?["token_type"] == "DPoP" },
    .init(.formEncoded, .tokenRefresh) {
      $0.answer?.header("content-type") == "application/x-www-form-urlencoded"
        && $0.answer?.body?.contains("&expires_in=5&") == true
    },
  ]
}
