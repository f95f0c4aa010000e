import DemoProvider
import Foundation
import NIOHTTP1
import Testing

extension TestClient {
  /// The page that a start leads to, and the start's cookie.
  func zephrStart(_ prefix: String = "/blaize") async -> (page: String, cookie: String) {
    let answer = await send(.GET, "\(prefix)/oauth/google?client_type=ios")
    let cookie = answer?.header("set-cookie")?.split(separator: ";").first.map(String.init)
    return (answer?.header("location") ?? "", cookie ?? "")
  }

  func zephrCallback(_ user: String) async -> [String: String] {
    await send(.GET, await zephrStart().page + "&login_hint=\(user)")?.callback ?? [:]
  }

  func zephrRegister(
    _ key: String, _ attributes: DemoServer.JSON = [:], cookie: String? = nil
  ) async -> Answer? {
    await send(
      .POST, "/blaize/register",
      json: ["identifiers": [:], "validators": ["token_exchange": .string(key)], "attributes": attributes],
      headers: cookie.map { ["Cookie": $0] } ?? [:])
  }

  func zephrProfile(_ session: String?) async -> Answer? {
    await send(.GET, "/blaize/profile", headers: session.map { ["Cookie": "a=b; blaize_session=\($0)"] } ?? [:])
  }
}

@Suite struct ZephrTests {
  @Test func aStartIsARedirectWithACookie() async throws {
    try await withServer { server, client in
      let answer = try #require(await client.send(.GET, "/blaize/oauth/google?client_type=ios"))
      #expect(answer.status == 302 && answer.header("location")?.hasPrefix(server.issuer) == true)
      #expect(answer.header("set-cookie")?.hasPrefix("blaize_tracking=") == true)
      #expect(await client.send(.GET, "/blaize/oauth/google")?.status == 400)
      #expect(await client.set(["zephr_start_needs_client_type": false]))
      #expect(await client.send(.GET, "/blaize/oauth/google")?.status == 302)
      #expect(await client.send(.GET, "/blaize/oauth/nobody?client_type=ios")?.status == 404)
      #expect(await client.send(.GET, "/zephr/oauth/google?client_type=ios")?.status == 404)
      #expect(await client.set(["zephr_prefix": "/zephr"]))
      #expect(await client.send(.GET, "/zephr/oauth/google?client_type=ios")?.status == 302)
      #expect(await client.send(.GET, "/blaize/oauth/google?client_type=ios")?.status == 404)
    }
  }

  @Test(
    arguments: [
      (["zephr_start_status": 200], 200, true, true), (["zephr_start_location": false], 302, false, true),
      (["zephr_start_cookie": false], 302, true, false),
    ] as [(DemoServer.JSON, Int, Bool, Bool)])
  func aStartMayLackSomething(_ settings: DemoServer.JSON, _ status: Int, _ place: Bool, _ cookie: Bool) async throws {
    try await withServer { _, client in
      #expect(await client.set(settings))
      let answer = await client.send(.GET, "/blaize/oauth/apple?client_type=ios")
      #expect(answer?.status == status && (answer?.header("location") != nil) == place)
      #expect((answer?.header("set-cookie") != nil) == cookie)
    }
  }

  @Test(
    arguments: [
      ("natural", "alice", ["action", "session_id", "status", "tracking_id"], "success"),
      ("natural", "user-7", ["action", "identifier", "state_key", "status"], "partial"),
      ("natural", "deny", ["action", "message", "status"], "failure"),
      ("failure", "alice", ["action", "message", "status"], "failure"),
      ("partial", "alice", ["action", "identifier", "state_key", "status"], "partial"),
      ("other", "alice", ["action", "status"], "pending_review"),
    ])
  func theRedirectTellsTheOutcome(
    _ outcome: String, _ user: String, _ names: [String], _ status: String
  ) async throws {
    try await withServer { _, client in
      #expect(await client.set(["zephr_outcome": .string(outcome)]))
      let page = await client.zephrStart().page
      let answer = try #require(await client.send(.GET, "\(page)&login_hint=\(user)"))
      #expect(answer.header("location")?.hasPrefix("zephr-demo://auth?action=") == true)
      #expect(answer.callback.keys.sorted() == names && answer.callback["status"] == status)
      #expect(answer.callback["action"] == (status == "partial" ? "register" : "login"))
      #expect(await client.send(.GET, page)?.status == 400, "it is good once")
    }
  }

