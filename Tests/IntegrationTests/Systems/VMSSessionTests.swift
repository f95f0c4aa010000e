import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("VMS, row by row, at the socket: sessions, and the end", .atMost)
struct VMSSessionTests {
  private static func ids(_ answer: JSON) -> [String] {
    (answer["action"]?["sessions"]?.array ?? []).compactMap { $0["session_id"]?.string }
  }

  @Test("session limit, twice in a row, with kill -9 before each choice: key before code, and no automatic choice")
  func limitTwice() async throws {
    try await Rig.withVMS { rig in
      rig.demo.changeSettings { $0.vms.sessionLimit = 1 }
      let added = [
        try rig.demo.addVMSSession(client: "old", isOnline: false, age: .seconds(3600)), try rig.demo.addVMSSession(),
      ]
      let login = try await rig.begin("cameras")
      try await rig.hand(try await rig.signIn(login))
      let first = try await rig.wait(login)
      #expect(first["state"] == "action_required")
      let action = try #require(first["action"])
      #expect(action["kind"] == "session_limit")
      #expect(action["sessions_limit"] == 1)
      #expect(Self.ids(first) == added)
      let old = action["sessions"]?.array?.first
      #expect(old?["client"] == "old" && old?["online"] == false && old?["ip"] == "127.0.0.1")
      #expect(old?["last"]?.string?.isEmpty == false)
      // Neither the key nor the code is shown.
      let told = String(decoding: first.serialized(), as: UTF8.self)
      #expect(!told.contains("vmskey") && !told.contains("vmscode"))

      try await rig.restart()
      #expect(try await rig.wait(login, 0)["state"] == "action_required")
      #expect(try await rig.call("login.list")["logins"]?.array?.first?["state"] == "action_required")
      let second = try await rig.resume(login, "session_id", .string(added[0]))
      #expect(second["state"] == "action_required")
      #expect(Self.ids(second) == [added[1]])
      let sent = try #require(rig.lastBody(.vmsLogin))
      #expect(sent["key"]?.string?.hasPrefix("vmskey-") == true && sent["code"] == nil)

      try await rig.restart()
      let third = try await rig.resume(login, "session_id", .string(added[1]))
      #expect(third["state"] == "completed")
      #expect(third["account"]?["account"] == "alice")
      // The code went once, and each key once.
      #expect(rig.requests(.vmsLogin).filter { $0.body.contains("\"code\"") }.count == 1)
      #expect(rig.count(.vmsLogin) == 3)
      try await rig.restart()
      #expect(try await rig.token().access_token.isEmpty == false)
    }
  }

  @Test("session limit: a list without a key; the code is sent again with the session, even after a restart")
  func bareList() async throws {
    try await Rig.withVMS { rig in
      rig.demo.changeSettings {
        $0.vms.sessionLimit = 1
        $0.vms.limitShape = .array
      }
      let id = try rig.demo.addVMSSession()
      let login = try await rig.begin("cameras")
      try await rig.hand(try await rig.signIn(login))
      let action = try await rig.wait(login)
      #expect(Self.ids(action) == [id])
      #expect(action["action"]?["sessions_limit"] == nil)
      try await rig.restart()
      #expect(try await rig.resume(login, "session_id", .string(id))["state"] == "completed")
      let bodies = rig.requests(.vmsLogin).compactMap { DemoServer.JSON(text: $0.body) }
      #expect(bodies.count == 2 && bodies[0]["code"] == bodies[1]["code"] && bodies[1]["key"] == nil)
    }
  }

