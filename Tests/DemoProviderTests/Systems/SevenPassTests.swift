import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct SevenPassTests {
  private func withSevenPass(
    _ change: (inout DemoServer.Options) -> Void = { _ in },
    _ body: (DemoServer, TestClient) async throws -> Void
  ) async throws {
    try await withServer {
      $0.settings.use(.sevenPass)
      $0.clients = [.init(id: "demo", redirectURIs: ["de.7pass.example:/cb/authz"])]
      change(&$0)
    } _: { server, client in
      var client = client
      client.redirectURI = "de.7pass.example:/cb/authz"
      try await body(server, client)
    }
  }

  @Test func discoveryHasTheRecordedShape() async throws {
    try await withSevenPass { server, client in
      let document = try #require(await client.send(.GET, "/.well-known/openid-configuration")?.json)
      #expect(document["issuer"] == .string(server.issuer) && document["revocation_endpoint"] == nil)
      #expect(document["id_token_signing_alg_values_supported"] == ["RS256"])
      #expect(document["token_endpoint_auth_methods_supported"] == ["client_secret_post", "client_secret_basic"])
      guard case .array(let types)? = document["response_types_supported"] else { throw Missing() }
      #expect(types.contains("code id_token token") || types.contains("code token id_token"))
      #expect(await client.send(.GET, "/.well-known/oauth-authorization-server")?.status == 404)
    }
  }

  @Test func theRedirectHasOneSlashAndNoHost() async throws {
    try await withSevenPass { _, client in
      let answer = await client.authorize(["prompt": "consent"])
      #expect(answer?.header("location")?.hasPrefix("de.7pass.example:/cb/authz?code=") == true)
      for other in ["de.7pass.example://cb/authz", "de.7pass.example:/cb/authz/", "de.7pass.example:/cb"] {
        #expect(await client.authorize(["redirect_uri": other])?.status == 400)
      }
    }
  }

  @Test func anIDTokenIsForTheServiceAndTheClient() async throws {
    try await withSevenPass { _, client in
      let answer = await client.exchange(await client.code(user: "alice", ["prompt": "consent"]))
      let claims = JWT.part(1, of: Tokens(answer).id)
      #expect(claims?["aud"] == ["7pass-service", "demo"] && claims?["azp"] == "demo")
      #expect(claims?["at_hash"] != nil && claims?["auth_time"] != nil)
      #expect(JWT.part(0, of: Tokens(answer).id)?["alg"] == "RS256" && answer?.json?["expires_in"] == 7200)
    }
  }

  @Test(arguments: [("consent", true), ("login", false), (nil, false)] as [(String?, Bool)])
  func offlineAccessNeedsConsent(_ prompt: String?, _ isGranted: Bool) async throws {
    try await withSevenPass { server, client in
      let answer = await client.exchange(await client.code(user: "alice", ["prompt": prompt]))
      #expect((answer?.json?["refresh_token"] != nil) == isGranted)
      #expect(server.stats().grants.last?.scopes.contains("offline_access") == isGranted)
    }
  }

  @Test(arguments: [true, false])
  func theSameRefreshTokenComesBackAndEachUseProlongsIt(_ prolongs: Bool) async throws {
    let clock = StepClock()
    try await withSevenPass({
      $0.now = { clock.now }
      $0.settings.refresh.prolongs = prolongs
    }) { _, client in
      let token = Tokens(await client.exchange(await client.code(user: "alice", ["prompt": "consent"]))).refresh
      clock.advance(80 * 86_400)
      #expect(await client.refresh(token)?.json?["refresh_token"] == .string(token))
      clock.advance(80 * 86_400)
      #expect(await client.refresh(token)?.status == (prolongs ? 200 : 400))
    }
  }

  @Test func bothTokensAreRevokedAndTheSessionEnds() async throws {
    try await withSevenPass { server, client in
      let tokens = Tokens(await client.exchange(await client.code(user: "alice", ["prompt": "consent"])))
      #expect(await client.send(.GET, "/me", headers: ["Authorization": "Bearer \(tokens.access)"])?.status == 200)
      for token in [tokens.refresh, tokens.access] {
        #expect(await client.send(.POST, "/revoke", form: ["client_id": "demo", "token": token])?.status == 200)
      }
      #expect(server.stats().revocations.map(\.kind) == ["refresh_token", "access_token"])
      #expect(await client.send(.GET, "/me", headers: ["Authorization": "Bearer \(tokens.access)"])?.status == 401)
      let end = "/end_session?id_token_hint=\(tokens.id)&post_logout_redirect_uri=de.7pass.example:/cb/authz&state=s"
      #expect(await client.send(.GET, end)?.header("location") == "de.7pass.example:/cb/authz?state=s")
    }
  }
}

