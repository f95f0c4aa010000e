import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("A login on another device (RFC 8628)", .atMost)
struct DeviceLoginTests {
  @Test("returns an account after the approval, whose tokens work and are refreshed")
  func allowed() async throws {
    try await DeviceLogin.with { rig in
      let shown = try await DeviceLogin.start(rig)
      #expect(shown.place.verification_uri == rig.demo.issuer + "/device")
      let code = try #require(shown.place.user_code)
      #expect(shown.place.verification_uri_complete == "\(rig.demo.issuer)/device?user_code=\(code)")
      #expect(shown.place.interval == 1)
      let now = Int64(Date().timeIntervalSince1970)
      #expect(abs(shown.expiresAt - now - 600) < 10 && shown.place.expires_at.map { abs($0 - now - 600) < 10 } == true)
      let asked = try #require(rig.requests(.device).last)
      #expect(asked.parameters["client_id"] == "demo")
      #expect(asked.parameters["scope"] == "openid email profile offline_access")
      #expect(asked.parameters["redirect_uri"] == nil && asked.parameters["state"] == nil)
      try await eventually("a poll with the answer to wait") { rig.count(.tokenDevice) >= 1 }
      #expect(try await rig.call("login.wait", ["login_id": .string(shown.id), "timeout": 0])["state"] == "pending")
      try rig.demo.answerDevice(code, user: "alice")
      let account = try #require(try await DeviceLogin.wait(rig, shown).account)
      #expect(account.grant == "device_code" && account.state == .ok)
      #expect(account.identity?.email == "alice@demo.example")
      let first = try await rig.token()
      #expect(try await works(first.access_token, at: rig.demo))
      #expect(try await rig.reject(first.generation).refreshed)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(rig.demo.stats().liveGrants == 1)
      #expect(rig.count(.tokenCode) == 0 && rig.count(.authorize) == 0)
      #expect(rig.demo.stats().count(.slowDown) == 0)
    }
  }

