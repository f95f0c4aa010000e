import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Answers in the fragment of an address, which the callback endpoint has to ask a page for.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct FragmentTests {
  private func settings(_ redirect: String = "http://127.0.0.1:8400/callback") throws -> ProviderSettings {
    let uri = try RedirectURI(redirect)
    return .plain { settings in
      settings.client.redirect = .fixed(uri)
      settings.signIn.isImplicit = true
    }
  }

  private func rig(_ settings: ProviderSettings, origin: String? = nil) async throws -> Rig {
    var configuration = BrokerConfiguration.plain([OAuthProvider(settings)])
    configuration.publicOrigin = origin
    return try await Rig(configuration: configuration)
  }

  static let addresses: [(url: String, isAwaited: Bool)] = [
    ("http://127.0.0.1:8400/callback", true), ("http://127.0.0.1:8400/callback?", false),
    ("http://127.0.0.1:8400/callback?error=access_denied", false), ("http://127.0.0.1:8400/callback?code=1", false),
    ("http://localhost:8400/callback", false), ("http://127.0.0.1:8401/callback", false),
    ("http://127.0.0.1:8400/other", false), ("https://127.0.0.1:8400/callback", false), ("", false),
  ]

  @Test("A fragment is awaited exactly where the login's answer comes", arguments: addresses)
  func awaited(url: String, isAwaited: Bool) async throws {
    let rig = try await rig(try settings())
    #expect(await !rig.broker.awaitsFragment(url: url))
    _ = try await rig.start()
    #expect(await rig.broker.awaitsFragment(url: url) == isAwaited)
  }

  @Test(
    "A registered redirect URI with its own parameters is accepted only with them",
    arguments: [
      ("https://broker.example.com/cb?of=demo", true), ("https://broker.example.com/cb", false),
      ("https://broker.example.com/cb?of=demo&error=access_denied", false),
      ("https://broker.example.com/cb?error=access_denied&of=demo", false),
    ])
  func ownQuery(url: String, isAwaited: Bool) async throws {
    let rig = try await rig(
      try settings("https://broker.example.com/cb?of=demo"), origin: "https://broker.example.com")
    _ = try await rig.start()
    #expect(await rig.broker.awaitsFragment(url: url) == isAwaited)
  }

  @Test("Nothing is awaited of a provider that answers by codes, after the login's end, and while the broker ends")
  func notAwaited() async throws {
    let url = "http://127.0.0.1:8400/callback"
    let plain = try await Rig()
    _ = try await plain.start()
    #expect(await !plain.broker.awaitsFragment(url: url))

    let rig = try await rig(try settings())
    let login = try await rig.start()
    let state = try #require(login.query["state"])
    #expect(
      await rig.broker.handleCallback(url: "\(url)#access_token=at&token_type=Bearer&state=forged").kind == .refused)
    #expect(await rig.broker.awaitsFragment(url: url))
    let outcome = await rig.broker.handleCallback(url: "\(url)#access_token=at&token_type=Bearer&state=\(state)")
    #expect(outcome.isCompleted("work"))
    #expect(await !rig.broker.awaitsFragment(url: url))

    _ = try await rig.start()
    await rig.broker.drain(until: .zero)
    #expect(await !rig.broker.awaitsFragment(url: url))
  }

  @Test(
    "A browser is sent to an address of the web where a proxy passes it on, and by hand where none does",
    arguments: [
      ("https://broker.example.com/callback", "https://broker.example.com" as String?, true),
      ("https://Broker.example.com:443/callback", "https://broker.example.com", true),
      ("https://broker.example.com/callback", nil, false),
      ("https://broker.example.com.evil.example/callback", "https://broker.example.com", false),
      ("https://broker.example.com:8443/callback", "https://broker.example.com", false),
      ("https://broker.example.com:8443/callback", "https://broker.example.com:8443", true),
    ])
  func publicAddress(redirect: String, origin: String?, isReached: Bool) async throws {
    var settings = ProviderSettings.plain()
    settings.client.redirect = .fixed(try RedirectURI(redirect))
    let rig = try await rig(settings, origin: origin)
    #expect(try await rig.start().destinations.map(\.kind) == (isReached ? ["browser", "manual"] : ["manual"]))
    let check = try await rig.call(ProviderCheck.self, .init(provider: "example"))
      .checks.first { $0.name == .redirect_uri }
    #expect(check?.result == .ok && check?.message.contains("proxy passes it on") == isReached)
    // Nothing is there to pass it on to.
    await rig.broker.callbackListens(port: nil, others: [], addresses: [])
    #expect(try await rig.start(account: "second").destinations.map(\.kind) == ["manual"])
  }
}
