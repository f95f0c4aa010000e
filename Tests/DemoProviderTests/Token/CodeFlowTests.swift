import Crypto
import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct CodeFlowTests {
  @Test func aSignInGivesTokensThatWork() async throws {
    try await withServer { server, client in
      let callback = try #require(await client.authorize(["login_hint": "user-42"])).callback
      #expect(callback["state"] == "state-1")
      #expect(callback["iss"] == server.issuer)
      let answer = try #require(await client.exchange(callback["code"] ?? ""))
      #expect(answer.status == 200)
      #expect(answer.header("cache-control") == "no-store")
      #expect(answer.json?["token_type"] == "Bearer")
      #expect(answer.json?["expires_in"] == 5)
      #expect(answer.json?["scope"] == "openid profile email offline_access api.read")
      let tokens = Tokens(answer)
      let userinfo = try #require(await client.userinfo(tokens.access)?.json)
      #expect(userinfo["sub"] == "sub-user-42")
      #expect(userinfo["name"] == "User 42")
      #expect(userinfo["email"] == "user-42@demo.example")
      let refreshed = Tokens(await client.refresh(tokens.refresh))
      #expect(refreshed.access != tokens.access && !refreshed.access.isEmpty)
      #expect(server.stats().refreshes == 1)
      #expect(server.stats().liveGrants == 1)
    }
  }

  @Test func theIDTokenIsSignedAndSaysWhoWhenAndForWhom() async throws {
    try await withServer { server, client in
      let tokens = await client.signIn(user: "bob")
      let claims = try #require(JWT.part(1, of: tokens.id))
      #expect(await client.verifies(tokens.id))
      #expect(claims["iss"] == .string(server.issuer))
      #expect(claims["aud"] == "demo")
      #expect(claims["sub"] == "sub-bob")
      #expect(claims["nonce"] == "nonce-1")
      #expect(claims["email"] == "bob@demo.example")
      let hash = Data(SHA256.hash(data: Data(tokens.access.utf8)).prefix(16))
      #expect(JWT.bytes(claims["at_hash"]?.string ?? "") == hash)
      let now = TestClock.now.timeIntervalSince1970
      for claim in ["iat", "auth_time"] {
        #expect(abs((claims[claim]?.number ?? 0) - now) < 10)
      }
      #expect((claims["exp"]?.number ?? 0) > now)
      let refreshed = try #require(JWT.part(1, of: Tokens(await client.refresh(tokens.refresh)).id))
      #expect(refreshed["sub"] == "sub-bob")
      #expect(refreshed["nonce"] == nil)
    }
  }

  @Test(
    arguments: [
      ["code_verifier": nil], ["code_verifier": String(repeating: "x", count: 43)], ["code_verifier": "short"],
      ["redirect_uri": nil], ["redirect_uri": "http://127.0.0.1:8999/callback/"], ["client_id": "stranger"],
      ["client_id": nil], ["client_secret": "guessed"],
    ] as [[String: String?]])
  func anExchangeThatDiffersIsRefused(_ changes: [String: String?]) async throws {
    try await withServer { server, client in
      let answer = try #require(await client.exchange(await client.code(), changes))
      #expect((400...401).contains(answer.status))
      #expect(answer.json?["error"] != nil && answer.json?["access_token"] == nil)
      #expect(server.stats().liveGrants == 0)
    }
  }

  @Test func aWrongVerifierBurnsTheCode() async throws {
    try await withServer { _, client in
      let code = await client.code()
      let wrong = await client.exchange(code, ["code_verifier": String(repeating: "y", count: 64)])
      #expect(wrong?.json?["error"] == "invalid_grant")
      #expect(await client.exchange(code)?.json?["error"] == "invalid_grant")
    }
  }

  @Test func aCodeUsedTwiceRevokesWhatItGave() async throws {
    try await withServer { server, client in
      let code = await client.code()
      let tokens = Tokens(await client.exchange(code))
      #expect(await client.exchange(code)?.json?["error"] == "invalid_grant")
      #expect(await client.userinfo(tokens.access)?.status == 401)
      #expect(await client.refresh(tokens.refresh)?.json?["error"] == "invalid_grant")
      #expect(server.stats().grants.first?.ended == "code reused")
    }
  }

  @Test func aCodeExpires() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { _, client in
      let code = await client.code()
      clock.advance(61)
      #expect(await client.exchange(code)?.json?["error"] == "invalid_grant")
    }
  }

  @Test(
    arguments: [
      (["response_type": "token"], "unsupported_response_type"), (["code_challenge": nil], "invalid_request"),
      (["code_challenge_method": "plain"], "invalid_request"), (["code_challenge_method": nil], "invalid_request"),
      (["login_hint": "deny"], "access_denied"), (["login_hint": "mallory"], "access_denied"),
    ] as [([String: String?], String)])
  func aRefusedAuthorizationReturnsToTheClientWithStateAndIssuer(
    _ changes: [String: String?], _ error: String
  ) async throws {
    try await withServer { server, client in
      let callback = try #require(await client.authorize(changes)).callback
      #expect(callback["error"] == error)
      #expect(callback["state"] == "state-1")
      #expect(callback["iss"] == server.issuer)
      #expect(callback["code"] == nil)
    }
  }

  @Test(arguments: [
    ("http://127.0.0.1:1/x", true), ("http://[::1]:65535/callback?a=b", true), ("app.example:/cb", true),
    ("https://rp.example/cb", true), ("https://rp.example/cb/", false), ("http://localhost:8999/callback", false),
    ("https://127.0.0.1/callback", false), ("http://127.0.0.1.evil.example/", false),
    ("http://127.0.0.1@evil.example/", false), ("http://127.0.0.1:1/x#fragment", false), ("", false),
  ])
  func onlyLoopbackAndRegisteredRedirectURIsAreAnswered(_ uri: String, _ allowed: Bool) async throws {
    try await withServer({ $0.clients[0].redirectURIs = ["app.example:/cb", "https://rp.example/cb"] }) { _, client in
      let answer = try #require(await client.authorize(["redirect_uri": uri]))
      #expect(answer.status == (allowed ? 303 : 400))
      #expect((answer.header("location")?.hasPrefix(uri) ?? false) == allowed)
    }
  }

  @Test func aConfidentialClientAuthenticatesWithBasicOrPostAndOnlyOne() async throws {
    let secret = "p@ss:w%rd+ é"
    try await withServer({ $0.clients = [.init(id: "conf:1", secret: secret)] }) { _, plain in
      var client = plain
      client.id = "conf:1"
      let basic = "conf%3A1:p%40ss%3Aw%25rd%2B+%C3%A9"
      let header = ["Authorization": "basic \(Data(basic.utf8).base64EncodedString())"]
      for (fields, headers, status) in [
        (["client_id": "conf:1", "client_secret": secret], [:], 200), ([:], header, 200),
        (["client_secret": secret], header, 400), (["client_id": "conf:1"], [:], 401),
        (["client_id": "conf:1", "client_secret": "wrong"], [:], 401),
      ] as [([String: String], [String: String], Int)] {
        let code = await client.code()
        let form = [
          "grant_type": "authorization_code", "code": code, "redirect_uri": client.redirectURI,
          "code_verifier": TestClient.verifier,
        ].merging(fields) { $1 }
        #expect(await client.send(.POST, "/token", form: form, headers: headers)?.status == status)
      }
    }
  }
}
