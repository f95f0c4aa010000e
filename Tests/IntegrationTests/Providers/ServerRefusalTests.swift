import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Refusals of servers of other makes")
struct ServerRefusalTests {
  static let ends: [(DemoServer.Settings.Refresh.BadToken, String)] = [
    (.invalidGrant, ""), (.invalidRequest, "permanent_errors = [\"invalid_request\"]"),
    (.empty400, "permanent_errors = [\"http_400\"]"), (.empty403, "permanent_errors = [\"http_403\"]"),
  ]

  @Test("an invalid refresh token requires a login, for each error code of the provider", arguments: ends.indices)
  func badRefreshToken(_ index: Int) async throws {
    let (answer, lines) = Self.ends[index]
    try await Rig.with(Wish { $0.provider = lines }) { rig in
      rig.demo.changeSettings { $0.refresh.badToken = answer }
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      #expect(
        try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1]).reason == .loginRequired)
      try await rig.login()
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test(
    "the same answers end no grant without a permanent code: they are temporary",
    arguments: [DemoServer.Settings.Refresh.BadToken.invalidRequest, .empty400, .empty403])
  func passing(_ answer: DemoServer.Settings.Refresh.BadToken) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.refresh.badToken = answer }
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason != .loginRequired, "\(error)")
      #expect(try await rig.account().state != .loginRequired)
    }
  }

  struct Refusal: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Nil: the user stays at the provider.
    var ending: ErrorReason?
    var change: @Sendable (inout DemoServer.Settings) -> Void

    static let all = [
      Refusal(testDescription: "consent_required", ending: .loginDenied) {
        $0.authorization.refusal = .consentRequired
      },
      // RFC 9207 §2.4 concerns codes: an error with the right `state` yields no token, and some servers omit `iss`.
      Refusal(testDescription: "`iss` advertised and missing on errors", ending: .loginDenied) {
        $0.authorization.issOnErrors = false
      },
      Refusal(testDescription: "nothing at all", ending: nil) { $0.authorization.refusal = .page },
      Refusal(testDescription: "an error page at 200", ending: nil) { $0.authorization.errorPage = true },
    ]
  }

  @Test("a refusal ends the login, or leaves it to its time-out; the next one works", arguments: Refusal.all)
  func refusals(_ refusal: Refusal) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings(refusal.change)
      let login = try await rig.startLogin("alice", as: "deny")
      let page = try await Browser.open(login.url)
      if let ending = refusal.ending {
        let shown = try await Browser.open(try #require(page.location))
        #expect(shown.body.contains("declined"), "\(shown.body)")
        #expect(try await rig.failure("login.wait", ["login_id": .string(login.id), "timeout": 2]).reason == ending)
      } else {
        #expect(page.location == nil)
        #expect(try await rig.pendingLogins == 1)
        try await rig.call("login.cancel", ["login_id": .string(login.id)])
      }
      #expect(try await rig.pendingLogins == 0)
      try await rig.login()
    }
  }

  @Test(
    "401 answers of each form are understood: an ended grant requires a login, and its error names it",
    arguments: [DemoServer.Settings.Resource.Unauthorized.challenge, .empty, .noScheme, .jsonAsHTML])
  func unauthorized(_ shape: DemoServer.Settings.Resource.Unauthorized) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.resource.unauthorized = shape }
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure("account.userinfo", ["account": "alice"])
      #expect(error.reason == .loginRequired, "\(error)")
      #expect(error.hint?.contains("grantctl login demo alice") == true, "\(error)")
      #expect(rig.count(.userinfo) == 1 && rig.count(.tokenRefresh) == 1)
    }
  }

  struct Device: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Nil: the login completes.
    var ending: ErrorReason?
    var change: @Sendable (inout DemoServer.Settings.Device) -> Void

    static let all = [
      Device(testDescription: "no slow_down, no ID token, no complete link, and the link by its old name") {
        ($0.slowDown, $0.idToken, $0.complete, $0.verificationURL) = (false, false, false, true)
      },
      Device(testDescription: "invalid_grant on expiry", ending: .loginExpired) {
        ($0.ttl, $0.expired) = (.milliseconds(1200), .invalidGrant)
      },
    ]
  }

  @Test("a login on another device works where the provider says less", arguments: Device.all)
  func device(_ device: Device) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings {
        $0.device.interval = .seconds(1)
        device.change(&$0.device)
      }
      let login = try await rig.call(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      let id = try #require(login["login_id"])
      if let ending = device.ending {
        #expect(try await rig.failure("login.wait", ["login_id": id, "timeout": 20]).reason == ending)
      } else {
        try rig.demo.answerDevice()
        #expect(try await rig.call("login.wait", ["login_id": id, "timeout": 20])["state"]?.string == "completed")
        #expect(try await works(try await rig.token().access_token, at: rig.demo))
      }
    }
  }
}
