import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Zephr, row by row, at the socket: registration, and the end", .atMost)
struct ZephrSessionTests {
  /// A login of a new user, who has signed in at the identity provider.
  private static func registering(_ rig: Rig, _ user: String = "user-7") async throws -> Rig.Pending {
    let login = try await rig.begin("news", user)
    try await rig.hand(try await rig.signIn(login, as: user))
    return login
  }

  @Test("partial: a registration is required, with only the identifier; it survives kill -9")
  func partial() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.needsStartCookie = true }
      let login = try await Self.registering(rig)
      let waiting = try await rig.wait(login)
      #expect(waiting["state"] == "action_required")
      #expect(waiting["action"]?["kind"] == "registration")
      #expect(waiting["action"]?["identifier"] == "user-7@demo.example")
      #expect(!String(decoding: waiting.serialized(), as: UTF8.self).contains("state-key"))
      try await rig.restart()
      let done = try await rig.resume(login, "attributes", ["first-name": "Ann", "age": 30])
      #expect(done["state"] == "completed")
      #expect(done["account"]?["identity"]?["email"] == "user-7@demo.example")
      let body = try #require(rig.lastBody(.zephrRegister))
      #expect(body["identifiers"]?.text == "{}")
      #expect(body["validators"]?["token_exchange"]?.string?.hasPrefix("state-key+") == true)
      #expect(body["attributes"]?["first-name"]?.string == "Ann")
      #expect(rig.requests(.zephrRegister).last?.headers["cookie"]?.contains("blaize_tracking=") == true)
      #expect(!rig.log.contains("state-key+"))
      // Known from now on.
      try await rig.enter("news", "user-7")
    }
  }

  @Test(
    "register: the session is in Set-Cookie or in the body, and Expires is its end",
    arguments: [
      ("header", true), ("member", true), ("both", false),
    ])
  func cookiePlace(place: String, expires: Bool) async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings {
        $0.zephr.cookiePlace = .init(rawValue: place) ?? .both
        $0.zephr.cookieExpires = expires
        $0.zephr.sessionTTL = .seconds(5000)
      }
      let login = try await Self.registering(rig)
      #expect(try await rig.resume(login, "attributes", ["a": "b"])["state"] == "completed")
      let token = try await rig.call("token.get", ["account": "user-7"])
      #expect(token["session_id"]?.string?.isEmpty == false)
      guard expires else {
        #expect(token["expires_at"] == nil)
        return
      }
      let end = try await rig.account("user-7").expires_at ?? 0
      #expect(abs(Double(end) - Date().timeIntervalSince1970 - 5000) < 60)
    }
  }

  @Test(
    "register errors: user exists, e-mail domain refused, bad request; each can be corrected with the same state_key")
  func errors() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.requiredAttributes = "city" }
      let login = try await Self.registering(rig)
      func refused(_ attributes: JSON) async throws -> RPCError {
        try await rig.failure("login.continue", ["login_id": .string(login.id), "attributes": attributes])
      }
      let missing = try await refused(["name": "Ann"])
      #expect(missing.reason == .registrationRejected && missing.detail == "bad_request")
      #expect(missing.message.contains("The attribute city is missing."))
      rig.demo.changeSettings { $0.zephr.registering = .exists }
      #expect(try await refused(["city": "Bonn"]).detail == "user_exists")
      rig.demo.changeSettings { $0.zephr.registering = .domainRefused }
      #expect(try await refused(["city": "Bonn"]).detail == "email_domain_blocked")
      rig.demo.changeSettings { $0.zephr.registering = .natural }
      // Neither an outage nor a restart ends the session.
      try rig.demo.fault(.status, at: .zephrRegister, times: 1) { $0.status = 503 }
      #expect(try await refused(["city": "Bonn"]).reason == .temporarilyUnavailable)
      try await rig.restart()
      #expect(try await rig.wait(login, 0)["action"]?["kind"] == "registration")
      let wrong: JSON = ["login_id": .string(login.id), "session_id": "1"]
      #expect(try await rig.failure("login.continue", wrong).code == invalidParams)
      #expect(try await rig.resume(login, "attributes", ["city": "Bonn"])["state"] == "completed")
      let keys = Set(
        rig.requests(.zephrRegister).compactMap {
          DemoServer.JSON(text: $0.body)?["validators"]?["token_exchange"]?.string
        })
      #expect(keys.count == 1)
    }
  }

  @Test("register errors: the statuses are settings")
  func statuses() async throws {
    let lines = "default_identity_provider = \"google\"\nemail_domain_status = 451\nuser_exists_status = 412"
    try await Rig.withZephr(lines) { rig in
      rig.demo.changeSettings {
        $0.zephr.refusedDomain = "demo.example"
        $0.zephr.refusedDomainStatus = 451
      }
      let login = try await Self.registering(rig)
      let params: JSON = ["login_id": .string(login.id), "attributes": ["a": "b"]]
      #expect(try await rig.failure("login.continue", params).detail == "email_domain_blocked")
      try rig.demo.fault(.status, at: .zephrRegister, times: 1) { $0.status = 412 }
      #expect(try await rig.failure("login.continue", params).detail == "user_exists")
      // Not one of the three: the login ends.
      try rig.demo.fault(.status, at: .zephrRegister, times: 1) { $0.status = 401 }
      #expect(try await rig.failure("login.continue", params).reason == .loginDenied)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("session life: where it is over, by its cookie or by the server's word, a login is required")
  func life() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings {
        $0.zephr.sessionTTL = .seconds(6)
        $0.zephr.profileSetsCookie = true
      }
      try await rig.enter("news")
      try await rig.wait(toBe: .loginRequired)
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .loginRequired)
      rig.demo.changeSettings { $0.zephr.sessionTTL = .seconds(600) }
      try await rig.enter("news")
      let generation = try await rig.account().generation
      // The server says that the session lives: its reporter gets it again, even after a restart.
      let report = try await rig.call(
        "token.report_rejected", ["account": "alice", "generation": .integer(generation)])
      #expect(report["confirmed"]?.bool == true)
      try await rig.restart()
      #expect(try await rig.account().state == .ok)
      _ = try await rig.call("token.get", ["account": "alice"])
    }
  }

  @Test("profile: the health probe; 401 means that the session is dead, and a login is required")
  func profile() async throws {
    try await Rig.withZephr { rig in
      try await rig.enter("news")
      rig.demo.changeSettings { $0.zephr.needsStartCookie = true }
      let claims = try await rig.call("account.userinfo", ["account": "alice"])["claims"]
      #expect(claims?["email_address"] == "alice@demo.example")
      let answer = try await rig.call(
        "request.send", ["account": "alice", "method": "GET", "url": "/blaize/profile"])
      #expect(answer["status"] == 200)
      #expect(answer["headers"]?["set-cookie"] == nil)
      try rig.demo.revoke(user: "alice")
      #expect(try await rig.failure("account.userinfo", ["account": "alice"]).reason == .loginRequired)
      #expect(try await rig.account().state == .loginRequired)
    }
  }

  @Test(
    "logout: with its extent, and the account is removed regardless of the answer",
    arguments: [
      nil, "JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE",
    ] as [String?])
  func logout(reach: String?) async throws {
    try await Rig.withZephr { rig in
      try await rig.enter("news", "bob")
      try await rig.enter("news")
      let more = reach.map { [JSON.Member(name: "where", value: .string($0))] } ?? []
      #expect(try await rig.logoutSteps("alice", more) == ["revoke_session done", "forget done"])
      #expect(rig.lastBody(.zephrLogout)?["where"]?.string == reach ?? "JUST_HERE")
      #expect(rig.requests(.zephrLogout).last?.headers["cookie"]?.contains("blaize_session=") == true)
      let unknown: JSON = ["account": "bob", "where": "NOWHERE"]
      #expect(try await rig.failure("account.logout", unknown).code == invalidParams)
      #expect(rig.count(.zephrLogout) == 1)
      #expect(try await rig.call("account.userinfo", ["account": "bob"])["claims"] != nil)
      try rig.demo.fault(.status, at: .zephrLogout, times: 1) { $0.status = 500 }
      #expect(try await rig.logoutSteps("bob") == ["revoke_session queued", "forget done"])
      #expect(try await rig.failure("account.get", ["account": "bob"]).reason == .unknownAccount)
      // The logout is sent later with the same extent, even after a restart; until then it is sealed on disk.
      let cookies = try #require(rig.requests(.zephrLogout).last?.headers["cookie"])
      let secrets = cookies.split(separator: ";").compactMap { $0.split(separator: "=").last.map(String.init) }
      #expect(secrets.count == 2)
      try rig.kill9()
      for file in try FileManager.default.contentsOfDirectory(atPath: rig.state) {
        let bytes = try Data(contentsOf: URL(fileURLWithPath: "\(rig.state)/\(file)"))
        #expect(secrets.allSatisfy { bytes.range(of: Data($0.utf8)) == nil }, "\(file)")
      }
      try await rig.start()
      try await eventually("the logout is sent again") { rig.count(.zephrLogout) == 3 }
      #expect(rig.requests(.zephrLogout).last?.headers["cookie"] == cookies)
    }
  }

  @Test("each statement of provider.check is true")
  func check() async throws {
    try await Rig.with(sections: { rig in
      rig.system("news", "zephr", "zephr-demo://auth", "default_identity_provider = \"google\"")
        + rig.system("wrong", "zephr", "wrong://auth", "path_prefix = \"/zephr\"")
    }) { rig in
      try await rig.enter("news")
      func checks(_ provider: String) async throws -> [JSON] {
        try await rig.call("provider.check", ["provider": .string(provider)])["checks"]?.array ?? []
      }
      let bad = try await checks("news").filter { $0["result"] == "failed" || $0["result"] == "warning" }
      #expect(bad.isEmpty, "\(bad.map { String(decoding: $0.serialized(), as: UTF8.self) })")
      let wrong = try await checks("wrong").first { $0["name"] == "endpoints" }
      #expect(wrong?["result"] == "failed")
      #expect(wrong?["hint"]?.string?.contains("path_prefix") == true)
      let shown = try await rig.call("provider.get", ["provider": "news"])
      #expect(shown["endpoints"]?["userinfo"]?.string == "\(rig.demo.issuer)/blaize/profile")
    }
  }
}