  @Test func aPersonAnswersOnThePage() async throws {
    try await withServer({ $0.settings.approve = .ask }) { _, client in
      let page = await client.zephrStart().page
      #expect(await client.send(.GET, page)?.body?.contains("name=\"ticket\"") == true)
      let ticket = String(page.split(separator: "=").last ?? "")
      let form = ["ticket": ticket, "idp": "google", "decision": "allow", "username": "mallory"]
      #expect(await client.send(.POST, "/zephr-idp", form: form)?.status == 422)
      let good = form.merging(["username": "bob"]) { $1 }
      #expect(await client.send(.POST, "/zephr-idp", form: good)?.callback["status"] == "success")
    }
  }

  @Test func theRedirectMayBeGivenAtTheStart() async throws {
    try await withServer { _, client in
      #expect(await client.set(["zephr_redirect_parameter": "redirect"]))
      for (asked, isTaken) in [("zephr-demo://auth/nonce", true), ("https://evil.example/", false)] {
        let start = await client.send(.GET, "/blaize/oauth/google?client_type=ios&redirect=\(asked)")
        let location = await client.send(.GET, start?.header("location") ?? "")?.header("location")
        #expect(location?.hasPrefix(asked) == isTaken)
      }
    }
  }

  @Test func aRegistrationGivesASessionCookie() async throws {
    try await withServer { _, client in
      let key = await client.zephrCallback("user-7")["state_key"] ?? ""
      let answer = try #require(await client.zephrRegister(key, ["first_name": "Seven"]))
      let cookie = try #require(answer.header("set-cookie"))
      #expect(answer.status == 200 && answer.json?["cookie"] == .string(cookie) && answer.json?["tracking_id"] != nil)
      #expect(cookie.hasPrefix("blaize_session=") && cookie.contains("; Expires=") && cookie.hasSuffix("; Path=/;"))
      let session = cookie.dropFirst("blaize_session=".count).prefix(36)
      let profile = await client.zephrProfile(String(session))?.json
      #expect(profile?["first_name"] == "Seven" && profile?["email_address"] == "user-7@demo.example")
      #expect(await client.zephrRegister(key)?.status == 400)
      #expect(await client.zephrCallback("user-7")["status"] == "success")
    }
  }

  @Test(arguments: [("both", true, true), ("header", true, false), ("member", false, true)])
  func theSessionOfARegistrationIsInTwoPlaces(_ place: String, _ header: Bool, _ member: Bool) async throws {
    try await withServer { _, client in
      #expect(await client.set(["zephr_register_cookie": .string(place), "zephr_cookie_expires": false]))
      let answer = await client.zephrRegister(await client.zephrCallback("user-7")["state_key"] ?? "")
      #expect((answer?.header("set-cookie") != nil) == header && (answer?.json?["cookie"] != nil) == member)
      let text = answer?.header("set-cookie") ?? answer?.json?["cookie"]?.string
      #expect(text?.contains("Expires") == false)
    }
  }

  @Test(
    arguments: [
      (["zephr_required_attributes": "first_name"], "user-7", 400), (["zephr_register": "bad_request"], "user-7", 400),
      (["zephr_register": "exists"], "user-7", 409),
      (["zephr_register": "exists", "zephr_exists_status": 410], "user-7", 410),
      (["zephr_outcome": "partial"], "alice", 409),
      (["zephr_refused_domain": "demo.example"], "user-7", 403),
      (["zephr_register": "domain_refused", "zephr_domain_status": 422], "user-7", 422),
    ] as [(DemoServer.JSON, String, Int)])
  func aRefusedRegistrationMayBeMended(_ settings: DemoServer.JSON, _ user: String, _ status: Int) async throws {
    try await withServer { server, client in
      #expect(await client.set(settings))
      let key = await client.zephrCallback(user)["state_key"] ?? ""
      #expect(await client.zephrRegister(key)?.status == status)
      server.reset()
      #expect(await client.zephrRegister(key)?.status == (user == "alice" ? 409 : 200))
    }
  }

