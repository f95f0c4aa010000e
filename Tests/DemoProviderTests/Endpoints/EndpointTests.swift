import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct EndpointTests {
  @Test func discoveryIsTheSameAtBothAddressesAndNamesWhatIsServed() async throws {
    try await withServer { server, client in
      let oidc = try #require(await client.send(.GET, "/.well-known/openid-configuration"))
      let oauth = try #require(await client.send(.GET, "/.well-known/oauth-authorization-server"))
      #expect(oidc.body == oauth.body)
      #expect(oidc.header("content-type") == "application/json")
      #expect(oidc.json?["issuer"] == .string(server.issuer))
      #expect(oidc.json?["authorization_response_iss_parameter_supported"] == true)
      for member in ["jwks_uri", "authorization_endpoint", "end_session_endpoint"] {
        let url = try #require(oidc.json?[member]?.string)
        #expect(await client.send(.GET, url)?.status != 404)
      }
      #expect(await client.send(.GET, "/nowhere")?.status == 404)
      #expect(await client.send(.GET, "/token")?.status == 405)
      #expect(await client.send(.HEAD, "/jwks")?.body == "")
    }
  }

  @Test(arguments: ["refresh_token", "access_token", "unknown"])
  func revocationEndsWhatItNames(_ kind: String) async throws {
    try await withServer { server, client in
      let tokens = await client.signIn()
      let token = ["refresh_token": tokens.refresh, "access_token": tokens.access][kind] ?? "unknown"
      let answer = await client.send(.POST, "/revoke", form: ["client_id": "demo", "token": token])
      #expect(answer?.status == 200)
      #expect(await client.userinfo(tokens.access)?.status == (kind == "unknown" ? 200 : 401))
      #expect(await client.refresh(tokens.refresh)?.status == (kind == "refresh_token" ? 400 : 200))
    }
  }

  @Test func aClientCannotTouchAnothersTokens() async throws {
    try await withServer({ $0.clients = [.init(id: "demo"), .init(id: "other")] }) { _, client in
      let tokens = await client.signIn()
      let form = ["client_id": "other", "token": tokens.refresh]
      #expect(await client.send(.POST, "/revoke", form: form)?.status == 400)
      #expect(await client.send(.POST, "/introspect", form: form)?.json == ["active": false])
      #expect(await client.refresh(tokens.refresh, ["client_id": "other"])?.json?["error"] == "invalid_grant")
      #expect(await client.refresh(tokens.refresh)?.status == 200)
    }
  }

  @Test func introspectionTellsWhatLives() async throws {
    try await withServer { server, client in
      let tokens = await client.signIn(user: "bob")
      func look(_ token: String) async -> DemoServer.JSON? {
        await client.send(.POST, "/introspect", form: ["client_id": "demo", "token": token])?.json
      }
      let access = await look(tokens.access)
      #expect(access?["active"] == true && access?["username"] == "bob" && access?["token_type"] == "Bearer")
      #expect(await look(tokens.refresh)?["active"] == true)
      try server.revoke(user: "bob")
      #expect(server.stats().deadGrants == 1)
      #expect(await look(tokens.access) == ["active": false])
      #expect(await look(tokens.refresh) == ["active": false])
    }
  }

  @Test func endSessionReturnsWithStateToAnAllowedURIOnly() async throws {
    try await withServer { _, client in
      let token = await client.signIn().id
      let good = "/end_session?id_token_hint=\(token)&post_logout_redirect_uri=http://127.0.0.1:1/bye&state=s%201"
      #expect(await client.send(.GET, good)?.header("location") == "http://127.0.0.1:1/bye?state=s%201")
      for bad in [
        "/end_session?id_token_hint=\(token)&post_logout_redirect_uri=https://evil.example/",
        "/end_session?post_logout_redirect_uri=http://127.0.0.1:1/bye", "/end_session?id_token_hint=\(token)x",
      ] {
        #expect(await client.send(.GET, bad)?.status == 400)
      }
      #expect(await client.send(.GET, "/end_session")?.body?.contains("<h1>Signed out</h1>") == true)
    }
  }

  @Test func thePageEscapesAllThatItEchoesAndLoadsNothing() async throws {
    try await withServer({ $0.settings.approve = .ask }) { _, client in
      let evil = "\"><script>alert('x')</script>&"
      let answer = try #require(
        await client.authorize(["state": evil, "scope": evil, "prompt": "login", "login_hint": evil]))
      #expect(answer.status == 200)
      #expect(answer.header("content-security-policy")?.hasPrefix("default-src 'none'; style-src 'sha256-") == true)
      let body = try #require(answer.body)
      #expect(!body.contains("<script"))
      #expect(body.contains("value=\"&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;\""))
    }
  }

  @Test(arguments: [("allow", "bob", "code"), ("deny", "bob", "error"), ("allow", "mallory", nil)])
  func aPersonsAnswerOnThePageCounts(_ decision: String, _ user: String, _ outcome: String?) async throws {
    try await withServer({ $0.settings.approve = .ask }) { _, client in
      #expect(await client.authorize()?.status == 200)
      #expect(await client.authorize(["prompt": "none"])?.callback["error"] == "login_required")
      let form = client.authorizationRequest(["decision": decision, "username": user])
      let answer = try #require(await client.send(.POST, "/authorize", form: form))
      #expect(answer.status == (outcome == nil ? 422 : 303))
      #expect(outcome == nil || answer.callback[outcome ?? ""] != nil)
      if outcome == "code" {
        let tokens = Tokens(await client.exchange(answer.callback["code"] ?? ""))
        #expect(await client.userinfo(tokens.access)?.json?["preferred_username"] == "bob")
      }
    }
  }

  @Test func rotatedKeysSignAnewAndTheOldStayOrGo() async throws {
    try await withServer { server, client in
      let old = await client.signIn().id
      let kid = try server.rotateKeys()
      let new = await client.signIn().id
      #expect(JWT.part(0, of: new)?["kid"] == .string(kid))
      #expect(await client.verifies(old))
      #expect(await client.verifies(new))
      try server.rotateKeys(keepingOld: false)
      #expect(await client.verifies(old) == false)
    }
  }

  @Test func anUnsupportedAddressIsRefused() async throws {
    var options = DemoServer.Options()
    options.host = "0.0.0.0"
    await #expect(throws: DemoServer.StartError.self) { try await DemoServer.start(options) }
  }

  @Test func itListensOnIPv6() async throws {
    try await withServer({ $0.host = "::1" }) { server, client in
      #expect(server.issuer == "http://[::1]:\(server.port)")
      #expect(await client.send(.GET, "/jwks")?.status == 200)
    }
  }
}

