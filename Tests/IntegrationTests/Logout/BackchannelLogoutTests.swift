import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Back-channel logout")
struct BackchannelLogoutTests {
  typealias Flaw = DemoServer.Logout.Flaw

  /// `plain` has sessions that end with the user's session; `demo` has offline access.
  private static func with(_ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(
      Wish { $0.provider = "backchannel_logout = true" },
      sections: { $0.section("plain", scopes: ["openid", "email"], "backchannel_logout = true") }, body)
  }

  private static func endpoint(_ rig: Rig, _ provider: String = "plain") async throws -> String {
    let address = try await rig.startLogin("user-9").redirectURI
    return try #require(
      URLComponents(string: address)?.port.map { "http://127.0.0.1:\($0)/backchannel-logout/\(provider)" })
  }

  private static func send(
    _ rig: Rig, to url: String, _ flaws: Set<Flaw> = [], grant: Int? = nil
  ) async throws -> DemoServer.LogoutAnswer {
    var logout = DemoServer.Logout(to: url, flaws: flaws)
    logout.grant = grant
    let answer = try await rig.demo.sendLogout(logout)
    #expect(answer.headers["cache-control"] == "no-store")
    return answer
  }

  @Test("a logout token with any flaw is refused with 400, and no user is signed out")
  func flaws() async throws {
    try await Self.with { rig in
      try await rig.login("alice", at: "plain")
      let url = try await Self.endpoint(rig)
      // Without one of them the other identifies the user; another subject matches no account here.
      let taken: Set<Flaw> = [.noSubject, .noSession, .wrongSubject, .replayed]
      for flaw in Flaw.allCases where !taken.contains(flaw) {
        let answer = try await Self.send(rig, to: url, [flaw])
        #expect(answer.status == 400, "\(flaw)")
        #expect(answer.body.contains("\"error\":\"invalid_request\""), "\(flaw): \(answer.body)")
        #expect(try await rig.account().state == .ok, "\(flaw)")
      }
      #expect(try await Self.send(rig, to: url, [.wrongSubject]).status == 200)
      #expect(try await rig.account().state == .ok)
      #expect(rig.demo.stats().revocations.isEmpty)
    }
  }

  @Test("a good one ends the grant for good, revokes its refresh token, and is not taken twice")
  func good() async throws {
    try await Self.with { rig in
      try await rig.login("alice", at: "plain")
      let url = try await Self.endpoint(rig)
      let answer = try await Self.send(rig, to: url)
      #expect(answer.status == 200 && answer.body.isEmpty)
      let error = try await rig.failure("token.get", ["account": "alice"])
      #expect(error.reason == .loginRequired)
      #expect(error.detail == "signed_out")
      #expect(error.hint?.contains("`grantctl login plain alice`") == true)
      try await eventually("the refresh token is revoked") { rig.demo.stats().liveGrants == 0 }
      try await rig.restart()
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .loginRequired)
      try await rig.login("alice", at: "plain")
      #expect(try await rig.token().access_token.isEmpty == false)
      let again = try await Self.send(rig, to: url)
      #expect(again.status == 200)
      try await rig.login("alice", at: "plain")
      #expect(try await Self.send(rig, to: url, [.replayed]).status == 400)
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("offline access continues after it")
  func offline() async throws {
    try await Self.with { rig in
      try await rig.login()
      #expect(try await Self.send(rig, to: try await Self.endpoint(rig, "demo")).status == 200)
      #expect(try await rig.account().state == .ok)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test("the end of a session ends only that session; a user's logout ends all of the user's sessions")
  func whose() async throws {
    try await Self.with { rig in
      for (account, user) in [("one", "alice"), ("two", "alice"), ("three", "alice"), ("bob", "bob")] {
        try await rig.login(account, at: "plain", as: user)
      }
      let url = try await Self.endpoint(rig)
      let grants = rig.demo.stats().grants.map(\.id)
      func states() async throws -> [AccountState] {
        var states: [AccountState] = []
        for account in ["one", "two", "three", "bob"] { states.append(try await rig.account(account).state) }
        return states
      }
      #expect(try await Self.send(rig, to: url, [.noSubject], grant: grants[0]).status == 200)
      #expect(try await states() == [.loginRequired, .ok, .ok, .ok])
      #expect(try await Self.send(rig, to: url, grant: grants[1]).status == 200)
      #expect(try await states() == [.loginRequired, .loginRequired, .ok, .ok])
      #expect(try await Self.send(rig, to: url, [.noSession], grant: grants[0]).status == 200)
      #expect(try await states() == [.loginRequired, .loginRequired, .loginRequired, .ok])
    }
  }

  @Test("a provider that does not say it sends them is refused, as is one that is not there")
  func notConfigured() async throws {
    try await Rig.with { rig in
      try await rig.login()
      for provider in ["demo", "nobody"] {
        let answer = try await Self.send(rig, to: try await Self.endpoint(rig, provider))
        #expect(answer.status == 400)
      }
    }
  }

  @Test(
    "new keys of the provider are fetched; without them the provider is asked to repeat the request"
  )
  func keys() async throws {
    try await Self.with { rig in
      try await rig.login("alice", at: "plain")
      let url = try await Self.endpoint(rig)
      try rig.demo.rotateKeys(keepingOld: false)
      try rig.demo.fault(.status, at: .jwks)
      #expect(try await Self.send(rig, to: url).status == 503)
      rig.demo.reset()
      try await rig.restart()
      #expect(try await Self.send(rig, to: url).status == 200)
      #expect(try await rig.account().state == .loginRequired)
    }
  }
}
