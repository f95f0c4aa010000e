import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct OtherGrantTests {
  typealias Fields = [String: String?]
  private static let type = "urn:ietf:params:oauth:token-type:"

  @Test func clientCredentialsGiveAnAccessTokenAndNoMore() async throws {
    try await withServer({ $0.clients = [.init(id: "demo", secret: "s"), .init(id: "public")] }) { server, client in
      let answer = await client.token(
        "client_credentials", ["client_secret": "s", "scope": "a b", "resource": "https://api.example"])
      #expect(answer?.json?["scope"] == "a b" && answer?.json?["token_type"] == "Bearer")
      #expect(answer?.json?["refresh_token"] == nil && answer?.json?["id_token"] == nil)
      let headers = ["Authorization": "Bearer \(Tokens(answer).access)"]
      let seen = await client.send(.PUT, "/resource?x=1", headers: headers)?.json
      #expect(
        seen == [
          "sub": "demo", "client_id": "demo", "scope": "a b", "method": "PUT", "bound": false,
          "resources": ["https://api.example"],
        ])
      let refused = await client.token("client_credentials", ["client_id": "public"])
      #expect(refused?.json?["error"] == "unauthorized_client")
      #expect(await client.token("client_credentials")?.json?["error"] == "invalid_client")
      #expect(server.stats().grants.map(\.origin) == [.tokenClient])
    }
  }

  @Test func thePasswordGrantIsOffUnlessASettingAllowsIt() async throws {
    try await withServer { server, client in
      let fields: Fields = ["username": "bob", "password": "bob-password", "scope": "openid"]
      #expect(await client.token("password", fields)?.json?["error"] == "unauthorized_client")
      server.changeSettings { $0.token.passwordGrant = true }
      #expect(Tokens(await client.token("password", fields)).refresh.hasPrefix("rt-"))
      #expect(
        await client.token("password", ["username": "bob", "password": "guess"])?.json?["error"] == "invalid_grant")
    }
  }

  private func grantClaims(_ server: DemoServer, _ changes: [String: DemoServer.JSON] = [:]) -> [String: DemoServer
    .JSON]
  {
    let now = Int(TestClock.now.timeIntervalSince1970)
    let claims: [String: DemoServer.JSON] = [
      "iss": "robot@project.example", "sub": "user-7", "aud": .string("\(server.issuer)/token"), "iat": .int(now),
      "exp": .int(now + 3600), "jti": .string(UUID().uuidString), "scope": "calendar mail",
    ]
    return claims.merging(changes) { $1 }
  }

  @Test func anAssertionOfAServiceAccountIsAGrant() async throws {
    let key = try TestKey.rsa("RS256")
    try await withServer { server, client in
      let body: DemoServer.JSON = ["issuer": "robot@project.example", "jwks": ["keys": [key.jwk]]]
      #expect(await client.send(.POST, "/_control/service_account", json: body)?.status == 200)
      func ask(_ changes: [String: DemoServer.JSON] = [:], _ fields: Fields = [:]) async -> Answer? {
        let form: Fields = ["assertion": key.jwt(grantClaims(server, changes)), "client_id": nil]
        return await client.token("urn:ietf:params:oauth:grant-type:jwt-bearer", form.merging(fields) { $1 })
      }
      let answer = await ask()
      #expect(answer?.json?["scope"] == "calendar mail" && answer?.json?["refresh_token"] == nil)
      #expect(server.stats().grants.map(\.user) == ["user-7"])
      #expect(await ask([:], ["scope": "other"])?.json?["scope"] == "other")
      #expect(await ask(["sub": .null])?.status == 200)
      #expect(await ask(["jti": .null])?.status == 200)
      for wrong in [
        ["iss": "stranger"], ["aud": "https://elsewhere.example"], ["exp": 1], ["exp": 99_999_999_999],
        ["iat": 99_999_999_999],
      ] as [[String: DemoServer.JSON]] {
        #expect(await ask(wrong)?.json?["error"] == "invalid_grant")
      }
      _ = await ask(["jti": "once"])
      #expect(await ask(["jti": "once"])?.json?["error"] == "invalid_grant")
      let forged = TestKey.es256().jwt(grantClaims(server))
      #expect(await ask([:], ["assertion": forged])?.json?["error"] == "invalid_grant")
      #expect(await ask([:], ["assertion": "no.jwt"])?.json?["error"] == "invalid_request")
      #expect(server.stats().count(.assertion) == 5 && server.stats().count(.replay) == 1)
    }
  }

  private func exchange(_ client: TestClient, _ token: String, _ fields: Fields = [:]) async -> Answer? {
    let form: Fields = ["subject_token": token, "subject_token_type": "\(Self.type)access_token"]
    return await client.token("urn:ietf:params:oauth:grant-type:token-exchange", form.merging(fields) { $1 })
  }

  @Test func anAccessTokenIsExchangedForANarrowerOne() async throws {
    try await withServer { server, client in
      let first = await client.signIn(user: "bob")
      let answer = await exchange(client, first.access, ["scope": "api.read", "audience": "backend"])
      #expect(answer?.json?["issued_token_type"] == .string("\(Self.type)access_token"))
      #expect(answer?.json?["token_type"] == "Bearer" && answer?.json?["refresh_token"] == nil)
      #expect(answer?.json?["scope"] == "api.read" && answer?.json?["id_token"] == nil)
      let headers = ["Authorization": "Bearer \(Tokens(answer).access)"]
      let seen = await client.send(.GET, "/resource", headers: headers)?.json
      #expect(seen?["sub"] == "sub-bob" && seen?["resources"] == ["urn:audience:backend"])
      #expect(server.stats().count(.exchange) == 1)
      #expect(await client.userinfo(first.access)?.status == 200)
    }
  }

  @Test func whatIsNoBearerTokenHasTheTypeNA() async throws {
    try await withServer { _, client in
      let first = await client.signIn()
      let answer = await exchange(client, first.access, ["requested_token_type": "\(Self.type)jwt"])
      #expect(answer?.json?["token_type"] == "N_A")
      #expect(answer?.json?["issued_token_type"] == .string("\(Self.type)jwt"))
      #expect(await client.verifies(Tokens(answer).access))
      let refresh = await exchange(client, first.access, ["requested_token_type": "\(Self.type)refresh_token"])
      #expect(Tokens(refresh).refresh.hasPrefix("rt-"))
      let byIDToken = await exchange(client, first.id, ["subject_token_type": "\(Self.type)id_token"])
      #expect(byIDToken?.status == 200)
    }
  }

  @Test(
    arguments: [
      (["subject_token": "unknown"], "invalid_request"), (["subject_token_type": nil], "invalid_request"),
      (["subject_token_type": "\(type)id_token"], "invalid_request"), (["actor_token": "x"], "invalid_request"),
      (["actor_token": "x", "actor_token_type": "\(type)access_token"], "invalid_request"),
      (["actor_token_type": "\(type)access_token"], "invalid_request"), (["scope": "admin"], "invalid_scope"),
      (["requested_token_type": "urn:x:y"], "invalid_request"), (["resource": "relative"], "invalid_target"),
      (["resource": "https://x.example/#fragment"], "invalid_target"),
    ] as [(Fields, String)])
  func anExchangeThatMakesNoSenseIsRefused(_ fields: Fields, _ error: String) async throws {
    try await withServer { server, client in
      let answer = await exchange(client, await client.signIn().access, fields)
      #expect(answer?.json?["error"] == .string(error))
      #expect(server.stats().grants.count == 1)
    }
  }
}
