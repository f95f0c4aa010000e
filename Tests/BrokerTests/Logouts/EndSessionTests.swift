import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite("The end of a session at the provider", .scheduled, .timeLimit(.minutes(5))) struct EndSessionTests {
  private func rig(returnTo address: String?) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work")
    let settings = ProviderSettings.plain {
      $0.server.endpoints[.endSession] = "https://id.example/out"
      $0.logout.postLogoutRedirectURI = address
    }
    return try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
  }

  private func logout(_ rig: Rig) async throws -> [String: String] {
    let result = try await rig.call(AccountLogout.self, .init(account: "work", revoke: false, end_session: true))
    #expect(result.steps.map { "\($0.step) \($0.result)" } == ["end_session opened", "forget done"])
    let items = result.end_session_url.flatMap { URLComponents(string: $0) }?.queryItems ?? []
    return Dictionary(items.map { ($0.name, $0.value ?? "") }, uniquingKeysWith: { $1 })
  }

  @Test(
    "The URL names where the browser comes back: a loopback address has the callback endpoint's port",
    arguments: [
      ("http://127.0.0.1/bye", "http://127.0.0.1:8400/bye"), ("http://[::1]/bye", "http://[::1]:8400/bye"),
      ("http://127.0.0.1:9000/bye", "http://127.0.0.1:9000/bye"),
      ("https://app.example/bye", "https://app.example/bye"),
    ])
  func address(configured: String, sent: String) async throws {
    let rig = try await rig(returnTo: configured)
    let query = try await logout(rig)
    #expect(query["post_logout_redirect_uri"] == sent)
    #expect(query["client_id"] == "client")
    let state = try #require(query["state"])
    #expect(state.count >= 20)
    #expect(await rig.broker.handleCallback(url: "\(sent)?state=\(state)") == .signedOut(provider: "example"))
    let handled = try await rig.call(LoginHandleCallback.self, .init(url: "\(sent)?state=\(state)"))
    #expect(handled.handled && handled.login_id == nil)
  }

  @Test("Without an address nothing comes back, and no state is sent")
  func withoutAddress() async throws {
    let rig = try await rig(returnTo: nil)
    #expect(try await logout(rig) == ["client_id": "client"])
    #expect(await rig.broker.logout.sessions.count == 0)
  }

  @Test(
    "A return without the sent state is refused with that reason",
    arguments: ["", "?state=", "?state=forged", "?state=STATE&state=STATE", "?state=STATEx"])
  func forged(query: String) async throws {
    let rig = try await rig(returnTo: "http://127.0.0.1/bye")
    let state = try #require(try await logout(rig)["state"])
    let url = "http://127.0.0.1:8400/bye" + query.replacing("STATE", with: state)
    guard case .refused(let error) = await rig.broker.handleCallback(url: url) else {
      Issue.record("taken: \(query)")
      return
    }
    #expect(error.message.contains("logout") || query.hasPrefix("?state=STATE&"))
    #expect(!error.message.contains(state))
    #expect(await rig.reason { try await rig.call(LoginHandleCallback.self, .init(url: url)) } == .invalidCallback)
  }

  @Test("A state is valid only at its own URL, for an hour")
  func elsewhere() async throws {
    let rig = try await rig(returnTo: "http://127.0.0.1/bye")
    let state = try #require(try await logout(rig)["state"])
    for place in ["http://127.0.0.1:8400/callback", "http://127.0.0.1:8401/bye", "http://evil.example/bye"] {
      #expect(await rig.broker.handleCallback(url: "\(place)?state=\(state)").kind == .refused)
    }
    let url = "http://127.0.0.1:8400/bye?state=\(state)"
    // A reload of the page has no effect, and is not an error.
    for _ in 1...2 { #expect(await rig.broker.handleCallback(url: url).kind == .signedOut) }
    rig.clock.advance(.seconds(3601))
    #expect(await rig.broker.handleCallback(url: url).kind == .refused)
    #expect(await rig.broker.logout.sessions.count == 0)
  }

  @Test("A login at the same address is not disturbed")
  func login() async throws {
    let rig = try await rig(returnTo: "http://127.0.0.1/callback")
    let login = try await rig.start(account: "other")
    let state = try #require(try await logout(rig)["state"])
    let back = "http://127.0.0.1:8400/callback?state=\(state)"
    #expect(await rig.broker.handleCallback(url: back).kind == .signedOut)
    #expect(await rig.broker.handleCallback(url: "http://127.0.0.1:8400/callback?state=x").kind == .refused)
    #expect(try await rig.waitFor(login).state == .pending)
    #expect(await rig.callBack(login).kind == .completed)
  }

  @Test("How many are remembered is bounded: the oldest goes")
  func bounded() async throws {
    let rig = try await rig(returnTo: "http://127.0.0.1/bye")
    let saved = try #require(await rig.broker.accounts[account("work")]?.saved)
    var states: [String] = []
    for _ in 0...Limit.endings {
      let url = try await rig.broker.logout.sessions.begin(of: saved)
      states.append(try #require(URLComponents(string: url)?.queryItems?.first { $0.name == "state" }?.value))
    }
    #expect(await rig.broker.logout.sessions.count == Limit.endings)
    let outcomes = [
      await rig.broker.handleCallback(url: "http://127.0.0.1:8400/bye?state=\(states[0])").kind,
      await rig.broker.handleCallback(url: "http://127.0.0.1:8400/bye?state=\(states[1])").kind,
    ]
    #expect(outcomes == [.refused, .signedOut])
  }
}
