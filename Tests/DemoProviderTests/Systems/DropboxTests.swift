import DemoProvider
import Foundation
import NIOHTTP1
import Testing

extension TestClient {
  /// An authorization at Dropbox; the redirect is its own unless `changes` say otherwise.
  func dropbox(_ changes: [String: String?] = [:]) async -> Answer? {
    var parameters = authorizationRequest(["scope": nil, "nonce": nil, "redirect_uri": "db-demo://2/token"])
    for (name, value) in changes { parameters[name] = value }
    return await send(.GET, "/oauth2/authorize?" + Self.encode(parameters))
  }

  func dropboxExchange(_ code: String) async -> Answer? {
    await send(
      .POST, "/oauth2/token",
      form: [
        "grant_type": "authorization_code", "client_id": id, "code": code, "redirect_uri": "db-demo://2/token",
        "code_verifier": Self.verifier,
      ])
  }

  func dropboxTokens(_ changes: [String: String?] = [:]) async -> DemoServer.JSON? {
    let all = changes.merging(["token_access_type": "offline"]) { mine, _ in mine }
    return await dropboxExchange(await dropbox(all)?.callback["code"] ?? "")?.json
  }

  func dropboxCall(_ path: String, _ token: String?, body: DemoServer.JSON? = nil) async -> Answer? {
    await send(.POST, "/2/\(path)", json: body, headers: ["Authorization": "Bearer \(token ?? "")"])
  }
}

@Suite struct DropboxTests {
  @Test func aCodeComesInTheQueryAndGivesTokensWithAnIdentity() async throws {
    try await withServer { _, client in
      let answer = try #require(await client.dropbox(["token_access_type": "offline"]))
      #expect(answer.header("location")?.hasPrefix("db-demo://2/token?code=") == true)
      #expect(answer.callback.keys.sorted() == ["code", "state"])
      let tokens = try #require(await client.dropboxExchange(answer.callback["code"] ?? "")?.json)
      #expect(tokens["account_id"] == "dbid:AAH-alice" && tokens["uid"] == "10001" && tokens["token_type"] == "bearer")
      #expect(tokens["refresh_token"]?.string?.hasPrefix("rt-") == true && tokens["id_token"] == nil)
      #expect(tokens["scope"] == "account_info.read files.metadata.read")
    }
  }

  @Test(
    arguments: [
      ("offline", false, true), ("online", false, false), ("legacy", true, false), (nil, false, false),
      (nil, true, true),
    ] as [(String?, Bool, Bool)])
  func aRefreshTokenComesWhereItWasAskedFor(_ kind: String?, _ byDefault: Bool, _ comes: Bool) async throws {
    try await withServer { _, client in
      #expect(await client.set(["dropbox_offline_by_default": .bool(byDefault)]))
      let tokens = await client.dropboxTokens(["token_access_type": kind])
      #expect(tokens?["access_token"] != nil && (tokens?["refresh_token"] != nil) == comes)
      #expect(await client.dropbox(["token_access_type": "often"])?.callback["error"] == "invalid_request")
    }
  }

  @Test(arguments: ["strict", "grace", "none"])
  func aRefreshBringsNoRefreshTokenAndTheOldOneStays(_ rotation: String) async throws {
    try await withServer { _, client in
      #expect(await client.set(["rotation": .string(rotation)]))
      let token = await client.dropboxTokens()?["refresh_token"]?.string ?? ""
      for _ in 0..<2 {
        let form = ["grant_type": "refresh_token", "client_id": "demo", "refresh_token": token]
        let answer = await client.send(.POST, "/oauth2/token", form: form)
        #expect(answer?.status == 200 && answer?.json?["refresh_token"] == nil)
        #expect(answer?.json?["account_id"] == "dbid:AAH-alice")
      }
    }
  }

