import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Dropbox, by its template")
struct DropboxTests {
  static let implicit =
    "response_type = \"token\"\nallow_implicit = true\nauthorization_parameters = { token_access_type = \"\" }"

  @Test("fall-back chain: the applications, the browser, and the URL by hand; the used one is stored")
  func chain() async throws {
    try await Rig.withDropbox { rig in
      let login = try await rig.start("dropbox")
      #expect(login.kinds == ["native dropbox", "native dropbox-emm", "browser", "manual"])
      try await rig.opened(login.login_id, "native", app: "dropbox")
      try await rig.opened(login.login_id, "browser")
      try await rig.hand(try await rig.address(try login.url("browser"), as: "alice"))
      let result = try await rig.ended(login.login_id)
      #expect(result.destination_used == .init(kind: "browser") && result.fell_back == true)
    }
  }

  @Test(
    "app code callback: newer and older applications, under both schemes; the account is who signed in",
    arguments: [DemoServer.AppAnswer.allow, .allowOld], ["dropbox", "dropbox-emm"])
  func app(answer: DemoServer.AppAnswer, app: String) async throws {
    try await Rig.withDropbox { rig in
      let login = try await rig.start("dropbox")
      let address = try rig.demo.openDropboxApp(try login.url("native", app: app), answer: answer, user: "bob")
      try await rig.hand(address)
      let account = try #require(try await rig.ended(login.login_id).account)
      #expect(account.identity?.subject == "dbid:AAH-bob")
      #expect(rig.requests(.tokenCode).last?.parameters["code_verifier"] != nil)
      let call = try await rig.send("/users/get_current_account")
      #expect(call.body?["account_id"]?.string == "dbid:AAH-bob")
    }
  }

  @Test("app token callback: only if permitted, by the nonce")
  func appToken() async throws {
    try await Rig.withDropbox(Self.implicit) { rig in
      let login = try await rig.start("dropbox")
      let address = try rig.demo.openDropboxApp(try login.url("native", app: "dropbox"))
      let forged = address.replacing("state=oauth2", with: "state=oauth3")
      #expect(forged != address)
      #expect(try await rig.refusedCallback(forged).reason == .invalidCallback)
      try await rig.hand(address)
      #expect(try await rig.ended(login.login_id).state == .completed)
      #expect(try await rig.token().extra?["uid"]?.string?.hasPrefix("1000") == true)
      #expect(try await rig.send("/users/get_current_account").status == 200)
    }
  }

  @Test("app cancel: it ends the login that was opened there, none that was not, and none where that may be several")
  func cancel() async throws {
    try await Rig.withDropbox { rig in
      let first = try await rig.start("dropbox")
      let cancelled = try rig.demo.openDropboxApp(try first.url("native", app: "dropbox"), answer: .cancel)
      #expect(try await rig.refusedCallback(cancelled).reason == .invalidCallback)
      let second = try await rig.start("dropbox", "bob")
      try await rig.opened(first.login_id, "native", app: "dropbox")
      try await rig.opened(second.login_id, "native", app: "dropbox-emm")
      #expect(try await rig.refusedCallback(cancelled).reason == .invalidCallback)
      #expect(try await rig.pendingLogins == 2)
      try await rig.opened(second.login_id, "browser")
      #expect(try await rig.refusedCallback(cancelled).reason == .loginCancelled)
      #expect(try await rig.failedLogin(first.login_id).reason == .loginCancelled)
      #expect(try await rig.pendingLogins == 1)
    }
  }

  @Test("web code callback and matching: only the exact URL, and a denial ends the login")
  func web() async throws {
    try await Rig.withDropbox { rig in
      let login = try await rig.start("dropbox")
      let asked = Callback(url: try login.url("browser"))
      #expect(asked.value("disable_signup") == "true" && asked.value("token_access_type") == "offline")
      let address = try await rig.address(asked.url, as: "alice")
      #expect(address.hasPrefix("db-demo://2/token?"))
      let longer = address.replacing("/token?", with: "/tokenX?")
      #expect(try await rig.refusedCallback(longer).reason == .invalidCallback)
      try await rig.hand(address)
      #expect(try await rig.ended(login.login_id).account?.identity?.subject == "dbid:AAH-alice")

      let other = try await rig.start("dropbox", "bob")
      let denied = try await rig.refusedCallback(try await rig.address(try other.url("browser"), as: "deny"))
      #expect(denied.reason == .loginDenied && denied.oauth?.error == "access_denied")
      #expect(denied.oauth?.error_description?.contains("+") == false)
    }
  }

