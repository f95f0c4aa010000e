import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct AuthorizationCodeTests {
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

  @Test(arguments: [true, false]) func aWrongVerifierBurnsTheCodeUnlessASettingKeepsIt(_ burns: Bool) async throws {
    try await withServer({ $0.settings.token.wrongVerifierBurnsCode = burns }) { _, client in
      let code = await client.code()
      let wrong = await client.exchange(code, ["code_verifier": String(repeating: "y", count: 64)])
      #expect(wrong?.json?["error"] == "invalid_grant")
      #expect(await client.exchange(code)?.status == (burns ? 400 : 200))
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

  @Test func codesAndPushedRequestsExpire() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { _, client in
      let code = await client.code()
      let pushed = await client.send(.POST, "/par", form: client.authorizationRequest())
      let uri = try #require(pushed?.json?["request_uri"]?.string)
      let device = await Refusal.device(client)
      clock.advance(61)
      #expect(await client.exchange(code)?.json?["error"] == "invalid_grant")
      let query = TestClient.encode(["client_id": "demo", "request_uri": uri])
      #expect(await client.send(.GET, "/authorize?\(query)")?.status == 400)
      clock.advance(540)
      #expect(await Refusal.poll(client, device)?.json?["error"] == "expired_token")
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
}