  @Test("replace: an invalid choice is refused before a request; a server's refusal can be corrected")
  func choices() async throws {
    try await Rig.withVMS { rig in
      let waiting = try await rig.begin("cameras")
      let early = try await rig.failure("login.continue", ["login_id": .string(waiting.id), "session_id": "1"])
      #expect(early.code == invalidParams)
      rig.demo.changeSettings { $0.vms.sessionLimit = 1 }
      let id = try rig.demo.addVMSSession()
      try await rig.hand(try await rig.signIn(waiting))
      #expect(rig.count(.vmsLogin) == 1)
      let wrong: [JSON] = [
        [:], ["session_id": "none"], ["attributes": ["a": 1]], ["session_id": .string(id), "attributes": ["a": 1]],
      ]
      for params in wrong {
        guard case .object(let members) = params else { continue }
        let all = JSON.object([.init(name: "login_id", value: .string(waiting.id))] + members)
        #expect(try await rig.failure("login.continue", all).code == invalidParams)
      }
      #expect(rig.count(.vmsLogin) == 1)
      for (status, reason) in [(422, ErrorReason.registrationRejected), (503, .temporarilyUnavailable)] {
        try rig.demo.fault(.status, at: .vmsLogin, times: 1) {
          $0.status = status
          $0.body = #"{"message":"no","errors":{"session_id":["is gone"]}}"#
          $0.contentType = "application/json"
        }
        let error = try await rig.failure(
          "login.continue", ["login_id": .string(waiting.id), "session_id": .string(id)])
        #expect(error.reason == reason)
        #expect(status != 422 || error.fields == ["session_id": ["is gone"]])
        #expect(try await rig.wait(waiting, 0)["state"] == "action_required")
      }
      #expect(try await rig.resume(waiting, "session_id", .string(id))["state"] == "completed")
    }
  }

  @Test("session limit: replaced automatically only with replace_session", arguments: ["oldest", "offline"])
  func automatic(setting: String) async throws {
    try await Rig.withVMS("replace_session = \"\(setting)\"") { rig in
      rig.demo.changeSettings { $0.vms.sessionLimit = 2 }
      let online = try rig.demo.addVMSSession(isOnline: true)
      let new = try rig.demo.addVMSSession(isOnline: false, age: .seconds(60))
      let old = try rig.demo.addVMSSession(isOnline: false, age: .seconds(7200))
      try await rig.enter("cameras")
      let sent = rig.requests(.vmsLogin).compactMap { DemoServer.JSON(text: $0.body)?["session_id"]?.text }
      #expect(sent == [old, new])
      // No session is offline, and the oldest one is unknown: the user is asked.
      rig.demo.changeSettings { $0.vms.sessionLimit = 1 }
      let login = try await rig.begin("cameras")
      try await rig.hand(try await rig.signIn(login))
      #expect(Self.ids(try await rig.wait(login)).contains(online))
    }
  }

