import BrokerAPI
import DemoProvider
import Foundation
import Testing
import UnixSocket

@Suite("A login on another device (RFC 8628)", .timeLimit(.minutes(5)))
struct DeviceLoginTests {
  private struct Shown {
    var id: String
    var place: Destination
    var expiresAt: Int64
  }

  private static func start(_ rig: Rig, _ account: String = "alice") async throws -> Shown {
    let result = try await rig.client.call(
      LoginStart.self, .init(provider: "demo", account: account, destinations: ["device"]), timeout: .seconds(30))
    guard let place = result.destinations.first, result.destinations.count == 1, place.kind == "device" else {
      throw Failed("login.start offers no device alone")
    }
    return Shown(id: result.login_id, place: place, expiresAt: result.expires_at)
  }

  private static func wait(_ rig: Rig, _ shown: Shown) async throws -> LoginWait.Result {
    try await rig.client.call(LoginWait.self, .init(login_id: shown.id, timeout: 20), timeout: .seconds(30))
  }

  private static func failure(_ rig: Rig, _ shown: Shown) async throws -> RPCError {
    try await rig.failure("login.wait", ["login_id": .string(shown.id), "timeout": 20])
  }

  /// The provider is asked each second, the shortest that the broker does.
  private static func with(_ wish: Wish = Wish(), _ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(wish) { rig in
      rig.demo.changeSettings { $0.device.interval = .seconds(1) }
      try await body(rig)
    }
  }

  private static func expectNothingLeft(_ rig: Rig) async throws {
    #expect(try await rig.call("account.list")["accounts"]?.array == [])
    #expect(try await rig.pendingLogins == 0)
  }

