import DemoProvider
import Foundation
import NIOHTTP1

// Grants at the token endpoint, except authorization codes.
extension Refusal {
  static let grants: [Refusal] = [
    .init("an unknown device code", 400, "invalid_grant") { _, client in await poll(client, "unknown") },
    .init("a poll before its time", 400, "slow_down") { _, client in
      let code = await device(client)
      _ = await poll(client, code)
      return await poll(client, code)
    },
    .init("a device that the user refused", 400, "access_denied") { server, client in
      let code = await device(client)
      try? server.answerDevice(allow: false)
      return await poll(client, code)
    },
    .init("a used device code", 400, "invalid_grant") { server, client in
      let code = await device(client)
      try? server.answerDevice()
      _ = await poll(client, code)
      return await poll(client, code)
    },
    .init("the password grant", 400, "unauthorized_client") { _, client in
      await client.token("password", ["username": "bob", "password": "bob-password"])
    },
    .init("a wrong password", 400, "invalid_grant", with: { $0.settings.token.passwordGrant = true }) { _, client in
      await client.token("password", ["username": "bob", "password": "guess"])
    },
    .init("an assertion grant without a JWT", 400, "invalid_request", with: knowsRobot) { _, client in
      await robot(client, "no.jwt")
    },
    .init("an assertion grant of another key", 400, "invalid_grant", with: knowsRobot) { server, client in
      await robot(client, TestKey().jwt(robotClaims(server)))
    },
    .init("an assertion grant of an unknown issuer", 400, "invalid_grant") { server, client in
      await robot(client, key.jwt(robotClaims(server)))
    },
    .init("an assertion grant for another server", 400, "invalid_grant", with: knowsRobot) { server, client in
      await robot(client, key.jwt(robotClaims(server).merging(["aud": "https://elsewhere.example"]) { $1 }))
    },
    .init("a used assertion grant", 400, "invalid_grant", with: knowsRobot) { server, client in
      let assertion = key.jwt(robotClaims(server))
      _ = await robot(client, assertion)
      return await robot(client, assertion)
    },
    .init("a wider scope", 400, "invalid_scope") { _, client in
      await client.refresh(await client.signIn().refresh, ["scope": "api.read admin"])
    },
    .init("another resource", 400, "invalid_target") { _, client in
      let code = await client.code(["resource": "https://a.example"])
      let token = Tokens(await client.exchange(code)).refresh
      return await client.refresh(token, ["resource": "https://b.example"])
    },
    .init("another client's refresh token", 400, "invalid_grant", with: hasTwoClients) { _, client in
      await client.refresh(await client.signIn().refresh, ["client_id": "other"])
    },
    .init("another client's revocation", 400, "unauthorized_client", with: hasTwoClients) { _, client in
      await client.send(.POST, "/revoke", form: ["client_id": "other", "token": await client.signIn().refresh])
    },
  ]

  static let hasTwoClients: Change = { $0.clients = [.init(id: "demo"), .init(id: "other")] }

  static func device(_ client: TestClient) async -> String? {
    await client.send(.POST, "/device_authorization", form: ["client_id": client.id])?.json?["device_code"]?.string
  }

  static func poll(_ client: TestClient, _ code: String?) async -> Answer? {
    await client.token("urn:ietf:params:oauth:grant-type:device_code", ["device_code": code])
  }

  // MARK: Assertions as grants

  private static let knowsRobot: Change = {
    $0.serviceAccounts = [.init(issuer: "robot@project.example", keys: [key.jwk])]
  }

  private static func robot(_ client: TestClient, _ assertion: String) async -> Answer? {
    await client.token(
      "urn:ietf:params:oauth:grant-type:jwt-bearer", ["assertion": assertion, "client_id": nil])
  }

  private static func robotClaims(_ server: DemoServer) -> [String: JSON] {
    let now = Int(TestClock.now.timeIntervalSince1970)
    return [
      "iss": "robot@project.example", "sub": "user-7", "aud": .string("\(server.issuer)/token"), "iat": .int(now),
      "exp": .int(now + 3600), "jti": .string(UUID().uuidString), "scope": "calendar mail",
    ]
  }

  // MARK: Token exchange

  private static let type = "urn:ietf:params:oauth:token-type:"

  private static let exchangeChanges: [([String: String?], String)] = [
    (["subject_token": "unknown"], "invalid_request"), (["subject_token_type": nil], "invalid_request"),
    (["subject_token_type": "\(type)id_token"], "invalid_request"), (["actor_token": "x"], "invalid_request"),
    (["actor_token": "x", "actor_token_type": "\(type)access_token"], "invalid_request"),
    (["scope": "admin"], "invalid_scope"), (["requested_token_type": "urn:x:y"], "invalid_request"),
    (["resource": "relative"], "invalid_target"),
  ]

  static let wrongExchanges: [Refusal] = exchangeChanges.map { fields, error in
    Refusal("an exchange with \(text(fields))", 400, error) { _, client in
      let form: [String: String?] = [
        "subject_token": await client.signIn().access, "subject_token_type": "\(type)access_token",
      ]
      return await client.token("urn:ietf:params:oauth:grant-type:token-exchange", form.merging(fields) { $1 })
    }
  }
}
