import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct QuirkTests {
  private func set(_ settings: DemoServer.JSON, _ client: TestClient) async {
    #expect(await client.send(.POST, "/_control/settings", json: settings)?.status == 200)
  }

  @Test(
    arguments: [
      ("full", 200, true, true), ("bare", 200, true, false), ("missing", 404, false, false),
      ("html", 200, false, false),
    ], ["oidc_metadata", "oauth_metadata"])
  func aMetadataDocumentMayBeBareMissingOrAPage(
    _ expected: (String, Int, Bool, Bool), _ setting: String
  ) async throws {
    let (kind, status, isJSON, isFull) = expected
    let paths = ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"]
    try await withServer { server, client in
      await set([setting: .string(kind)], client)
      let answer = await client.send(.GET, paths[setting == "oidc_metadata" ? 0 : 1])
      #expect(answer?.status == status && (answer?.json?["token_endpoint"] != nil) == isJSON)
      #expect((answer?.json?["revocation_endpoint"] != nil) == isFull)
      #expect(answer?.header("content-type")?.hasPrefix(isJSON ? "application/json" : "text/html") == true)
      let other = await client.send(.GET, paths[setting == "oidc_metadata" ? 1 : 0])
      #expect(other?.json?["revocation_endpoint"] == .string("\(server.issuer)/revoke"))
    }
  }

  @Test func theIssuerParameterMayBeUnadvertisedOrMissingOnErrors() async throws {
    try await withServer { server, client in
      await set(["iss_advertised": false, "iss_on_errors": false], client)
      let metadata = await client.send(.GET, "/.well-known/openid-configuration")?.json
      #expect(metadata?["issuer"] != nil && metadata?["authorization_response_iss_parameter_supported"] == nil)
      #expect(await client.authorize()?.callback["iss"] == server.issuer)
      let refused = await client.authorize(["login_hint": "deny"])?.callback
      #expect(refused?["error"] == "access_denied" && refused?["iss"] == nil)
    }
  }

  @Test(
    arguments: [
      (["refusal": "consent_required"], "consent_required"), (["refusal": "page"], nil),
      (["authorize_error_page": true], nil),
    ] as [(DemoServer.JSON, String?)])
  func aRefusalMayComeInOtherWays(_ settings: DemoServer.JSON, _ error: String?) async throws {
    try await withServer { _, client in
      await set(settings, client)
      let answer = await client.authorize(["login_hint": "deny"])
      #expect(answer?.callback["error"] == error)
      #expect(answer?.status == (error == nil ? 200 : 303))
      #expect(error != nil || answer?.header("content-type")?.hasPrefix("text/html") == true)
    }
  }

  @Test(
    arguments: [
      (["nonce_required": true], ["nonce": nil]),
      (["max_state": 1999], ["state": String(repeating: "s", count: 2000)]),
    ] as [(DemoServer.JSON, [String: String?])])
  func aRequestMayNeedANonceOrAShortState(_ settings: DemoServer.JSON, _ changes: [String: String?]) async throws {
    try await withServer { _, client in
      #expect(await client.authorize(changes)?.callback["code"] != nil)
      await set(settings, client)
      #expect(await client.authorize(changes)?.callback["error"] == "invalid_request")
      #expect(await client.authorize()?.callback["code"] != nil)
    }
  }

  @Test(
    arguments: [
      ("as_granted", "openid a b", "b"), ("absent", nil, "b"), ("reordered", "b a openid", "b"),
      ("narrowed", "openid a", "a"),
    ] as [(String, String?, String)])
  func theScopeOfAnAnswerMayDiffer(_ setting: String, _ scope: String?, _ lastGranted: String) async throws {
    try await withServer { server, client in
      await set(["scope_answer": .string(setting)], client)
      let answer = await client.exchange(await client.code(user: "alice", ["scope": "openid a b"]))
      #expect(answer?.json?["scope"] == scope.map { .string($0) })
      #expect(server.stats().grants.first?.scopes.last == lastGranted)
    }
  }

  @Test func theImplicitGrantIsOffUnlessASettingAllowsIt() async throws {
    try await withServer { _, client in
      let changes: [String: String?] = ["response_type": "token", "code_challenge": nil]
      #expect(await client.authorize(changes)?.callback["error"] == "unsupported_response_type")
      await set(["implicit_grant": true], client)
      let location = try #require(await client.authorize(changes)?.header("location"))
      let fragment = try #require(URLComponents(string: location)?.percentEncodedFragment)
      #expect(fragment.hasPrefix("access_token=at-") && fragment.contains("&state=state-1&iss=http"))
      #expect(!location.contains("?"))
      let denied = await client.authorize(changes.merging(["login_hint": "deny"]) { $1 })?.header("location")
      #expect(denied?.hasPrefix("\(client.redirectURI)#error=access_denied&") == true)
      #expect(denied?.contains("&state=state-1&") == true)
    }
  }

  @Test func whoSignsInUnnamedIsASetting() async throws {
    try await withServer { server, client in
      await set(["default_user": "user-7"], client)
      _ = await client.exchange(await client.authorize()?.callback["code"] ?? "")
      #expect(server.stats().grants.map(\.user) == ["user-7"])
      let callback = await client.send(.GET, await client.zephrStart().page)?.callback
      #expect(callback?["identifier"] == "user-7@demo.example")
      let url = await client.vms(.GET, "external/auth/url")?.json?["url"]?.string ?? ""
      let code = await client.send(.GET, url)?.callback["code"] ?? ""
      #expect(await client.vmsLogin(["code": .string(code)])?.json?["user"]?["login"] == "user-7")
    }
  }

  @Test func aWrongVerifierMayLeaveTheCodeGood() async throws {
    try await withServer({ $0.settings.token.wrongVerifierBurnsCode = false }) { _, client in
      let code = await client.code()
      let wrong = await client.exchange(code, ["code_verifier": String(repeating: "y", count: 64)])
      #expect(wrong?.json?["error"] == "invalid_grant")
      #expect(await client.exchange(code)?.status == 200)
    }
  }

  @Test func aTokenResponseMayBeWrappedAndARequestMayBeJSON() async throws {
    try await withServer { server, client in
      await set(["token_wrap": "authed_user", "json_bodies": true], client)
      let body: DemoServer.JSON = [
        "grant_type": "authorization_code", "client_id": "demo", "code": .string(await client.code()),
        "redirect_uri": .string(client.redirectURI), "code_verifier": .string(TestClient.verifier),
      ]
      let answer = await client.send(.POST, "/token", json: body)
      #expect(answer?.json?["access_token"] == nil)
      #expect(answer?.json?["authed_user"]?["access_token"]?.string?.hasPrefix("at-") == true)
      #expect(server.stats().requests["token.code"] == 1)
      await set(["json_bodies": false], client)
      #expect(await client.send(.POST, "/token", json: body)?.status == 401)
    }
  }

  @Test(
    arguments: [
      ("challenge", "Bearer realm=\"demo\", error=\"invalid_token\"", nil), ("empty", nil, nil),
      ("no_scheme", "error=\"invalid_token\"", nil), ("json_as_html", nil, "text/html"),
    ] as [(String, String?, String?)], ["/userinfo", "/resource"])
  func a401MayLookOtherwise(_ expected: (String, String?, String?), _ path: String) async throws {
    try await withServer { _, client in
      await set(["unauthorized": .string(expected.0)], client)
      let answer = await client.send(.GET, path, headers: ["Authorization": "Bearer stale"])
      #expect(answer?.status == 401 && answer?.header("content-type") == expected.2)
      #expect((answer?.header("www-authenticate") ?? "").hasPrefix(expected.1 ?? "-") == (expected.1 != nil))
      #expect(expected.0 != "json_as_html" || answer?.json?["error"] == "invalid_token")
    }
  }

  @Test func userinfoMayBeSignedAndWrong() async throws {
    try await withServer({ $0.settings.resource.userinfoSigned = true }) { server, client in
      let token = await client.signIn(user: "bob").access
      func look(_ fault: DemoServer.Fault.Kind?) async throws -> String {
        if let fault { try server.fault(fault, at: .userinfo, times: 1) }
        let answer = try #require(await client.userinfo(token))
        #expect(answer.header("content-type") == "application/jwt")
        return answer.body ?? ""
      }
      let good = try await look(nil)
      #expect(await client.verifies(good))
      let claims = try #require(JWT.part(1, of: good))
      #expect(claims["iss"] == .string(server.issuer) && claims["aud"] == "demo" && claims["sub"] == "sub-bob")
      for fault in [DemoServer.Fault.Kind.algNone, .badSignature, .unknownKid, .algHS256] {
        #expect(await client.verifies(try await look(fault)) == false)
      }
      #expect(JWT.part(1, of: try await look(.wrongIssuer))?["iss"] == "http://wrong-issuer.example")
      #expect(JWT.part(1, of: try await look(.wrongAudience))?["aud"] == "another-client")
    }
  }

  @Test func introspectionMayBearMore() async throws {
    try await withServer { server, client in
      await set(["introspection_extra": ["active": 1, "quota": 7, "exp": .null]], client)
      let form = ["client_id": "demo", "token": await client.signIn().access]
      let looked = await client.send(.POST, "/introspect", form: form)?.json
      #expect(looked?["active"] == 1 && looked?["quota"] == 7 && looked?["exp"] == nil)
      #expect(server.stats().count(.introspection) == 1)
    }
  }

  private static let hashBytes: [DemoServer.Algorithm: Int] = [.rs512: 32, .edDSA: 32, .es384: 24]

  @Test(arguments: DemoServer.Algorithm.allCases)
  func idTokensAreSignedWithTheKeyThatWasRotatedIn(_ algorithm: DemoServer.Algorithm) async throws {
    try await withServer { _, client in
      let old = await client.signIn().id
      let body: DemoServer.JSON = ["alg": .string(algorithm.rawValue), "keep_old": true]
      let kid = await client.send(.POST, "/_control/rotate_keys", json: body)?.json?["kid"]
      let tokens = await client.signIn()
      #expect(JWT.part(0, of: tokens.id)?["alg"] == .string(algorithm.rawValue))
      #expect(JWT.part(0, of: tokens.id)?["kid"] == kid)
      #expect(await client.verifies(tokens.id))
      #expect(await client.verifies(old))
      let hash = JWT.part(1, of: tokens.id)?["at_hash"]?.string ?? ""
      #expect(JWT.bytes(hash)?.count == Self.hashBytes[algorithm, default: 16])
      #expect(await client.send(.GET, "/end_session?id_token_hint=\(tokens.id)")?.status == 200)
    }
  }
}