  // `slow_down` adds five seconds (RFC 8628 §3.5): this takes nine.
  @Test("49. `slow_down` adds 5 permanently, even across kill -9 during the polling")
  func slowDown() async throws {
    try await DeviceLogin.with { rig in
      try rig.demo.fault(.oauthError, at: .tokenDevice, times: 1) { $0.error = "slow_down" }
      let shown = try await DeviceLogin.start(rig)
      try await eventually("the longer interval is on disk") { rig.log.contains("to be asked every 6 s") }
      #expect(rig.count(.tokenDevice) == 1)
      try await rig.restart()
      try rig.demo.answerDevice(shown.place.user_code, user: "alice")
      #expect(try await DeviceLogin.wait(rig, shown).state == .completed)
      let polls = rig.requests(.tokenDevice).map(\.at)
      try #require(polls.count == 2)
      #expect(polls[1] - polls[0] > .seconds(5.9))
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("49. `access_denied` stops: the login is denied with the provider's text")
  func denied() async throws {
    try await DeviceLogin.with { rig in
      let shown = try await DeviceLogin.start(rig)
      try rig.demo.answerDevice(shown.place.user_code, allow: false)
      let error = try await DeviceLogin.failure(rig, shown)
      #expect(error.reason == .loginDenied && error.oauth?.error == "access_denied")
      #expect(error.hint?.isEmpty == false)
      try await DeviceLogin.expectNothingLeft(rig)
      let polls = rig.count(.tokenDevice)
      #expect(try await DeviceLogin.pollsBesideAnother(rig) == polls, "it is asked on")
    }
  }

  @Test("survives answers without optional members or with other names")
  func oddShapes() async throws {
    try await DeviceLogin.with { rig in
      rig.demo.changeSettings {
        $0.device.verificationURL = true
        $0.device.complete = false
        $0.device.idToken = false
        $0.device.extra = ["expires_in": "600", "interval": "1"]
      }
      let shown = try await DeviceLogin.start(rig)
      #expect(shown.place.verification_uri == rig.demo.issuer + "/device")
      #expect(shown.place.url == rig.demo.issuer + "/device")
      #expect(shown.place.verification_uri_complete == nil)
      try rig.demo.answerDevice(shown.place.user_code)
      let account = try #require(try await DeviceLogin.wait(rig, shown).account)
      #expect(account.identity == nil)
      let first = try await rig.token()
      #expect(try await works(first.access_token, at: rig.demo))
      // The refresh brings an ID token, and with it a name.
      #expect(try await rig.reject(first.generation).refreshed)
      #expect(try await rig.account().state == .ok)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test("49. interval 5 by default")
  func interval() async throws {
    try await DeviceLogin.with { rig in
      try rig.demo.fault(.intervalAbsent, at: .device, times: 1)
      let shown = try await DeviceLogin.start(rig)
      #expect(shown.place.interval == 5)
      try await eventually("a poll") { rig.count(.tokenDevice) >= 1 }
      let begun = try #require(rig.requests(.device).last?.at)
      let polled = try #require(rig.requests(.tokenDevice).first?.at)
      #expect(polled - begun > .seconds(4.9))
      #expect(try await rig.call("login.cancel", ["login_id": .string(shown.id)])["cancelled"] == true)
    }
  }

  @Test("without such an endpoint it is unsupported, and a browser works as before")
  func unsupported() async throws {
    try await DeviceLogin.with { rig in
      rig.demo.changeSettings { $0.metadata.oidc = .bare }
      let error = try await rig.failure(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      #expect(error.reason == .unsupportedByProvider)
      #expect(error.hint?.contains("device_authorization_endpoint") == true)
      #expect(rig.count(.device) == 0)
      try await DeviceLogin.expectNothingLeft(rig)
      try await rig.login()
    }
  }

  @Test(
    "a refusal at the device endpoint is reported with its text, and no login waits",
    arguments: [
      ("invalid_scope", ErrorReason.providerMisconfigured), ("temporarily_unavailable", .temporarilyUnavailable),
    ]
  )
  func refused(code: String, reason: ErrorReason) async throws {
    try await DeviceLogin.with { rig in
      try rig.demo.fault(.oauthError, at: .device, times: 1) {
        $0.error = code
        $0.errorDescription = "not today"
      }
      let error = try await rig.failure(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      #expect(error.reason == reason && error.message.contains("not today"), "\(error)")
      try await DeviceLogin.expectNothingLeft(rig)
    }
  }

  @Test("tokens with an unverifiable ID token end the login with that reason")
  func unverified() async throws {
    try await DeviceLogin.with { rig in
      try rig.demo.fault(.status, at: .jwks)
      let shown = try await DeviceLogin.start(rig)
      try rig.demo.answerDevice(shown.place.user_code)
      let error = try await DeviceLogin.failure(rig, shown)
      #expect(error.reason == .providerError, "\(error)")
      #expect(rig.count(.tokenDevice) == 1)
      try await DeviceLogin.expectNothingLeft(rig)
    }
  }

  @Test("a login that offers both is completed by either")
  func both() async throws {
    try await DeviceLogin.with { rig in
      let result = try await rig.client.call(
        LoginStart.self,
        .init(provider: "demo", account: "alice", destinations: ["device", "browser"], login_hint: "alice"),
        timeout: .seconds(30))
      #expect(result.destinations.map(\.kind) == ["device", "browser"])
      let browser = try #require(result.destinations.last)
      let request = try await Browser.open(try #require(browser.url)).location
      let login = Rig.Pending(
        id: result.login_id, url: try #require(request), redirectURI: try #require(browser.redirect_uri))
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(try await rig.outcome(of: login).account?.grant == "authorization_code")
      let polls = rig.count(.tokenDevice)
      #expect(try await DeviceLogin.pollsBesideAnother(rig) <= polls + 1, "the other way is asked on")
      #expect(rig.demo.stats().liveGrants == 2, "of alice, and of the next user")
    }
  }
}
