import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct DeviceTests {
  /// The answer of the device authorization endpoint.
  private func start(_ client: TestClient) async throws -> DemoServer.JSON {
    let form = ["client_id": client.id, "scope": "openid offline_access api.read"]
    let answer = try #require(await client.send(.POST, "/device_authorization", form: form))
    #expect(answer.status == 200)
    return try #require(answer.json)
  }

  private func poll(_ code: DemoServer.JSON?, _ client: TestClient) async -> Answer? {
    await client.token("urn:ietf:params:oauth:grant-type:device_code", ["device_code": code?.string])
  }

  @Test func aDeviceGetsItsTokensOnceAPersonAllowsIt() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { server, client in
      let device = try await start(client)
      #expect(device["interval"] == 5 && device["expires_in"] == 600)
      #expect(device["verification_uri"] == .string("\(server.issuer)/device"))
      let code = try #require(device["user_code"]?.string)
      #expect(device["verification_uri_complete"] == .string("\(server.issuer)/device?user_code=\(code)"))
      #expect(await poll(device["device_code"], client)?.json?["error"] == "authorization_pending")
      try server.answerDevice(code.lowercased().replacing("-", with: ""), user: "bob")
      clock.advance(5)
      let answer = try #require(await poll(device["device_code"], client))
      #expect(answer.json?["scope"] == "openid offline_access api.read")
      #expect(JWT.part(1, of: Tokens(answer).id)?["sub"] == "sub-bob")
      #expect(await client.refresh(Tokens(answer).refresh)?.status == 200)
      #expect(await poll(device["device_code"], client)?.json?["error"] == "invalid_grant")
      #expect(server.stats().count(.poll) == 3 && server.stats().count(.slowDown) == 0)
      #expect(server.stats().grants.first?.origin == .tokenDevice)
    }
  }

  @Test func whoPollsTooFastIsToldSoAndMustGoFiveSecondsSlower() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { server, client in
      let code = try await start(client)["device_code"]
      var answers: [DemoServer.JSON?] = []
      for seconds in [0.0, 4, 9.4, 10, 14, 15] {
        clock.advance(seconds)
        answers.append(await poll(code, client)?.json?["error"])
      }
      #expect(
        answers == [
          "authorization_pending", "slow_down", "slow_down", "slow_down", "slow_down", "slow_down",
        ])
      clock.advance(30)
      #expect(await poll(code, client)?.json?["error"] == "authorization_pending")
      #expect(server.stats().count(.slowDown) == 5)
      server.changeSettings { $0.device.slowDown = false }
      #expect(await poll(code, client)?.json?["error"] == "authorization_pending")
    }
  }

  @Test(arguments: [
    (DemoServer.Settings.Device.Expired.expiredToken, "expired_token"), (.invalidGrant, "invalid_grant"),
  ])
  func aDeviceCodeExpires(_ setting: DemoServer.Settings.Device.Expired, _ error: String) async throws {
    let clock = StepClock()
    try await withServer({
      $0.now = { clock.now }
      $0.settings.device.ttl = .seconds(30)
      $0.settings.device.expired = setting
    }) { server, client in
      let device = try await start(client)
      clock.advance(31)
      #expect(await poll(device["device_code"], client)?.json?["error"] == .string(error))
      #expect(throws: DemoServer.Misuse.self) { try server.answerDevice(device["user_code"]?.string) }
    }
  }

  @Test func aRefusalAndAnUnknownCodeAreTold() async throws {
    try await withServer { server, client in
      let code = try await start(client)["device_code"]
      let refusal: DemoServer.JSON = ["decision": "deny"]
      #expect(await client.send(.POST, "/_control/device", json: refusal)?.json == ["ok": true])
      #expect(await poll(code, client)?.json?["error"] == "access_denied")
      #expect(await client.send(.POST, "/_control/device", json: refusal)?.status == 400)
      #expect(await poll("unknown", client)?.json?["error"] == "invalid_grant")
      server.changeSettings { $0.device.unknown = .notFound }
      let answer = await poll("unknown", client)
      #expect(answer?.status == 404 && answer?.body == "" && answer?.header("content-type") == nil)
    }
  }

  @Test func oddShapesAreSettings() async throws {
    try await withServer { server, client in
      let settings: DemoServer.JSON = [
        "device_verification_url": true, "device_complete": false, "device_id_token": false, "device_interval": 1,
        "device_extra": ["expires_in": "300", "message": "Hello"],
      ]
      #expect(await client.send(.POST, "/_control/settings", json: settings)?.status == 200)
      let device = try await start(client)
      #expect(device["verification_uri"] == nil && device["verification_uri_complete"] == nil)
      #expect(device["verification_url"] == .string("\(server.issuer)/device"))
      #expect(device["interval"] == 1 && device["expires_in"] == "300" && device["message"] == "Hello")
      try server.answerDevice()
      let tokens = Tokens(await poll(device["device_code"], client))
      #expect(!tokens.access.isEmpty && tokens.id.isEmpty)
    }
  }

  @Test(
    arguments: [
      ("allow", "bob", 200, nil), ("deny", "", 200, "access_denied"),
      ("allow", "mallory", 422, "authorization_pending"),
    ] as [(String, String, Int, String?)])
  func aPersonAnswersOnThePage(_ decision: String, _ user: String, _ status: Int, _ error: String?) async throws {
    try await withServer({ $0.settings.device.slowDown = false }) { _, client in
      let device = try await start(client)
      let code = try #require(device["user_code"]?.string)
      let page = try #require(await client.send(.GET, "/device?user_code=\(code)\"><script>"))
      #expect(page.body?.contains("value=\"\(code)&quot;&gt;&lt;script&gt;\"") == true)
      let form = ["user_code": code, "decision": decision, "username": user]
      #expect(await client.send(.POST, "/device", form: form)?.status == status)
      #expect(await poll(device["device_code"], client)?.json?["error"] == error.map { .string($0) })
      #expect(await client.send(.POST, "/device", form: ["user_code": "NONE", "decision": "deny"])?.status == 422)
    }
  }
}