  @Test(
    "refresh, expiry: none exist; after a report the server is asked, and its refusal requires a login"
  )
  func reported() async throws {
    try await Rig.withVMS { rig in
      try await rig.enter("cameras")
      let token = try await rig.token()
      let requests = rig.demo.requests.count
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure(
        "token.report_rejected", ["account": "alice", "generation": .integer(token.generation)])
      #expect(error.reason == .loginRequired)
      #expect(error.detail == "no_refresh_token")
      #expect(rig.demo.requests.count == requests + 1)
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .loginRequired)
      try await rig.restart()
      #expect(try await rig.account().state == .loginRequired)
      try await rig.enter("cameras")
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("sessions: listed and deleted, in either form; an ended token requires a login")
  func sessions() async throws {
    try await Rig.withVMS { rig in
      try await rig.enter("cameras")
      let other = try rig.demo.addVMSSession(client: "phone")
      for shape in [DemoServer.Settings.VMS.Sessions.array, .object] {
        rig.demo.changeSettings { $0.vms.listShape = shape }
        let sessions = try await rig.call("account.sessions", ["account": "alice"])["sessions"]?.array ?? []
        #expect(sessions.map { $0["client"]?.string } == ["grantd", "phone"])
        #expect(sessions.map { $0["current"] } == [true, false])
      }
      let end: JSON = ["account": "alice", "session_id": .string(other)]
      rig.demo.changeSettings { $0.vms.doneStatus = 204 }
      #expect(try await rig.call("account.end_session", end)["ended"] == true)
      #expect(try await rig.call("account.end_session", end)["ended"] == false)
      #expect(rig.requests(.vmsSession).last?.path == "/api/v1/sessions/\(other)")
      try rig.demo.revoke(user: "alice")
      #expect(try await rig.failure("account.sessions", ["account": "alice"]).reason == .loginRequired)
      #expect(try await rig.account().state == .loginRequired)
    }
  }

  @Test("headers: an authorised call has them all, relative to the server's own paths; 401 means a login")
  func request() async throws {
    try await Rig.withVMS { rig in
      try await rig.enter("cameras")
      let answer = try await rig.call("request.send", ["account": "alice", "method": "GET", "url": "/users/self"])
      #expect(answer["status"] == 200)
      #expect(answer["body"]?.string?.contains("alice") == true)
      let elsewhere: JSON = ["account": "alice", "method": "GET", "url": "https://evil.example/"]
      #expect(try await rig.failure("request.send", elsewhere).code == invalidParams)
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure("request.send", ["account": "alice", "method": "GET", "url": "/users/self"])
      #expect(error.reason == .loginRequired)
    }
  }

  @Test("logout: the server gets the device's uuid, and the account is removed regardless of the answer")
  func logout() async throws {
    try await Rig.withVMS { rig in
      try await rig.enter("cameras")
      let device = try #require(try await rig.call("token.get", ["account": "alice"])["extra"]?["device_uuid"]?.string)
      #expect(try await rig.logoutSteps() == ["revoke_access_token done", "forget done"])
      let sent = try #require(rig.requests(.vmsLogout).last)
      #expect(rig.lastBody(.vmsLogout)?["uuid"]?.string == device)
      #expect(sent.headers["x-uuid"] == device && sent.headers["authorization"]?.hasPrefix("Bearer vmstoken-") == true)
      let answers: [(status: Int, result: String)] = [
        (204, "done"), (401, "done"), (403, "refused"), (404, "unsupported"), (422, "refused"), (500, "queued"),
      ]
      for answer in answers {
        try await rig.enter("cameras")
        try rig.demo.fault(.status, at: .vmsLogout, times: 1) { $0.status = answer.status }
        #expect(
          try await rig.logoutSteps() == ["revoke_access_token \(answer.result)", "forget done"], "\(answer.status)")
        #expect(try await rig.failure("account.get", ["account": "alice"]).reason == .unknownAccount)
      }
      // What could not be said is said later, with all that it needs.
      try await eventually("the logout is sent again") { rig.count(.vmsLogout) == 2 + answers.count }
      #expect(rig.lastBody(.vmsLogout)?["uuid"]?.string?.isEmpty == false)
    }
  }

  @Test("login: another user does not take over the account, and is signed out again")
  func somebodyElse() async throws {
    try await Rig.withVMS { rig in
      try await rig.enter("cameras")
      let login = try await rig.begin("cameras")
      let address = try await rig.signIn(login, as: "bob")
      let error = try await rig.failure("login.handle_callback", ["url": .string(address)])
      #expect(error.reason == .loginDenied)
      try await eventually("the other user's session is ended") { rig.count(.vmsLogout) == 1 }
      #expect(rig.lastBody(.vmsLogout)?["uuid"]?.string?.isEmpty == false)
      #expect(
        try await rig.call("request.send", ["account": "alice", "method": "GET", "url": "/users/self"])["status"] == 200
      )
    }
  }

  @Test("each statement of provider.check is true")
  func check() async throws {
    try await Rig.withVMS { rig in
      try await rig.enter("cameras")
      let checks = try await rig.call("provider.check", ["provider": "cameras"])["checks"]?.array ?? []
      let bad = checks.filter { $0["result"] == "failed" || $0["result"] == "warning" }
      #expect(bad.isEmpty, "\(bad.map { String(decoding: $0.serialized(), as: UTF8.self) })")
      #expect(checks.first { $0["name"] == "endpoints" }?["message"] == "version 24.4.0, external login is on")
      let shown = try await rig.call("provider.get", ["provider": "cameras"])
      #expect(shown["provider"]?["kind"] == "vms")
      #expect(shown["supports"]?["refresh"] == false)
    }
  }
}