@Suite struct BridgeTests {
  /// The callback of the application.
  private func called(_ location: String) -> [String: String] {
    let parts = location.split(whereSeparator: { $0 == "?" || $0 == "#" })
    let pairs = (parts.last ?? "").split(separator: "&").map { $0.split(separator: "=", maxSplits: 1) }
    return Dictionary(pairs.map { (String($0[0]), String($0[1]).removingPercentEncoding ?? "") }) { $1 }
  }

  @Test(arguments: [("query", "?", "web"), ("fragment", "#", "native")])
  func aSignInGoesByTheAppAndBack(_ place: String, _ joint: String, _ type: String) async throws {
    try await withServer { server, client in
      #expect(await client.set(["bridge": "fb123://authorize", "bridge_place": .string(place)]))
      let location = await client.authorize(["login_hint": "bob"])?.header("location") ?? ""
      #expect(location.hasPrefix("fb123://authorize\(joint)code=fbcode-"))
      let values = called(location)
      #expect(values["code"]?.hasSuffix("+/=&") == true && values["state"]?.contains("a b+c/d=&e") == true)
      let next = "/external/callback?" + TestClient.encode(values.merging(["fbapp_type": type]) { $1 })
      let answer = try #require(await client.send(.GET, next))
      #expect(answer.callback["state"] == "state-1" && answer.callback["code"] != nil)
      #expect(await client.send(.GET, next)?.status == 400, "it is good once")
      #expect(Tokens(await client.exchange(answer.callback["code"] ?? "")).access.hasPrefix("at-"))
      #expect(server.stats().grants.first?.user == "bob")
      let seen = server.requests.first { $0.place == .external }
      #expect(seen?.parameters["fbapp_type"] == type && seen?.parameters["state"] == values["state"])
    }
  }

  @Test(arguments: [["fbapp_type": "tv"], ["fbapp_type": "native"], ["code": "fbcode"], ["state": "other"]])
  func aWayBackThatDoesNotFitIsRefused(_ changes: [String: String]) async throws {
    try await withServer { _, client in
      #expect(await client.set(["bridge": "fb123://authorize?x=1"]))
      #expect(await client.authorize(["fbapp_pres": "0"])?.callback["code"] != nil)
      let location = await client.authorize()?.header("location") ?? ""
      #expect(location.hasPrefix("fb123://authorize?x=1&code="))
      let values = called(location).merging(["fbapp_type": "web"]) { $1 }.merging(changes) { $1 }
      #expect(await client.send(.GET, "/external/callback?" + TestClient.encode(values))?.status == 400)
    }
  }

  @Test func theWayBackMayNeedTheBrowsersCookie() async throws {
    try await withServer { _, client in
      #expect(await client.set(["bridge": "fb123://authorize", "bridge_needs_cookie": true]))
      let first = await client.authorize()
      let values = called(first?.header("location") ?? "").merging(["fbapp_type": "web"]) { $1 }
      let next = "/external/callback?" + TestClient.encode(values)
      #expect(await client.send(.GET, next)?.status == 400)
      let cookie = first?.header("set-cookie")?.split(separator: ";").first.map(String.init) ?? ""
      #expect(await client.send(.GET, next, headers: ["Cookie": cookie])?.callback["code"] != nil)
    }
  }
}
