import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("RP-initiated logout")
struct EndSessionTests {
  private static func with(_ lines: String, _ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(Wish { $0.provider = lines }, body)
  }

  private static func query(_ url: String?) -> [String: String] {
    let items = url.flatMap { URLComponents(string: $0) }?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { $1 })
  }

  @Test("the browser ends the session and returns to the callback endpoint, which confirms it")
  func roundTrip() async throws {
    try await Self.with("post_logout_redirect_uri = \"http://127.0.0.1/signed-out\"") { rig in
      let port = try #require(URLComponents(string: try await rig.startLogin("bob").redirectURI)?.port)
      try await rig.login()
      let (steps, url) = try await rig.logout(endSession: true)
      #expect(
        steps == ["revoke_refresh_token done", "revoke_access_token done", "end_session opened", "forget done"])
      let query = Self.query(url)
      #expect(query["id_token_hint"]?.split(separator: ".").count == 3)
      #expect(query["client_id"] == "demo")
      #expect(query["post_logout_redirect_uri"] == "http://127.0.0.1:\(port)/signed-out")
      #expect((query["state"]?.count ?? 0) >= 20)
      #expect(Set(query.keys) == ["id_token_hint", "client_id", "post_logout_redirect_uri", "state"])

      let opened = try await Browser.open(try #require(url))
      let back = Callback(url: try #require(opened.location))
      #expect(rig.demo.stats().count(.endSession) == 1)
      #expect(back.value("state") == query["state"])
      for forged in [back.replacing("state", "forged"), back.without("state"), back.adding("state", "two")] {
        let page = try await Browser.open(forged.url)
        #expect(page.status == 400)
        #expect(!page.body.contains("Signed out"))
      }
      let page = try await Browser.open(back.url)
      #expect(page.status == 200)
      #expect(page.body.contains("Signed out") && page.body.contains("demo"))
      // The state is valid at no other URL, and no login of another user was changed.
      #expect(try await Browser.open(back.at(path: "/callback").url).status == 400)
      #expect(try await rig.call("login.list")["logins"]?.array?.count == 1)
    }
  }

  @Test("a program that the browser came back to may hand the address over")
  func byHand() async throws {
    try await Self.with("post_logout_redirect_uri = \"https://app.example/bye\"") { rig in
      try await rig.login()
      let state = try #require(Self.query(try await rig.logout(endSession: true).url)["state"])
      let handled = try await rig.call(
        "login.handle_callback", ["url": .string("https://app.example/bye?state=\(state)")])
      #expect(handled["handled"]?.bool == true)
      #expect(
        try await rig.failure("login.handle_callback", ["url": "https://app.example/bye?state=forged"]).reason
          == .invalidCallback)
    }
  }

  @Test("a fixed port of the address is listened on, and a provider that forges the state is refused")
  func fixedPort() async throws {
    let port = try freePort()
    try await Self.with("post_logout_redirect_uri = \"http://127.0.0.1:\(port)/bye\"") { rig in
      for fault in [DemoServer.Fault.Kind.wrongState, .missingState, nil] {
        rig.demo.reset()
        try await rig.login()
        if let fault { try rig.demo.fault(fault, at: .endSession) }
        let url = try #require(try await rig.logout(endSession: true).url)
        let back = try #require(try await Browser.open(url).location)
        #expect(back.hasPrefix("http://127.0.0.1:\(port)/bye"))
        #expect(try await Browser.open(back).status == (fault == nil ? 200 : 400))
      }
    }
  }

  @Test("without a URL the user stays at the provider; without the endpoint the step is unsupported")
  func without() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let url = try #require(try await rig.logout(endSession: true).url)
      #expect(Set(Self.query(url).keys) == ["id_token_hint", "client_id"])
      #expect(try await Browser.open(url).status == 200)
      rig.demo.changeSettings {
        $0.metadata.oidc = .bare
        $0.metadata.oauth = .bare
      }
      try await rig.call("broker.reload")
      try await rig.login()
      let (steps, none) = try await rig.logout(endSession: true)
      #expect(steps.contains("end_session unsupported"))
      #expect(none == nil)
    }
  }
}
