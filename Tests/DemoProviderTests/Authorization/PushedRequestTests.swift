import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct PushedRequestTests {
  private func push(_ client: TestClient, _ changes: [String: String?] = [:]) async -> Answer? {
    await client.send(.POST, "/par", form: client.authorizationRequest(changes))
  }

  private func use(_ uri: String?, _ client: TestClient, id: String = "demo") async -> Answer? {
    await client.send(.GET, "/authorize?" + TestClient.encode(["client_id": id, "request_uri": uri ?? ""]))
  }

  @Test func aPushedRequestIsGoodOnce() async throws {
    try await withServer { server, client in
      let answer = try #require(await push(client, ["login_hint": "bob"]))
      #expect(answer.status == 201 && answer.json?["expires_in"] == 60)
      let uri = try #require(answer.json?["request_uri"]?.string)
      let callback = try #require(await use(uri, client)).callback
      #expect(callback["state"] == "state-1")
      let tokens = Tokens(await client.exchange(callback["code"] ?? ""))
      #expect(JWT.part(1, of: tokens.id)?["sub"] == "sub-bob")
      #expect(await use(uri, client)?.status == 400)
      #expect(server.stats().count(.push) == 1 && server.stats().count(.pushUsed) == 1)
      let seen = try #require(server.requests.first { $0.place == .authorize })
      #expect(Set(seen.names) == ["client_id", "request_uri"])
    }
  }

  @Test func aPushedRequestExpiresAndIsItsClientsAlone() async throws {
    let clock = StepClock()
    try await withServer({
      $0.now = { clock.now }
      $0.clients = [.init(id: "demo"), .init(id: "other")]
    }) { _, client in
      let uri = await push(client)?.json?["request_uri"]?.string
      #expect(await use(uri, client, id: "other")?.status == 400)
      clock.advance(61)
      #expect(await use(uri, client)?.status == 400)
    }
  }

  @Test func aPushedRequestOutlastsThePage() async throws {
    try await withServer({ $0.settings.approve = .ask }) { _, client in
      let uri = await push(client)?.json?["request_uri"]?.string ?? ""
      #expect(await use(uri, client)?.body?.contains("name=\"request_uri\"") == true)
      let form = ["client_id": "demo", "request_uri": uri, "decision": "allow", "username": "bob"]
      #expect(await client.send(.POST, "/authorize", form: form)?.callback["code"] != nil)
      #expect(await client.send(.POST, "/authorize", form: form)?.status == 400)
    }
  }

  @Test func whereRequestsMustBePushedOthersAreRefused() async throws {
    try await withServer({ $0.settings.authorization.requirePAR = true }) { _, client in
      let metadata = await client.send(.GET, "/.well-known/openid-configuration")?.json
      #expect(metadata?["require_pushed_authorization_requests"] == true)
      #expect(await client.authorize()?.callback["error"] == "invalid_request")
      let uri = await push(client)?.json?["request_uri"]?.string
      #expect(await use(uri, client)?.callback["code"] != nil)
    }
  }

  @Test(
    arguments: [
      (["response_type": "token"], 400, "unsupported_response_type"), (["code_challenge": nil], 400, "invalid_request"),
      (["redirect_uri": "https://evil.example/"], 400, "invalid_request"), (["client_id": "x"], 401, "invalid_client"),
      (["request_uri": "urn:x"], 400, "invalid_request"),
    ] as [([String: String?], Int, String)])
  func aWrongRequestIsRefusedWhenItIsPushed(_ changes: [String: String?], _ status: Int, _ error: String) async throws {
    try await withServer { server, client in
      let answer = await push(client, changes)
      #expect(answer?.status == status && answer?.json?["error"] == .string(error))
      #expect(server.stats().count(.push) == 0)
    }
  }

  @Test func theAnswerToAPushMayBeOdd() async throws {
    try await withServer { _, client in
      let settings: DemoServer.JSON = ["par_status": 200, "par_extra": ["request_uri": .null, "expires_in": 0]]
      #expect(await client.send(.POST, "/_control/settings", json: settings)?.status == 200)
      let answer = await push(client)
      #expect(answer?.status == 200 && answer?.json == ["expires_in": 0])
    }
  }

  private func object(_ key: TestKey, _ client: TestClient, _ changes: [String: DemoServer.JSON] = [:]) -> String {
    var claims: [String: DemoServer.JSON] = client.authorizationRequest().mapValues { .string($0) }
    claims["iss"] = "demo"
    claims["aud"] = .string(client.server.issuer)
    claims["exp"] = .int(Int(TestClock.now.timeIntervalSince1970) + 60)
    return key.jwt(claims.merging(changes) { $1 }, header: ["typ": "oauth-authz-req+jwt"])
  }

  @Test func aSignedRequestCountsAndNothingBesideIt() async throws {
    let key = TestKey.es256()
    let registered = DemoServer.Client(id: "demo", keys: [key.jwk], authenticationMethod: "none")
    try await withServer({
      $0.clients = [registered]
      $0.settings.authorization.requireRequestObject = true
    }) { server, client in
      let signed = object(key, client, ["max_age": 10, "resource": ["https://a.example", "https://b.example"]])
      let query = TestClient.encode(["client_id": "demo", "request": signed, "state": "forged", "login_hint": "deny"])
      let callback = try #require(await client.send(.GET, "/authorize?\(query)")).callback
      #expect(callback["state"] == "state-1")
      #expect(await client.exchange(callback["code"] ?? "")?.status == 200)
      #expect(server.stats().grants.first?.resources == ["https://a.example", "https://b.example"])
      let pushed = await client.send(.POST, "/par", form: ["client_id": "demo", "request": object(key, client)])
      #expect(await use(pushed?.json?["request_uri"]?.string, client)?.callback["code"] != nil)
      #expect(server.stats().count(.requestObject) == 2)
      #expect(await client.authorize()?.callback["error"] == "invalid_request")
    }
  }

  @Test(
    arguments: [
      ["aud": "https://elsewhere.example"], ["iss": "other"], ["client_id": "other"], ["exp": 1], ["request": "x"],
      ["aud": .null],
    ] as [[String: DemoServer.JSON]])
  func aSignedRequestWithAWrongClaimIsRefused(_ changes: [String: DemoServer.JSON]) async throws {
    let key = TestKey.es256()
    let registered = DemoServer.Client(id: "demo", keys: [key.jwk], authenticationMethod: "none")
    try await withServer({ $0.clients = [registered] }) { server, client in
      for object in [object(key, client, changes), object(.es256(), client), "x"] {
        #expect(await client.authorize(["request": object])?.callback["error"] == "invalid_request_object")
        let pushed = await push(client, ["request": object])
        #expect(pushed?.status == 400 && pushed?.json?["error"] == "invalid_request_object")
      }
      #expect(server.stats().count(.requestObjectRefused) == 6)
    }
  }
}