  @Test func aTokenComesInTheFragmentWithoutIssuer() async throws {
    try await withServer { _, client in
      for redirect in ["db-demo://2/token", "http://127.0.0.1:9/callback"] {
        let changes: [String: String?] = ["response_type": "token", "code_challenge": nil, "redirect_uri": redirect]
        let location = await client.dropbox(changes)?.header("location") ?? ""
        #expect(location.hasPrefix("\(redirect)#access_token=at-"))
        #expect(location.hasSuffix("&token_type=bearer&uid=10001&account_id=dbid%3AAAH-alice&state=state-1"))
      }
      #expect(await client.set(["dropbox_fragment_expires": true]))
      let more = await client.dropbox(["response_type": "token"])?.header("location")
      #expect(more?.contains("&expires_in=5&scope=account_info.read+files") == true)
    }
  }

  @Test(arguments: [("code", "?"), ("token", "#")])
  func aRefusalTellsItsReasonFirst(_ type: String, _ joint: String) async throws {
    try await withServer { _, client in
      let reason = "The+user+chose+not+to+give+your+app+access+to+their+Dropbox+account."
      let refused = "db-demo://2/token\(joint)error_description=\(reason)&error=access_denied"
      let changes: [String: String?] = ["response_type": type, "login_hint": "deny"]
      #expect(await client.dropbox(changes)?.header("location") == refused + "&state=state-1")
      #expect(await client.set(["dropbox_state_on_refusal": false]))
      #expect(await client.dropbox(changes)?.header("location") == refused)
    }
  }

  @Test func thePagePostsBackAndOffersAnAccountUnlessDisabled() async throws {
    try await withServer({ $0.settings.approve = .ask }) { _, client in
      #expect(await client.dropbox()?.body?.contains("create an account") == true)
      let page = await client.dropbox(["disable_signup": "true"])?.body
      #expect(page?.contains("action=\"/oauth2/authorize\"") == true && page?.contains("create an account") == false)
      let form = client.authorizationRequest([
        "redirect_uri": "db-demo://2/token", "decision": "allow", "username": "bob",
      ])
      #expect(await client.send(.POST, "/oauth2/authorize", form: form)?.callback["code"] != nil)
      #expect(await client.dropbox(["redirect_uri": "db-demo://2/tokenX"])?.status == 400)
      #expect(await client.dropbox(["redirect_uri": "db-other://2/token"])?.status == 400)
    }
  }

  @Test func revocationTakesABearerAndEndsTheGrant() async throws {
    try await withServer { server, client in
      let tokens = await client.dropboxTokens()
      let token = tokens?["access_token"]?.string
      #expect(await client.dropboxCall("auth/token/revoke", token, body: ["token": "x"])?.status == 400)
      #expect(await client.dropboxCall("auth/token/revoke", token)?.status == 200)
      #expect(server.stats().revocations == [.init(kind: "access_token", hint: nil, revoked: true)])
      #expect(server.stats().grants.first?.ended == "revoked")
      let again = await client.dropboxCall("auth/token/revoke", token)
      #expect(again?.status == 401 && again?.json?["error"]?[".tag"] == "invalid_access_token")
      let form = ["grant_type": "refresh_token", "client_id": "demo"]
        .merging(["refresh_token": tokens?["refresh_token"]?.string ?? ""]) { $1 }
      #expect(await client.send(.POST, "/oauth2/token", form: form)?.json?["error"] == "invalid_grant")
    }
  }

  @Test func theAPITellsWhatIsWrongWithAToken() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { _, client in
      let token = await client.dropboxTokens(["scope": "account_info.read"])?["access_token"]?.string
      let account = await client.dropboxCall("users/get_current_account", token)
      #expect(account?.json?["account_id"] == "dbid:AAH-alice" && account?.json?["email"] == "alice@demo.example")
      let missing = await client.dropboxCall("files/list_folder", token, body: ["path": ""])
      #expect(missing?.status == 401 && missing?.json?["error"]?[".tag"] == "missing_scope")
      clock.advance(6)
      for (text, tag) in [(token, "expired_access_token"), ("unknown", "invalid_access_token")] {
        let answer = await client.dropboxCall("users/get_current_account", text)
        #expect(answer?.status == 401 && answer?.json?["error"]?[".tag"] == .string(tag))
        #expect(answer?.json?["error_summary"] == .string("\(tag)/.."))
      }
    }
  }
}

