import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Tokens that come by the browser (RFC 6749 §4.2)")
struct ImplicitTests {
  private static func with(_ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(
      sections: { rig in
        rig.demo.changeSettings { $0.authorization.implicitGrant = true }
        return """
          [provider.museum]
          kind = "oauth2"
          client_id = "demo"
          authorization_endpoint = "\(rig.demo.issuer)/authorize"
          response_type = "token"
          allow_implicit = true
          scopes = ["email"]

          """
      }, body)
  }

  @Test("the address with its fragment completes a login, whose token is good and is never refreshed")
  func completes() async throws {
    try await Self.with { rig in
      #expect(try await rig.refusedStart("museum") { $0.exchange = false }.code == RPCError.invalidParams("").code)
      let login = try await rig.start("museum")
      let asked = Callback(url: try login.url("manual"))
      #expect(asked.value("response_type") == "token")
      #expect(asked.value("code_challenge") == nil && asked.value("nonce") == nil)
      let address = try await rig.address(asked.url, as: "alice")
      #expect(address.contains("#access_token="))
      #expect(try await rig.hand(address)["handled"]?.bool == true)
      #expect(try await rig.ended(login.login_id).state == .completed)
      let token = try await rig.token()
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token).status == 200)
      // It is good once.
      #expect(try await rig.hand(address)["login_id"]?.string == login.login_id)
      #expect(rig.count(.tokenCode) == 0)

      let refused = ["account": "alice", "generation": .integer(token.generation)] as JSON
      #expect(try await rig.failure("token.report_rejected", refused).reason == .loginRequired)
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .loginRequired)
      // The provider says that it is alive: others may still have it.
      #expect(try await rig.account().state == .ok)
      #expect(rig.count(.tokenRefresh) == 0)
    }
  }

  @Test("a refusal in the fragment ends the login of its state, and no other")
  func denied() async throws {
    try await Self.with { rig in
      let login = try await rig.start("museum")
      let address = try await rig.address(try login.url("manual"), as: "deny")
      #expect(address.contains("#"))
      let state = try #require(Callback(url: try login.url("manual")).value("state"))
      let forged = try await rig.refusedCallback(address.replacing(state, with: "another"))
      #expect(forged.reason == .invalidCallback)
      #expect(try await rig.pendingLogins == 1)
      let error = try await rig.refusedCallback(address)
      #expect(error.reason == .loginDenied && error.oauth?.error == "access_denied")
      #expect(try await rig.failedLogin(login.login_id).reason == .loginDenied)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("a token with another state, or in the query, completes no login")
  func forged() async throws {
    try await Self.with { rig in
      let login = try await rig.start("museum")
      let address = try await rig.address(try login.url("manual"), as: "alice")
      let state = try #require(Callback(url: try login.url("manual")).value("state"))
      for forged in [address.replacing(state, with: "another"), address.replacing("#", with: "?")] {
        #expect(try await rig.refusedCallback(forged).reason == .invalidCallback)
      }
      #expect(try await rig.pendingLogins == 1)
      try await rig.hand(address)
      #expect(try await rig.ended(login.login_id).state == .completed)
    }
  }

  @Test("a login that waits for its fragment survives a restart")
  func restarted() async throws {
    try await Self.with { rig in
      let login = try await rig.start("museum")
      let address = try await rig.address(try login.url("manual"), as: "alice")
      try await rig.restart()
      try await rig.hand(address)
      #expect(try await rig.ended(login.login_id).state == .completed)
    }
  }

  @Test("QuickBooks: realmId of the callback is returned with each token, even after refreshes and a restart")
  func realm() async throws {
    let lines = "kind = \"oauth2\"\ndiscovery = \"openid\"\nkeep_callback_members = [\"realmId\"]"
    try await Rig.with(sections: { $0.section("books", scopes: ["email", "offline_access"], lines) }) { rig in
      let login = try await rig.start("books")
      let address = try await rig.address(try login.url("manual"), as: "alice")
      try await rig.hand(address + "&realmId=4620816365")
      #expect(try await rig.ended(login.login_id).state == .completed)
      let first = try await rig.token()
      #expect(first.extra?["realmId"] == "4620816365")
      try await rig.reject(first.generation)
      let second = try await rig.token()
      #expect(second.generation > first.generation && second.extra?["realmId"] == "4620816365")
      try await rig.restart()
      #expect(try await rig.token().extra?["realmId"] == "4620816365")
    }
  }
}
