import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("The main job: sign in once, always a fresh token")
struct MainJobTests {
  struct Endpoint: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var redirect: @Sendable () throws -> String

    static let all = [
      Endpoint(testDescription: "127.0.0.1, any port") { "http://127.0.0.1/callback" },
      Endpoint(testDescription: "[::1], any port") { "http://[::1]/callback" },
      Endpoint(testDescription: "a fixed port") { "http://127.0.0.1:\(try freePort())/back/here" },
    ]
  }

  @Test("a login through the real callback endpoint gives an account and its token", arguments: Endpoint.all)
  func login(at endpoint: Endpoint) async throws {
    guard !endpoint.testDescription.contains("::1") || hasIPv6 else { return }
    let redirect = try endpoint.redirect()
    try await Rig.with(Wish { $0.provider = "redirect_uri = \"\(redirect)\"" }) { rig in
      let login = try await rig.startLogin()
      let authority = redirect.contains("::1") ? "http://[::1]:" : "http://127.0.0.1:"
      #expect(login.redirectURI.hasPrefix(authority))
      if redirect.hasSuffix("/back/here") { #expect(login.redirectURI == redirect) }
      let link = try #require(login.link)
      #expect(link.hasPrefix("\(authority)") && link.contains("/go/") && !link.contains("?"))
      #expect(try await Browser.open(link).location == login.url)
      #expect(try await Browser.open(link).status == 410)
      let page = try await Browser.open(try await rig.callback(of: login).url)
      #expect(page.status == 200)
      #expect(page.body.contains("Signed in") && page.body.contains("alice@demo.example"))
      let account = try #require(try await rig.outcome(of: login).account)
      #expect(account.identity?.email == "alice@demo.example")
      #expect(account.state == .ok)
      let token = try await rig.token()
      #expect(token.provider == "demo")
      #expect(token.issuer == rig.demo.issuer)
      #expect(token.scope.contains("email"))
      #expect((290...300).contains(token.expires_in ?? 0))
    }
  }

  @Test(
    "tokens are refreshed over several lifetimes, across kill -9 and a restart, without a new login",
    arguments: DemoServer.Rotation.allCases)
  func severalLifetimes(rotation: DemoServer.Rotation) async throws {
    let wish = Wish.shortLived {
      $0.rotation = rotation
      $0.provider = "rotation = \"\(rotation == .grace ? "grace 60s" : rotation.rawValue)\""
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      var seen: Set<String> = [try await rig.token().access_token]
      for round in 1...2 {
        let before = try await rig.account().generation
        try await eventually("three refreshes without a request") {
          try await rig.account().generation >= before + 3
        }
        for _ in 1...10 { seen.insert(try await rig.token().access_token) }
        try await eventually("a token works") { try await works(try await rig.token().access_token, at: rig.demo) }
        guard round == 1 else { continue }
        // No refresh is under way at the kill: strict rotation could end the grant then (KillTests).
        let last = try await rig.account().generation
        rig.demo.changeSettings { $0.accessTTL = .seconds(300) }
        try await eventually("a long token") {
          guard try await rig.account().generation > last else { return false }
          return try await rig.token().expires_in.map { $0 > 100 } ?? false
        }
        try await rig.restart()
        rig.demo.changeSettings { $0.accessTTL = .seconds(2) }
        try await rig.reject(try await rig.account().generation)
      }
      #expect(seen.count >= 3)
      #expect(try await rig.account().state != .loginRequired)
      let stats = rig.demo.stats()
      #expect(stats.grants.count == 1)
      #expect(stats.liveGrants == 1)
      #expect(stats.refreshesInFlightMax == 1)
    }
  }

  @Test("a token that was fetched before a restart is served after it, and expires when it did")
  func tokenSurvives() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let before = try await rig.token()
      try await rig.restart()
      let after = try await rig.token()
      #expect(after.access_token == before.access_token)
      #expect(after.expires_at == before.expires_at)
      #expect(rig.demo.stats().refreshes == 0)
    }
  }

  @Test("a pending login survives kill -9: the callback comes back to the same port")
  func pendingLogin() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      try await rig.restart()
      #expect(try await rig.call("login.list")["logins"]?.array?.count == 1)
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      #expect(try await rig.token().access_token.isEmpty == false)
    }
  }

  @Test("signing in again replaces the grant of an account whose grant has ended")
  func again() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let first = try await rig.token()
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure(
        "token.report_rejected", ["account": "alice", "generation": .integer(first.generation)])
      #expect(error.reason == .loginRequired)
      try await rig.login()
      let second = try await rig.token()
      #expect(second.access_token != first.access_token)
      #expect(second.generation > first.generation)
      #expect(try await works(second.access_token, at: rig.demo))
    }
  }

  @Test("a logout revokes at the provider, and the account stays removed after a restart")
  func logout() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      let steps = try await rig.call("account.logout", ["account": "alice"])["steps"]?.array ?? []
      #expect(steps.map { $0["result"]?.string } == ["done", "done", "done"])
      #expect(rig.demo.stats().liveGrants == 0)
      #expect(try await works(token, at: rig.demo) == false)
      try await rig.restart()
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .unknownAccount)
    }
  }
}

/// Whether the provider's userinfo endpoint takes the token.
func works(_ token: String, at server: DemoServer) async throws -> Bool {
  try await Browser.open(server.issuer + "/userinfo", token: token).status == 200
}
