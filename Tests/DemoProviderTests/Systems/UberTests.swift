import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct UberTests {
  private func authorize(
    _ client: TestClient, _ changes: [String: String?] = [:], product: String = "universal"
  ) async -> Answer? {
    var parameters = client.authorizationRequest(["scope": nil, "nonce": nil])
    for (name, value) in changes { parameters[name] = value }
    return await client.send(.GET, "/oauth/v2/\(product)/authorize?" + TestClient.encode(parameters))
  }

  private func push(_ client: TestClient, _ hint: String, _ changes: [String: String] = [:]) async -> Answer? {
    let form = ["client_id": "demo", "response_type": "code", "login_hint": Data(hint.utf8).base64EncodedString()]
    return await client.send(.POST, "/oauth/v2/par", form: form.merging(changes) { $1 })
  }

  private func exchange(_ client: TestClient, _ code: String) async -> DemoServer.JSON? {
    let form = [
      "grant_type": "authorization_code", "client_id": "demo", "code": code, "redirect_uri": client.redirectURI,
      "code_verifier": TestClient.verifier,
    ]
    return await client.send(.POST, "/oauth/v2/token", form: form)?.json
  }

  @Test(arguments: ["universal", "riders", "eats", "drivers", "pilots"])
  func eachProductHasItsAddress(_ product: String) async throws {
    try await withServer { server, client in
      let answer = await authorize(client, product: product)
      #expect(answer?.status == (product == "pilots" ? 404 : 303))
      guard product != "pilots" else { return }
      #expect(answer?.callback.keys.sorted() == ["code", "state"])
      #expect(server.requests.last?.path == "/oauth/v2/\(product)/authorize")
    }
  }

  @Test(
    arguments: [
      ("login", true), ("consent", true), ("login consent", true), ("none", false), ("", false), (nil, true),
    ] as [(String?, Bool)])
  func promptIsLoginConsentOrBoth(_ prompt: String?, _ isTaken: Bool) async throws {
    try await withServer { server, client in
      let answer = await authorize(client, ["prompt": prompt])
      #expect(answer?.callback["error"] == (isTaken ? nil : "invalid_request"))
      #expect(server.requests.last?.parameters["prompt"] == prompt)
    }
  }

  @Test func theDefaultScopeIsProfileAndPKCEIsNotNeeded() async throws {
    try await withServer { server, client in
      let bare: [String: String?] = ["code_challenge": nil, "code_challenge_method": nil]
      #expect(await authorize(client, bare)?.callback["code"] != nil)
      #expect(await client.set(["uber_needs_challenge": true]))
      #expect(await authorize(client, bare)?.callback["error"] == "invalid_request")
      let tokens = await exchange(client, await authorize(client)?.callback["code"] ?? "")
      #expect(tokens?["scope"] == "profile" && tokens?["refresh_token"] != nil && tokens?["id_token"] == nil)
      #expect(server.stats().grants.last?.scopes == ["profile"])
    }
  }

  @Test func scopeMayBeAListAndExpiresInAText() async throws {
    try await withServer { _, client in
      #expect(await client.set(["scope_shape": "array", "expires_in_shape": "string", "access_ttl": 60]))
      let code = await authorize(client, ["scope": "profile history"])?.callback["code"] ?? ""
      let tokens = await exchange(client, code)
      #expect(tokens?["scope"] == ["profile", "history"] && tokens?["expires_in"] == "60")
    }
  }

  @Test func whatIsPushedIsAHintBesideTheRequest() async throws {
    try await withServer { server, client in
      let pushed = try #require(await push(client, "{\"email\":\"bob@demo.example\",\"first_name\":\"Bob\"}"))
      #expect(pushed.status == 201 && pushed.json?["expires_in"] == 60)
      #expect(server.stats().prefills == [["email": "bob@demo.example", "first_name": "Bob"]])
      let uri = pushed.json?["request_uri"]?.string
      for product in ["riders", "universal"] {
        let code = await authorize(client, ["request_uri": uri], product: product)?.callback["code"] ?? ""
        #expect(await exchange(client, code)?["access_token"] != nil, "\(product)")
      }
      #expect(server.stats().grants.map(\.user) == ["bob", "bob"])
      #expect(server.stats().count(.push) == 1 && server.stats().count(.pushUsed) == 2)
      server.reset()
      #expect(server.stats().prefills.isEmpty)
    }
  }

  @Test(
    arguments: [
      ("{\"email\":null}", [:]), ("{}", [:]), ("no JSON", [:]), ("{\"age\":\"7\"}", [:]),
      ("{\"email\":\"a@b.example\"}", ["redirect_uri": "http://127.0.0.1/cb"]),
      ("{\"email\":\"a@b.example\"}", ["response_type": "token"]),
    ] as [(String, [String: String])])
  func aPushThatIsNotJustAHintIsRefused(_ hint: String, _ changes: [String: String]) async throws {
    try await withServer { server, client in
      #expect(await push(client, hint, changes)?.json?["error"] == "invalid_request")
      #expect(server.stats().prefills.isEmpty)
    }
  }

  @Test func anUnknownRequestURIIsAPageOrPassedOver() async throws {
    try await withServer { server, client in
      #expect(await authorize(client, ["request_uri": "urn:x"])?.status == 400)
      #expect(await client.set(["uber_ignores_request_uri": true]))
      #expect(await authorize(client, ["request_uri": "urn:x"])?.callback["code"] != nil)
      try server.fault(.status, at: .par, times: 1)
      #expect(await push(client, "{\"email\":\"a@b.example\"}")?.status == 503)
    }
  }
}
