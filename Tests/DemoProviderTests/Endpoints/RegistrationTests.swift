import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct RegistrationTests {
  private static let metadata: DemoServer.JSON = [
    "redirect_uris": ["http://127.0.0.1/callback"], "client_name": "grantd", "token_endpoint_auth_method": "none",
  ]

  private func register(
    _ client: TestClient, _ metadata: DemoServer.JSON = metadata, headers: [String: String] = [:]
  ) async -> Answer? {
    await client.send(.POST, "/register", json: metadata, headers: headers)
  }

  private func bearer(_ json: DemoServer.JSON?) -> [String: String] {
    ["Authorization": "Bearer \(json?["registration_access_token"]?.string ?? "")"]
  }

  @Test func aRegisteredClientSignsIn() async throws {
    try await withServer { server, client in
      let answer = try #require(await register(client))
      #expect(answer.status == 201 && answer.header("cache-control") == "no-store")
      let json = try #require(answer.json)
      #expect(json["client_name"] == "grantd" && json["client_secret"] == nil)
      var registered = client
      registered.id = try #require(json["client_id"]?.string)
      #expect(!(await registered.signIn()).refresh.isEmpty)
      #expect(server.stats().count(.registration) == 1)
    }
  }

  @Test(arguments: [nil, "client_secret_basic", "client_secret_post", "client_secret_jwt"] as [String?])
  func aClientThatNeedsASecretGetsOneThatDoesNotExpire(_ method: String?) async throws {
    try await withServer { server, client in
      let metadata: DemoServer.JSON = [
        "redirect_uris": [], "grant_types": ["client_credentials"],
        "token_endpoint_auth_method": method.map { .string($0) } ?? .null,
      ]
      let json = await register(client, metadata)?.json
      #expect(json?["token_endpoint_auth_method"] == .string(method ?? "client_secret_basic"))
      #expect(json?["client_secret_expires_at"] == 0)
      let id = json?["client_id"]?.string ?? ""
      let secret = json?["client_secret"]?.string ?? ""
      let basic = ["Authorization": "Basic \(Data("\(id):\(secret)".utf8).base64EncodedString())"]
      let assertion = TestKey.secret(secret).assertion(of: id, for: server.issuer)
      let ways: [(String, [String: String?], [String: String])] = [
        ("client_secret_basic", ["client_id": nil], basic),
        ("client_secret_post", ["client_id": id, "client_secret": secret], [:]),
        ("client_secret_jwt", assertion.merging(["client_id": id]) { $1 }.mapValues { $0 }, [:]),
      ]
      for (way, fields, headers) in ways {
        let answer = await client.token("client_credentials", fields, headers: headers)
        #expect(answer?.status == (way == method ?? "client_secret_basic" ? 200 : 401))
      }
    }
  }

  @Test func aClientReadsChangesAndDeletesItself() async throws {
    try await withServer { server, client in
      let json = try #require(await register(client)?.json)
      let url = try #require(json["registration_client_uri"]?.string)
      #expect(await client.send(.GET, url)?.status == 401)
      #expect(await client.send(.GET, url, headers: ["Authorization": "Bearer guess"])?.status == 401)
      #expect(await client.send(.GET, url, headers: bearer(json))?.json?["client_name"] == "grantd")
      let changed = json.merging(["client_name": "renamed"])
      #expect(await client.send(.PUT, url, json: changed, headers: bearer(json))?.json?["client_name"] == "renamed")
      #expect(await client.send(.PUT, url, json: [:], headers: bearer(json))?.status == 400)
      #expect(await client.send(.DELETE, url, headers: bearer(json))?.status == 204)
      #expect(await client.send(.GET, url, headers: bearer(json))?.status == 401)
      #expect(await client.authorize(["client_id": json["client_id"]?.string])?.status == 400)
      #expect(server.stats().count(.registrationRead) == 1 && server.stats().count(.registrationDeleted) == 1)
    }
  }

  @Test func theRegistrationAccessTokenMayChange() async throws {
    try await withServer({ $0.settings.registration.tokenRotates = true }) { _, client in
      let json = await register(client)?.json
      let url = json?["registration_client_uri"]?.string ?? ""
      let second = await client.send(.GET, url, headers: bearer(json))?.json
      #expect(await client.send(.GET, url, headers: bearer(json))?.status == 401)
      #expect(await client.send(.GET, url, headers: bearer(second))?.status == 200)
    }
  }

  @Test func aNewClientMayBeUnknownForAWhile() async throws {
    let clock = StepClock()
    try await withServer({
      $0.now = { clock.now }
      $0.settings.registration.delay = .seconds(3)
    }) { _, client in
      let id = await register(client)?.json?["client_id"]?.string
      #expect(await client.authorize(["client_id": id])?.status == 400)
      clock.advance(3)
      #expect(await client.authorize(["client_id": id])?.callback["code"] != nil)
    }
  }

  @Test func theAnswerMayBeOddAndAnInitialTokenNeeded() async throws {
    try await withServer { _, client in
      let settings: DemoServer.JSON = [
        "registration_status": 200, "registration_token": "first",
        "registration_extra": ["client_id": 7, "registration_access_token": .null],
      ]
      #expect(await client.send(.POST, "/_control/settings", json: settings)?.status == 200)
      #expect(await register(client)?.status == 401)
      let answer = await register(client, headers: ["Authorization": "Bearer first"])
      #expect(answer?.status == 200 && answer?.json?["client_id"] == 7)
      #expect(answer?.json?["registration_access_token"] == nil)
    }
  }

  @Test(
    arguments: [
      ([], "invalid_client_metadata"), ([:], "invalid_redirect_uri"),
      (["redirect_uris": ["no uri"]], "invalid_redirect_uri"),
      (["redirect_uris": ["https://x.example/#f"]], "invalid_redirect_uri"),
      (["redirect_uris": 1], "invalid_redirect_uri"),
      (["redirect_uris": ["https://x.example/"], "token_endpoint_auth_method": "magic"], "invalid_client_metadata"),
      (
        ["redirect_uris": ["https://x.example/"], "token_endpoint_auth_method": "private_key_jwt"],
        "invalid_client_metadata"
      ),
      (["redirect_uris": ["https://x.example/"], "jwks_uri": "https://x.example/"], "invalid_client_metadata"),
    ] as [(DemoServer.JSON, String)])
  func metadataThatMakeNoSenseAreRefused(_ metadata: DemoServer.JSON, _ error: String) async throws {
    try await withServer { server, client in
      let answer = await register(client, metadata)
      #expect(answer?.status == 400 && answer?.json?["error"] == .string(error))
      #expect(server.stats().count(.registration) == 0)
    }
  }
}