  @Test("gives an account once the person allows it, whose tokens work and are refreshed")
  func allowed() async throws {
    try await Self.with { rig in
      let shown = try await Self.start(rig)
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
      try await eventually("a poll that is told to wait") { rig.count(.tokenDevice) >= 1 }
      #expect(try await rig.call("login.wait", ["login_id": .string(shown.id), "timeout": 0])["state"] == "pending")
      try rig.demo.answerDevice(code, user: "alice")
      let account = try #require(try await Self.wait(rig, shown).account)
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
  @Test("49. `slow_down` adds 5 for good, also over kill -9 in the middle of the polling, which goes on")
  func slowDown() async throws {
    try await Self.with { rig in
      try rig.demo.fault(.oauthError, at: .tokenDevice, times: 1) { $0.error = "slow_down" }
      let shown = try await Self.start(rig)
      try await eventually("the first poll") { rig.count(.tokenDevice) == 1 }
      try await Task.sleep(for: .seconds(1.5))
      #expect(rig.count(.tokenDevice) == 1, "polled as often as before")
      try await rig.restart()
      let restarted = ContinuousClock.now
      try rig.demo.answerDevice(shown.place.user_code, user: "alice")
      #expect(try await Self.wait(rig, shown).state == .completed)
      #expect(ContinuousClock.now - restarted > .seconds(5))
      #expect(rig.count(.tokenDevice) == 2)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("49. `access_denied` stops: the login is denied in the provider's words")
  func denied() async throws {
    try await Self.with { rig in
      let shown = try await Self.start(rig)
      try rig.demo.answerDevice(shown.place.user_code, allow: false)
      let error = try await Self.failure(rig, shown)
      #expect(error.reason == .loginDenied && error.oauth?.error == "access_denied")
      #expect(error.hint?.isEmpty == false)
      try await Self.expectNothingLeft(rig)
      let polls = rig.count(.tokenDevice)
      try await Task.sleep(for: .seconds(1.3))
      #expect(rig.count(.tokenDevice) == polls, "it is asked on")
    }
  }

  struct Ending: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var reason = ErrorReason.loginExpired
    var settings: @Sendable (inout DemoServer.Settings.Device) -> Void = { _ in }
    var status: Int?

    /// The provider says that there is time yet, and then it is over.
    static let all = [
      Ending(testDescription: "expired_token") {
        $0.ttl = .milliseconds(500)
        $0.extra = ["expires_in": 600]
      },
      Ending(testDescription: "invalid_grant in its place") {
        $0.ttl = .milliseconds(500)
        $0.expired = .invalidGrant
        $0.extra = ["expires_in": 600]
      },
      Ending(testDescription: "404 for an unknown code") {
        $0.unknown = .notFound
        $0.extra = ["device_code": "of-nobody"]
      },
      Ending(testDescription: "invalid_grant for an unknown code") { $0.extra = ["device_code": "of-nobody"] },
      Ending(testDescription: "the time that the provider gave", settings: { $0.ttl = .seconds(2) }),
      Ending(testDescription: "410", status: 410),
      Ending(testDescription: "an answer that nothing mends", reason: .providerError, status: 400),
    ]
  }

  @Test("49. `expired_token` stops, however the provider says it", arguments: Ending.all)
  func expired(_ ending: Ending) async throws {
    try await Self.with { rig in
      rig.demo.changeSettings { ending.settings(&$0.device) }
      if let status = ending.status { try rig.demo.fault(.status, at: .tokenDevice) { $0.status = status } }
      let shown = try await Self.start(rig)
      let error = try await Self.failure(rig, shown)
      #expect(error.reason == ending.reason, "\(error)")
      #expect(error.hint?.isEmpty == false)
      try await Self.expectNothingLeft(rig)
    }
  }

  struct Trouble: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var kind: DemoServer.Fault.Kind
    var change: @Sendable (inout DemoServer.Fault.Parameters) -> Void = { _ in }

    static let all = [
      Trouble(testDescription: "503", kind: .status),
      Trouble(testDescription: "500", kind: .status) { $0.status = 500 },
      Trouble(testDescription: "408", kind: .status) { $0.status = 408 },
      Trouble(testDescription: "429 with Retry-After", kind: .status) {
        $0.status = 429
        $0.retryAfter = "1"
      },
      Trouble(testDescription: "a web page at 200", kind: .html200),
      Trouble(testDescription: "an error that passes", kind: .oauthError) { $0.error = "temporarily_unavailable" },
      Trouble(testDescription: "a redirect", kind: .redirect),
      Trouble(testDescription: "a connection cut before", kind: .dropBeforeCommit),
      Trouble(testDescription: "a connection cut after", kind: .dropAfterCommit),
      Trouble(testDescription: "an answer cut short", kind: .truncated),
    ]
  }

  @Test("49. a network error backs off, and ends nothing", arguments: Trouble.all)
  func trouble(_ trouble: Trouble) async throws {
    try await Self.with { rig in
      try rig.demo.fault(trouble.kind, at: .tokenDevice, times: 1, trouble.change)
      let shown = try await Self.start(rig)
      try await eventually("the poll that fails") { rig.count(.tokenDevice) == 1 }
      let failed = ContinuousClock.now
      try rig.demo.answerDevice(shown.place.user_code)
      #expect(try await Self.wait(rig, shown).state == .completed)
      #expect(ContinuousClock.now - failed > .seconds(1.5), "asked again without a longer wait")
      #expect(rig.count(.tokenDevice) == 2)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test("survives answers without what the RFC lets out or names otherwise")
  func oddShapes() async throws {
    try await Self.with { rig in
      rig.demo.changeSettings {
        $0.device.verificationURL = true
        $0.device.complete = false
        $0.device.idToken = false
        $0.device.extra = ["expires_in": "600", "interval": "1"]
      }
      let shown = try await Self.start(rig)
      #expect(shown.place.verification_uri == rig.demo.issuer + "/device")
      #expect(shown.place.url == rig.demo.issuer + "/device")
      #expect(shown.place.verification_uri_complete == nil)
      try rig.demo.answerDevice(shown.place.user_code)
      let account = try #require(try await Self.wait(rig, shown).account)
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
    try await Self.with { rig in
      try rig.demo.fault(.intervalAbsent, at: .device)
      let shown = try await Self.start(rig)
      #expect(shown.place.interval == 5)
      try await Task.sleep(for: .seconds(1.5))
      #expect(rig.count(.tokenDevice) == 0)
      #expect(try await rig.call("login.cancel", ["login_id": .string(shown.id)])["cancelled"] == true)
    }
  }

  @Test("where the provider has no such endpoint it is unsupported, and a browser serves as before")
  func unsupported() async throws {
    try await Self.with { rig in
      rig.demo.changeSettings { $0.metadata.oidc = .bare }
      let error = try await rig.failure(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      #expect(error.reason == .unsupportedByProvider)
      #expect(error.hint?.contains("device_authorization_endpoint") == true)
      #expect(rig.count(.device) == 0)
      try await Self.expectNothingLeft(rig)
      try await rig.login()
    }
  }

  @Test(
    "what the device endpoint refuses is told in its words, and no login waits",
    arguments: [
      ("invalid_scope", ErrorReason.providerMisconfigured), ("temporarily_unavailable", .temporarilyUnavailable),
    ]
  )
  func refused(code: String, reason: ErrorReason) async throws {
    try await Self.with { rig in
      try rig.demo.fault(.oauthError, at: .device, times: 1) {
        $0.error = code
        $0.errorDescription = "not today"
      }
      let error = try await rig.failure(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      #expect(error.reason == reason && error.message.contains("not today"), "\(error)")
      try await Self.expectNothingLeft(rig)
    }
  }

  @Test("tokens whose ID token cannot be checked end the login with that reason, not as if nobody had come")
  func unverified() async throws {
    try await Self.with { rig in
      try rig.demo.fault(.status, at: .jwks)
      let shown = try await Self.start(rig)
      try rig.demo.answerDevice(shown.place.user_code)
      let error = try await Self.failure(rig, shown)
      #expect(error.reason == .providerError, "\(error)")
      #expect(rig.count(.tokenDevice) == 1)
      try await Self.expectNothingLeft(rig)
    }
  }

  @Test("a login that offers both is completed by whichever the person takes")
  func both() async throws {
    try await Self.with { rig in
      let result = try await rig.client.call(
        LoginStart.self,
        .init(provider: "demo", account: "alice", destinations: ["device", "browser"], login_hint: "alice"),
        timeout: .seconds(30))
      #expect(result.destinations.map(\.kind) == ["device", "browser"])
      let browser = try #require(result.destinations.last)
      let login = Rig.Pending(
        id: result.login_id, url: try #require(browser.url), redirectURI: try #require(browser.redirect_uri))
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(try await rig.outcome(of: login).account?.grant == "authorization_code")
      let polls = rig.count(.tokenDevice)
      try await Task.sleep(for: .seconds(1.3))
      #expect(rig.count(.tokenDevice) <= polls + 1, "the other way is asked on")
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("grantctl login --device shows the code and the address, and ends when the person has allowed it")
  func commandLine() async throws {
    try await Self.with { rig in
      let output = rig.folder.path("login.out")
      let command = try Child(
        Programs.grantctl, ["login", "demo", "alice", "--device", "--socket", rig.socket],
        environment: Programs.environment(rig.folder), output: output)
      defer { command.kill9() }
      func said() -> String { (try? String(contentsOfFile: output, encoding: .utf8)) ?? "" }
      let code = try await eventually("the code is shown") {
        said().firstMatch(of: #/(?m)^([B-Z]{4}-[B-Z]{4})$/#).map { String($0.1) }
      }
      #expect(said().contains("\n\(rig.demo.issuer)/device?user_code=\(code)\n"))
      #expect(command.status == nil)
      try rig.demo.answerDevice(code.lowercased(), user: "bob")
      #expect(try await command.end() == 0, "\(said())")
      #expect(said().contains("Signed in: alice (bob@demo.example) at demo"))
      #expect(!said().contains("\u{1B}"))
      let (status, token) = try await Programs.run(
        Programs.grantctl, ["token", "alice", "--socket", rig.socket], in: rig.folder)
      #expect(status == 0)
      #expect(try await works(token.trimmingCharacters(in: .whitespacesAndNewlines), at: rig.demo))
    }
  }

  @Test("grantctl login --device says what went wrong, and ends with its status", arguments: [false, true])
  func commandLineFails(isSupported: Bool) async throws {
    try await Self.with { rig in
      if !isSupported { rig.demo.changeSettings { $0.metadata.oidc = .bare } }
      let output = rig.folder.path("login.out")
      let command = try Child(
        Programs.grantctl, ["login", "demo", "alice", "--device", "--socket", rig.socket],
        environment: Programs.environment(rig.folder), output: output)
      defer { command.kill9() }
      if isSupported {
        try await eventually("the person denies it") { (try? rig.demo.answerDevice(allow: false)) != nil }
      }
      #expect(try await command.end() != 0)
      let said = try String(contentsOfFile: output, encoding: .utf8)
      #expect(said.contains(isSupported ? "denied" : "device_authorization_endpoint"), "\(said)")
      try await Self.expectNothingLeft(rig)
    }
  }
}