@Suite struct DropboxAppTests {
  private static let state = "oauth2code:\(TestClient.challenge):S256:"

  private func address(_ scheme: String = "dbapi-2", state: String, extra: [String: String] = [:]) -> String {
    var address = "\(scheme)://1/connect?k=demo&s=&state=\(state)"
    if !extra.isEmpty {
      address += "&" + TestClient.encode(["extra_query_params": TestClient.encode(extra)])
    }
    return address
  }

  private func code(_ offline: Bool) -> String {
    var extra = [
      "code_challenge": TestClient.challenge, "code_challenge_method": "S256", "response_type": "code",
    ]
    if offline { extra["token_access_type"] = "offline" }
    return address(state: Self.state + (offline ? "offline" : ""), extra: extra)
  }

  private func parameters(_ callback: String) -> [String: String] {
    let items = URLComponents(string: callback)?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }) { $1 }
  }

  @Test(arguments: [true, false], [DemoServer.AppAnswer.allow, .allowOld])
  func aCodeComesInTwoStyles(_ offline: Bool, _ answer: DemoServer.AppAnswer) async throws {
    try await withServer { server, client in
      let callback = try server.openDropboxApp(code(offline), answer: answer, user: "bob")
      #expect(callback.hasPrefix("db-demo://1/connect?"))
      let found = parameters(callback)
      #expect(found["state"] == Self.state + (offline ? "offline" : ""))
      #expect(found["oauth_token"] == (answer == .allow ? nil : "oauth2code:"))
      let code = try #require(found[answer == .allow ? "oauth_code" : "oauth_token_secret"])
      let tokens = await client.dropboxExchange(code)?.json
      #expect(tokens?["account_id"] == "dbid:AAH-bob" && (tokens?["refresh_token"] != nil) == offline)
    }
  }

  @Test func aTokenComesWithItsNonce() async throws {
    try await withServer { server, client in
      let state = "oauth2:0123456789abcdef"
      let found = parameters(try server.openDropboxApp(address("dbapi-8-emm", state: state)))
      #expect(found["state"] == state && found["uid"] == "10001" && found["oauth_token"] == "oauth2:")
      let answer = await client.dropboxCall("users/get_current_account", found["oauth_token_secret"])
      #expect(answer?.status == 200)
    }
  }

  @Test func aCancelIsAnyOtherPath() async throws {
    try await withServer { server, client in
      let cancelled = try server.openDropboxApp(code(true), answer: .cancel)
      #expect(cancelled == "db-demo://1/cancel")
      let body: DemoServer.JSON = ["url": .string(code(true)), "answer": "allow"]
      let answer = await client.send(.POST, "/_control/dropbox_app", json: body)
      #expect(answer?.json?["callback"]?.string?.contains("oauth_code=") == true)
    }
  }

  @Test func anAddressThatIsNotTheAppsIsAMistake() async throws {
    try await withServer { server, _ in
      let others = ["code_challenge": "other", "code_challenge_method": "S256", "response_type": "code"]
      let mixed = address(state: Self.state, extra: others)
      for bad in [
        mixed, address("dbapi-1", state: "oauth2:0123456789abcdef"), address(state: "oauth2:short"),
        address(state: "state"), "dbapi-2://1/connect?k=demo&state=oauth2:0123456789abcdef",
        code(true).replacingOccurrences(of: "k=demo", with: "k=nobody"),
      ] {
        #expect(throws: DemoServer.Misuse.self) { try server.openDropboxApp(bad) }
      }
    }
  }
}