@Suite struct ControlTests {
  @Test func theControlAPISetsFaultsAndSettingsAndResets() async throws {
    try await withServer { server, client in
      let fault: DemoServer.JSON = [
        "endpoint": "token.code", "kind": "status", "code": 429, "retry_after": 3, "times": 1,
      ]
      #expect(await client.send(.POST, "/_control/fault", json: fault)?.status == 200)
      let answer = try #require(await client.exchange(await client.code()))
      #expect(answer.status == 429 && answer.header("retry-after") == "3")
      let settings: DemoServer.JSON = [
        "access_ttl": 77, "rotation": "none", "token_extra": ["instance_url": "https://x.example", "scope": .null],
      ]
      #expect(await client.send(.POST, "/_control/settings", json: settings)?.json?["rotation"] == "none")
      let tokens = try #require(await client.exchange(await client.code())?.json)
      #expect(tokens["expires_in"] == 77 && tokens["instance_url"] == "https://x.example" && tokens["scope"] == nil)
      #expect(await client.send(.POST, "/_control/revoke_user", json: ["user": "alice"])?.json == ["revoked": 1])
      #expect(await client.send(.POST, "/_control/rotate_keys")?.json?["kid"] != nil)
      let stats = try #require(await client.send(.GET, "/_control/stats")?.json)
      #expect(stats["requests"]?["token.code"] == 2 && stats["dead_grants"] == 1 && stats["live_grants"] == 0)
      #expect(stats["fault_hits"] == ["status": 1])
      #expect(await client.send(.POST, "/_control/reset")?.status == 200)
      #expect(await client.exchange(await client.code())?.json?["expires_in"] == 5)
    }
  }

  @Test(
    arguments: [
      ("fault", ["kind": "nonsense"]), ("fault", ["kind": "status", "endpoint": "nowhere"]),
      ("fault", ["kind": "status", "times": 0]), ("fault", ["kind": "status", "colour": "red"]),
      ("fault", ["kind": "status", "code": 99]), ("fault", ["kind": "missing_iss", "endpoint": "token"]),
      ("fault", ["kind": "slow_body", "bytes_per_second": 0]), ("fault", ["kind": "delay", "when": "later"]),
      ("fault", []), ("settings", ["access_ttl": -1]), ("settings", ["ttl": 1]), ("settings", ["rotation": "weekly"]),
      ("revoke_user", ["user": "mallory"]),
    ] as [(String, DemoServer.JSON)])
  func aControlRequestThatMakesNoSenseIsRefused(_ command: String, _ body: DemoServer.JSON) async throws {
    try await withServer { server, client in
      let answer = try #require(await client.send(.POST, "/_control/\(command)", json: body))
      #expect(answer.status == 400)
      #expect(answer.json?["error"]?.string?.isEmpty == false)
      #expect(server.stats().faultsSet == 0)
    }
  }

  @Test func aWebPageCannotUseTheControlAPI() async throws {
    try await withServer { _, client in
      let headers = ["Origin": "http://evil.example"]
      #expect(await client.send(.POST, "/_control/reset", json: [:], headers: headers)?.status == 403)
    }
  }

  @Test func aRequestThatIsTooLargeIsRefused() async throws {
    try await withServer { _, client in
      let answer = await client.refresh(String(repeating: "x", count: 100_000))
      #expect(answer == nil || answer?.status == 413)
    }
  }
}
