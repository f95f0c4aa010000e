import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("7Pass, by its template")
struct SevenPassTests {
  @Test("redirect, exchange, response: one slash and no host; the ID token is for the service and the client")
  func signsIn() async throws {
    try await Rig.withSevenPass("trusted_audiences = [\"7pass-service\"]") { rig in
      let account = try await rig.enterByBrowser("7pass")
      #expect(account.identity?.subject == "sub-alice")
      let exchange = try #require(rig.requests(.tokenCode).last)
      #expect(exchange.parameters["client_id"] == "demo" && exchange.parameters["code_verifier"] != nil)
      #expect(exchange.parameters["redirect_uri"] == Rig.sevenPassRedirect)
      let asked = try #require(rig.requests(.authorize).last)
      #expect(asked.parameters["prompt"] == "consent")
      #expect(asked.parameters["scope"] == "openid offline_access profile email")
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test("response: an audience that is not trusted, or several without azp, complete no login")
  func audiences() async throws {
    try await Rig.withSevenPass("trusted_audiences = [\"another-service\"]") { rig in
      let login = try await rig.start("7pass")
      let address = try await rig.address(try login.url("browser"), as: "alice")
      #expect(try await rig.refusedCallback(address).reason == .providerError)
    }
    try await Rig.withSevenPass { rig in
      rig.demo.changeSettings { $0.idTokenExtra = ["azp": .null] }
      let login = try await rig.start("7pass")
      let address = try await rig.address(try login.url("browser"), as: "alice")
      #expect(try await rig.refusedCallback(address).reason == .providerError)
    }
  }

  @Test("authorization: parameters of the login go along, and offline_access without consent is warned of")
  func parameters() async throws {
    try await Rig.withSevenPass("authorization_parameters = { utm_source = \"grantd\" }") { rig in
      let login = try await rig.start("7pass") { $0.params = ["adid": "a b", "fbapp_pres": "0"] }
      #expect(login.warnings.isEmpty)
      let asked = Callback(url: try login.url("browser"))
      #expect(asked.value("utm_source") == "grantd" && asked.value("adid") == "a b" && asked.value("fbapp_pres") == "0")
      let silent = try await rig.start("7pass") { $0.prompt = "login" }
      #expect(silent.warnings.contains { $0.contains("offline_access") })
    }
  }

  @Test("refresh: the same refresh token comes back, and is used again")
  func refresh() async throws {
    try await Rig.withSevenPass { rig in
      try await rig.enterByBrowser("7pass")
      for _ in 0..<2 { try await rig.reject(try await rig.token().generation) }
      let sent = rig.requests(.tokenRefresh).compactMap { $0.parameters["refresh_token"] }
      #expect(sent.count == 2 && Set(sent).count == 1)
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("calls with a fresh token: relative to api_base; a 401 is one refresh and one retry, and no more")
  func calls() async throws {
    try await Rig.withSevenPass { rig in
      try await rig.enterByBrowser("7pass")
      let fine = try await rig.send("/me?x=1")
      #expect(fine.status == 200 && fine.body?["sub"]?.string == "sub-alice")
      try rig.demo.fault(.status, at: .resource, times: 1) { $0.status = 401 }
      #expect(try await rig.send("/me").status == 200)
      #expect(rig.count(.tokenRefresh) == 1)
      let seen = rig.requests(.resource).suffix(2).compactMap { $0.headers["authorization"] }
      #expect(seen.count == 2 && Set(seen).count == 2)
      try rig.demo.fault(.status, at: .resource) { $0.status = 401 }
      let error = try await rig.failure("request.send", ["account": "alice", "method": "GET", "url": "/me"])
      #expect(error.reason != nil)
      #expect(rig.count(.tokenRefresh) == 2)
      let elsewhere = ["account": "alice", "method": "GET", "url": "https://elsewhere.example/me"] as JSON
      #expect(try await rig.failure("request.send", elsewhere).code == RPCError.invalidParams("").code)
    }
  }

  @Test("logout: the refresh token goes first, then the access token, then the browser's session ends")
  func logout() async throws {
    try await Rig.withSevenPass("post_logout_redirect_uri = \"http://127.0.0.1/bye\"") { rig in
      try rig.configure(
        """
        [provider.7pass]
        profile = "7pass"
        issuer = "\(rig.demo.issuer)"
        client_id = "demo"
        redirect_uri = "\(Rig.sevenPassRedirect)"
        revocation_endpoint = "\(rig.demo.issuer)/revoke"
        post_logout_redirect_uri = "http://127.0.0.1/bye"
        """)
      try await rig.call("broker.reload")
      try await rig.enterByBrowser("7pass")
      let (steps, url) = try await rig.logout(endSession: true)
      #expect(steps.prefix(2) == ["revoke_refresh_token done", "revoke_access_token done"])
      #expect(rig.demo.stats().revocations.map(\.kind) == ["refresh_token", "access_token"])
      let end = Callback(url: try #require(url))
      #expect(end.value("id_token_hint")?.isEmpty == false)
      #expect(end.value("post_logout_redirect_uri")?.hasSuffix("/bye") == true)
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .unknownAccount)
    }
  }

  @Test(
    "native sign-in bridge: the application's answer is sent to the provider, and the login waits for its own callback",
    arguments: [DemoServer.Settings.SevenPass.BridgePlace.query, .fragment])
  func bridge(place: DemoServer.Settings.SevenPass.BridgePlace) async throws {
    try await Rig.withSevenPass { rig in
      rig.demo.changeSettings {
        $0.sevenPass.bridge = "fb123://authorize"
        $0.sevenPass.bridgePlace = place
      }
      try rig.configure(
        """
        [provider.7pass]
        profile = "7pass"
        issuer = "\(rig.demo.issuer)"
        client_id = "demo"
        redirect_uri = "\(Rig.sevenPassRedirect)"
        bridge = [{ scheme = "fb123", forward = "\(rig.demo.issuer)/external/callback", in_query = { fbapp_type = "web" }, in_fragment = { fbapp_type = "native" } }]
        """)
      try await rig.call("broker.reload")
      let login = try await rig.start("7pass")
      let native = try await rig.address(try login.url("browser"), as: "alice")
      #expect(native.hasPrefix("fb123://authorize"))
      let passed = try await rig.hand(native)
      #expect(passed["handled"]?.bool == true && passed["login_id"]?.string == nil)
      let next = try #require(passed["next_url"]?.string)
      #expect(Callback(url: next).value("fbapp_type") == (place == .query ? "web" : "native"))
      #expect(try await rig.pendingLogins == 1)
      try await rig.hand(try await rig.address(next))
      #expect(try await rig.ended(login.login_id).account?.identity?.subject == "sub-alice")
      // No caller waits any longer.
      #expect(try await rig.hand(native)["handled"]?.bool == false)
    }
  }
}