@Suite struct ControlCatalogueTests {
  @Test func everySettingGoesInAsItComesOut() async throws {
    try await withServer { _, client in
      let settings = try #require(await client.send(.GET, "/_control/settings")?.json)
      #expect(await client.send(.POST, "/_control/settings", json: settings)?.json == settings)
      guard case .object(let members) = settings else { return }
      #expect(members.count > 50)
      for name in members.keys {
        #expect(await client.send(.POST, "/_control/settings", json: [name: [1]])?.status == 400, "\(name)")
      }
    }
  }

  @Test func requestsAreToldAsTheyCame() async throws {
    try await withServer { server, client in
      _ = await client.refresh("rt-x", ["resource": "https://a.example"])
      let seen = try #require(server.requests.first)
      #expect(seen.place == .tokenRefresh && seen.method == "POST" && seen.path == "/token")
      #expect(seen.parameters["refresh_token"] == "rt-x" && seen.headers["content-type"] != nil)
      let told = await client.send(.GET, "/_control/requests")?.json
      guard case .array(let all)? = told else { return }
      #expect(all.count == 1 && all[0]["parameters"]?["resource"] == "https://a.example")
      server.reset()
      #expect(server.requests.isEmpty)
    }
  }

  @Test func eventsAreCountedUntilReset() async throws {
    try await withServer { server, client in
      _ = await client.send(.POST, "/device_authorization", form: ["client_id": "demo"])
      _ = await client.send(
        .POST, "/token",
        form: ["grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": "demo", "device_code": "x"])
      let stats = await client.send(.GET, "/_control/stats")?.json
      #expect(stats?["events"] == ["poll": 1] && stats?["requests"]?["token.device"] == 1)
      server.reset()
      #expect(server.stats().events.isEmpty)
    }
  }
}