  @Test func aRefusedRegistrationMayBurnItsKey() async throws {
    try await withServer { server, client in
      #expect(await client.set(["zephr_register": "bad_request", "zephr_burns_state_key": true]))
      let key = await client.zephrCallback("user-7")["state_key"] ?? ""
      #expect(await client.zephrRegister(key)?.status == 400)
      server.reset()
      #expect(await client.zephrRegister(key)?.status == 400)
      #expect(await client.zephrRegister("unknown")?.status == 400)
      #expect(await client.send(.POST, "/blaize/register", json: ["identifiers": [:]])?.status == 400)
    }
  }
}

@Suite struct ZephrSessionTests {
  private func signIn(_ client: TestClient) async -> String {
    await client.zephrCallback("alice")["session_id"] ?? ""
  }

  @Test(
    arguments: [
      ("JUST_HERE", [false, true]), ("THIS_DEVICE", [false, true]), ("OTHER_DEVICES", [true, false]),
      ("EVERYWHERE", [false, false]), ("ELSEWHERE", [true, true]),
    ])
  func logoutReachesAsFarAsItSays(_ reach: String, _ lives: [Bool]) async throws {
    try await withServer { server, client in
      let here = await signIn(client)
      let other = await signIn(client)
      let cookie = ["Cookie": "blaize_session=\(here)"]
      let answer = await client.send(.POST, "/blaize/logout", json: ["where": .string(reach)], headers: cookie)
      #expect(answer?.status == (reach == "ELSEWHERE" ? 400 : 200))
      #expect(server.requests.last?.body.contains(reach) == true)
      for (session, isAlive) in zip([here, other], lives) {
        #expect(await client.zephrProfile(session)?.status == (isAlive ? 200 : 401))
      }
    }
  }

  @Test func aProfileIsThereWhileTheSessionLives() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { server, client in
      #expect(await client.set(["zephr_session_ttl": 60, "zephr_profile_cookie": true]))
      let session = await signIn(client)
      #expect(await client.zephrProfile(nil)?.status == 401)
      let profile = try #require(await client.zephrProfile(session))
      #expect(profile.json?["name"] == "Alice Example")
      #expect(profile.header("set-cookie")?.hasPrefix("blaize_session=\(session); Expires=") == true)
      clock.advance(61)
      #expect(await client.zephrProfile(session)?.status == 401)
      let next = await signIn(client)
      let ended = try server.revoke(user: "alice")
      #expect(ended == 2)
      #expect(await client.zephrProfile(next)?.status == 401)
    }
  }

  @Test func theCookieMayHaveAnotherName() async throws {
    try await withServer { _, client in
      #expect(await client.set(["zephr_cookie": "news_session"]))
      let answer = await client.zephrRegister(await client.zephrCallback("user-7")["state_key"] ?? "")
      let cookie = answer?.header("set-cookie")?.split(separator: ";").first.map(String.init) ?? ""
      #expect(cookie.hasPrefix("news_session="))
      #expect(await client.send(.GET, "/blaize/profile", headers: ["Cookie": cookie])?.status == 200)
      let other = cookie.replacingOccurrences(of: "news", with: "blaize")
      #expect(await client.send(.GET, "/blaize/profile", headers: ["Cookie": other])?.status == 401)
    }
  }

  @Test func theStartsCookieMayBeNeeded() async throws {
    try await withServer { _, client in
      #expect(await client.set(["zephr_needs_start_cookie": true]))
      let (page, cookie) = await client.zephrStart()
      let key = await client.send(.GET, page + "&login_hint=user-7")?.callback["state_key"] ?? ""
      #expect(await client.zephrRegister(key)?.status == 400)
      let answer = await client.zephrRegister(key, cookie: cookie)
      let session = answer?.header("set-cookie")?.split(separator: ";").first.map(String.init) ?? ""
      #expect(await client.send(.GET, "/blaize/profile", headers: ["Cookie": session])?.status == 401)
      let both = ["Cookie": "\(session); \(cookie)"]
      #expect(await client.send(.GET, "/blaize/profile", headers: both)?.status == 200)
    }
  }
}
