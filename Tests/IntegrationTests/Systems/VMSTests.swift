import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("VMS, row by row, at the socket: sign-in", .atMost)
struct VMSTests {
  @Test("is it available, external URL, callback, login: an account with the user as its identity, and all headers")
  func login() async throws {
    try await Rig.withVMS { rig in
      let login = try await rig.begin("cameras")
      #expect(login.redirectURI == "vms-demo://external-auth")
      let answer = try await rig.hand(try await rig.signIn(login))
      #expect(answer["handled"] == true)
      #expect(answer["login_id"]?.string == login.id)
      let account = try #require(try await rig.outcome(of: login).account)
      #expect(account.identity?.subject == "1" && account.identity?.email == "alice@demo.example")
      #expect(account.identity?.username == "alice")
      #expect(account.state == .ok && account.expires_at == nil && account.scopes.isEmpty)
      let token = try await rig.call("token.get", ["account": "alice"])
      #expect(token["token_type"] == "Bearer")
      #expect(token["expires_at"] == nil)
      #expect(token["extra"]?["user"]?["phone"]?.string?.isEmpty == false)
      let device = try #require(token["extra"]?["device_uuid"]?.string)
      let expected = ["x-uuid": device, "x-client": "grantd", "x-version": GrantdVersion.current, "hl": "en"]
      for place in [DemoServer.Fault.Place.vmsBasic, .vmsURL, .vmsLogin] {
        let headers = try #require(rig.requests(place).last).headers
        #expect(headers["accept"] == "application/json" && headers["content-type"] == "application/json")
        #expect(headers.filter { expected[$0.key] != nil } == expected)
        #expect(headers["authorization"] == nil)
      }
      // Neither redirect URI, nor state, nor PKCE.
      #expect(rig.requests(.vmsURL).last?.parameters.isEmpty == true)
      #expect(rig.log.contains(token["access_token"]?.string ?? "none") == false)
    }
  }

  @Test("is it available: where it is not, the error says that external login is disabled, and nothing waits")
  func externalLoginIsOff() async throws {
    try await Rig.withVMS { rig in
      rig.demo.changeSettings { $0.vms.isEnabled = false }
      let error = try await rig.failure("login.start", ["provider": "cameras"])
      #expect(error.reason == .unsupportedByProvider)
      #expect(error.message.contains("external login is disabled on this server"))
      #expect(rig.count(.vmsURL) == 0)
      #expect(try await rig.pendingLogins == 0)
      let checks = try await rig.call("provider.check", ["provider": "cameras"])["checks"]?.array ?? []
      let endpoints = checks.first { $0["name"] == "endpoints" }
      #expect(endpoints?["result"] == "failed")
      #expect(endpoints?["message"] == "external login is disabled on this server")
    }
  }

  @Test("callback: no state; a URL that is not the answer leaves the pending login waiting")
  func callback() async throws {
    try await Rig.withVMS { rig in
      let login = try await rig.begin("cameras")
      let address = try await rig.signIn(login)
      for foreign in [
        "other://external-auth?code=x", "vms-demo2://external-auth?code=x", "vms-demo://external-auth?code=x&state=y",
      ] {
        #expect(try await rig.hand(foreign)["handled"] == false, "\(foreign)")
      }
      for forged in ["", "?code=", "?error=access_denied", "?code=a&code=b"] {
        let error = try await rig.failure(
          "login.handle_callback", ["url": .string("vms-demo://external-auth\(forged)")])
        #expect(error.reason == .invalidCallback, "\(forged)")
      }
      #expect(rig.count(.vmsLogin) == 0)
      #expect(try await rig.wait(login, 0)["state"] == "pending")
      // The scheme alone counts: path and slashes vary.
      try await rig.hand(address.replacing("vms-demo://external-auth", with: "vms-demo:/another/path"))
      #expect(try await rig.wait(login)["state"] == "completed")
      // Its page again.
      let again = address.replacing("vms-demo://external-auth", with: "vms-demo:/another/path")
      #expect(try await rig.hand(again)["handled"] == true)
      #expect(rig.count(.vmsLogin) == 1)
    }
  }