  @Test("web token callback and denied, in the fragment: only with allow_implicit")
  func webToken() async throws {
    try await Rig.withDropbox(Self.implicit) { rig in
      let login = try await rig.start("dropbox")
      let address = try await rig.address(try login.url("browser"), as: "alice")
      #expect(address.hasPrefix("db-demo://2/token#access_token="))
      try await rig.hand(address)
      #expect(try await rig.ended(login.login_id).account?.identity?.subject == "dbid:AAH-alice")
      let other = try await rig.start("dropbox", "bob")
      let denied = try await rig.refusedCallback(try await rig.address(try other.url("browser"), as: "deny"))
      #expect(denied.reason == .loginDenied)
      #expect(denied.oauth?.error_description?.hasPrefix("The user chose not") == true)
    }
  }

  @Test("exchange, refresh: the refresh returns no refresh token, and the old one is kept")
  func refresh() async throws {
    try await Rig.withDropbox { rig in
      try await rig.enterByBrowser("dropbox")
      for _ in 0..<2 { try await rig.reject(try await rig.token().generation) }
      let sent = rig.requests(.tokenRefresh).compactMap { $0.parameters["refresh_token"] }
      #expect(sent.count == 2 && Set(sent).count == 1)
      #expect(try await rig.token().extra?["account_id"] == "dbid:AAH-alice")
    }
  }

  @Test("exchange, refresh: another account in the answer does not replace the first")
  func another() async throws {
    try await Rig.withDropbox { rig in
      try await rig.enterByBrowser("dropbox")
      let login = try await rig.start("dropbox")
      let address = try await rig.address(try login.url("browser"), as: "bob")
      #expect(try await rig.refusedCallback(address).reason == .loginDenied)
      #expect(try await rig.send("/users/get_current_account").body?["account_id"]?.string == "dbid:AAH-alice")
    }
  }

  @Test("revoke: the access token in the header ends the whole grant")
  func revoke() async throws {
    try await Rig.withDropbox { rig in
      try await rig.enterByBrowser("dropbox")
      _ = try await rig.logout()
      let sent = try #require(rig.requests(.revoke).last)
      #expect(sent.headers["authorization"]?.hasPrefix("Bearer ") == true && sent.body.isEmpty)
      #expect(rig.demo.stats().liveGrants == 0)
    }
  }

  @Test(
    "API errors: an ended token is refreshed; a missing scope, a suspended person and too many calls are told apart")
  func errors() async throws {
    try await Rig.withDropbox { rig in
      try await rig.enterByBrowser("dropbox") { $0.scopes = ["account_info.read"] }
      for tag in ["expired_access_token", "invalid_access_token"] {
        try rig.demo.fault(.dropboxError, at: .resource, times: 1) { $0.value = tag }
        #expect(try await rig.send("/users/get_current_account").status == 200)
      }
      #expect(rig.count(.tokenRefresh) == 2)
      let scope = ["account": "alice", "method": "POST", "url": "/files/list_folder"] as JSON
      let missing = try await rig.failure("request.send", scope)
      #expect(missing.reason == .loginRequired && missing.message.contains("missing_scope"))
      try rig.demo.fault(.dropboxError, at: .resource, times: 1) { $0.value = "user_suspended" }
      let blocked = try await rig.failure("request.send", scope)
      #expect(blocked.reason == .providerError && blocked.message.contains("user_suspended"))
      try rig.demo.fault(.dropboxError, at: .resource, times: 1) {
        $0.value = "too_many_requests"
        $0.seconds = 7
      }
      let limited = try await rig.send("/users/get_current_account")
      #expect(limited.status == 429 && limited.body?["error"]?["retry_after"]?.int == 7)
      #expect(rig.count(.tokenRefresh) == 2)
    }
  }

  @Test("waiters: while a refresh runs each gets its own right answer")
  func waiters() async throws {
    try await Rig.withDropbox { rig in
      for name in ["alice", "bob"] { try await rig.enterByBrowser("dropbox", name) }
      try rig.demo.fault(.delay, at: .tokenRefresh) { $0.seconds = 0.5 }
      rig.demo.changeSettings { $0.resource.userinfoSigned = false }
      let before = [try await rig.token("alice"), try await rig.token("bob")]
      async let refused: Void = refuse(before, rig)
      // The refreshes are under way, and all of these wait for them.
      try await eventually("both refresh") { rig.count(.tokenRefresh) == 2 }
      try await withThrowingTaskGroup(of: (String, Token).self) { group in
        for index in 0..<20 {
          let name = index.isMultiple(of: 2) ? "alice" : "bob"
          group.addTask { (name, try await rig.token(name)) }
        }
        for try await (name, token) in group {
          #expect(token.account == name && token.extra?["account_id"] == .string("dbid:AAH-\(name)"))
        }
      }
      try await refused
      for name in ["alice", "bob"] {
        let call = try await rig.send("/users/get_current_account", name)
        #expect(call.body?["account_id"]?.string == "dbid:AAH-\(name)")
      }
      #expect(rig.count(.tokenRefresh) == 2)
    }
  }

  private func refuse(_ tokens: [Token], _ rig: Rig) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for token in tokens { group.addTask { try await rig.reject(token.generation, of: token.account) } }
      try await group.waitForAll()
    }
  }
}