  @Test("callback: a second concurrent login is refused as in progress, until the first one ends")
  func oneAtATime() async throws {
    try await Rig.with(sections: {
      $0.system("cameras", "vms", "vms-demo://external-auth") + $0.system("others", "vms", "vms-demo://external-auth")
    }) { rig in
      let login = try await rig.begin("cameras")
      // Logins of the same provider, and of another one at the same URL.
      for provider in ["cameras", "others"] {
        let error = try await rig.failure("login.start", ["provider": .string(provider), "account": "bob"])
        #expect(error.reason == .loginInProgress)
        #expect(error.detail == login.id)
      }
      try await rig.restart()
      #expect(try await rig.failure("login.start", ["provider": "cameras"]).reason == .loginInProgress)
      #expect(try await rig.call("login.cancel", ["login_id": .string(login.id)])["cancelled"] == true)
      try await rig.enter("others", "bob")
      try await rig.enter("cameras")
    }
  }

  @Test("scheme redirect or loopback: the broker's own endpoint takes the callback as well")
  func loopback() async throws {
    try await Rig.withVMS(redirect: "http://127.0.0.1/cameras") { rig in
      let login = try await rig.begin("cameras")
      rig.demo.changeSettings {
        $0.vms.redirect = login.redirectURI
        $0.vms.sessionLimit = 1
      }
      try rig.demo.addVMSSession()
      let address = try await rig.signIn(login)
      // Each time the page is shown, it sends the user back to the program.
      for _ in 0..<2 { #expect(try await Browser.open(address).status == 200) }
      #expect(rig.count(.vmsLogin) == 1)
      let action = try await rig.wait(login)
      #expect(action["state"] == "action_required")
      let id = try #require(action["action"]?["sessions"]?.array?.first?["session_id"]?.string)
      #expect(try await rig.resume(login, "session_id", .string(id))["state"] == "completed")
      #expect(try await Browser.open(address).status == 200)
    }
  }

  struct Refusal: Sendable {
    var status: Int
    var body = "{}"
    var reason: ErrorReason
    var says = ""
    var fields: [String: [String]]?
  }

  static let refusals = [
    Refusal(status: 401, body: #"{"message":"who?"}"#, reason: .loginDenied, says: "who? (HTTP 401)"),
    Refusal(status: 403, reason: .loginDenied, says: "HTTP 403"),
    Refusal(status: 404, reason: .providerError, says: "HTTP 404"),
    Refusal(status: 409, reason: .providerMisconfigured, says: "client_version"),
    Refusal(
      status: 422, body: #"{"message":"bad","errors":{"code":["is spent"]}}"#, reason: .registrationRejected,
      says: "bad",
      fields: ["code": ["is spent"]]),
    Refusal(
      status: 400, body: #"{"message":"bad","errors":{"code":"is spent"}}"#, reason: .registrationRejected, says: "bad",
      fields: ["code": ["is spent"]]),
    Refusal(status: 422, body: #"{"errors":"all of it"}"#, reason: .registrationRejected, says: "all of it"),
    Refusal(status: 429, reason: .temporarilyUnavailable, says: "HTTP 429"),
    Refusal(status: 503, body: "", reason: .temporarilyUnavailable, says: "HTTP 503"),
    Refusal(status: 500, body: "<html>", reason: .temporarilyUnavailable, says: "HTTP 500"),
  ]

  @Test("errors: each status has its reason, and the login ends")
  func errors() async throws {
    try await Rig.withVMS { rig in
      for refusal in Self.refusals {
        try rig.demo.fault(.status, at: .vmsLogin, times: 1) {
          $0.status = refusal.status
          $0.body = refusal.body
          $0.contentType = "application/json"
        }
        let login = try await rig.begin("cameras")
        let address = try await rig.signIn(login)
        let error = try await rig.failure("login.handle_callback", ["url": .string(address)])
        #expect(error.reason == refusal.reason, "\(refusal.status)")
        #expect(error.message.contains(refusal.says), "\(error.message)")
        #expect(error.fields == refusal.fields)
        #expect(error.hint?.isEmpty == false)
        #expect(try await rig.failure("login.wait", ["login_id": .string(login.id)]).reason == refusal.reason)
      }
      #expect(rig.count(.vmsLogin) == Self.refusals.count)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("errors: every call ends, even if the server sends nothing or half an answer")
  func silence() async throws {
    try await Rig.withVMS { rig in
      for kind in [DemoServer.Fault.Kind.dropBeforeCommit, .dropAfterCommit, .truncated, .html200] {
        try rig.demo.fault(kind, at: .vmsLogin, times: 1)
        let address = try await rig.signIn(try await rig.begin("cameras"))
        let error = try await rig.failure("login.handle_callback", ["url": .string(address)])
        #expect(error.reason == .temporarilyUnavailable, "\(kind)")
      }
      for place in [DemoServer.Fault.Place.vmsBasic, .vmsURL] {
        try rig.demo.fault(.dropBeforeCommit, at: place, times: 1)
        #expect(
          try await rig.failure("login.start", ["provider": "cameras"]).reason == .temporarilyUnavailable, "\(place)")
      }
      try await rig.enter("cameras")
      try rig.demo.fault(.delay, at: .vmsSessions, times: 1) { $0.seconds = 5 }
      let error = try await rig.failure("account.sessions", ["account": "alice", "timeout": .number("0.3")])
      #expect(error.reason == .timedOut)
    }
  }

  @Test("errors: a client that is too old says what to set, and works once it is set")
  func tooOld() async throws {
    try await Rig.withVMS("client_version = \"1.0\"") { rig in
      rig.demo.changeSettings { $0.vms.oldestClient = "2.0" }
      let error = try await rig.failure("login.start", ["provider": "cameras"])
      #expect(error.reason == .providerMisconfigured)
      #expect(error.message.contains("client_version"))
      try rig.configure(rig.system("cameras", "vms", "vms-demo://external-auth", "client_version = \"2.0\""))
      try await rig.call("broker.reload")
      try await rig.enter("cameras")
    }
  }

  @Test("headers: X-UUID is the account's for good, over a new login and a restart, and another account has another")
  func device() async throws {
    try await Rig.withVMS { rig in
      func device() -> String? { rig.requests(.vmsLogin).last?.headers["x-uuid"] }
      try await rig.enter("cameras")
      let first = try #require(device())
      try await rig.restart()
      try await rig.enter("cameras")
      #expect(device() == first)
      try await rig.enter("cameras", "bob")
      #expect(device() != first)
    }
  }

  @Test("login: parameters unknown to the server are omitted and listed, and missing features are refused by name")
  func lacks() async throws {
    try await Rig.withVMS { rig in
      let started = try await rig.call("login.start", ["provider": "cameras", "scopes": ["a"], "prompt": "login"])
      #expect(started["warnings"]?.array?.first?.string?.contains("scopes, prompt") == true)
      try await rig.call("login.cancel", ["login_id": started["login_id"] ?? .null])
      #expect(
        try await rig.failure("login.start", ["provider": "cameras", "destinations": ["device"]]).reason
          == .unsupportedByProvider)
      #expect(try await rig.failure("login.start", ["provider": "cameras", "idp": "google"]).code == invalidParams)
      try await rig.enter("cameras")
      for method in ["token.introspect", "token.exchange"] {
        #expect(try await rig.failure(method, ["account": "alice"]).reason == .unsupportedByProvider, "\(method)")
      }
      let error = try await rig.failure(
        "account.import", ["provider": "cameras", "account": "new", "refresh_token": "refresh-token-1"])
      #expect(error.reason != nil)
      #expect(try await rig.failure("account.get", ["account": "new"]).reason == .unknownAccount)
    }
  }
}
