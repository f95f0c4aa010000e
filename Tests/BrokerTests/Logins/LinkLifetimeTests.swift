import BrokerAPI
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A pushed request is forgotten after a while (RFC 9126 §2.2), and the link with it.
@Suite("How long a login's link is good", .scheduled, .timeLimit(.minutes(5))) struct LinkLifetimeTests {
  private func rig(expiresIn seconds: Int) async throws -> Rig {
    let settings = ProviderSettings.plain { settings in
      settings.authorization.par = .always
      settings.server.endpoints[.pushedAuthorizationRequest] = "https://id.example/par"
      settings.server.endpoints[.deviceAuthorization] = "https://id.example/device"
    }
    let rig = try await Rig(configuration: .plain([OAuthProvider(settings)]))
    rig.transport.answer(.par) { _ in
      reply(#"{"request_uri":"urn:example:1","expires_in":\#(seconds)}"#, status: 201)
    }
    rig.transport.answer(.device) { _ in
      reply(
        #"{"device_code":"d","user_code":"AB","verification_uri":"https://id.example/device","expires_in":1800}"#)
    }
    return rig
  }

  private func after(_ seconds: Int64) -> Int64 { ManualClock.start.seconds + seconds }

  @Test("A link has an expiry, and a warning announces an early one")
  func short() async throws {
    let rig = try await rig(expiresIn: 60)
    let login = try await rig.start()
    #expect(login.destinations.map(\.kind) == ["browser", "manual"])
    #expect(login.destinations.map(\.expires_at) == [after(60), after(60)])
    #expect(login.warnings.count == 1 && login.warnings[0].contains("60 s"), "\(login.warnings)")
  }

  @Test("No warning where the link lives nearly as long as the login")
  func long() async throws {
    let login = try await rig(expiresIn: 500).start()
    #expect(login.destinations.map(\.expires_at) == [after(500), after(500)] && login.warnings.isEmpty)
  }

  @Test("A link without expiry shows none")
  func plain() async throws {
    let login = try await Rig().start()
    #expect(login.destinations.map(\.expires_at) == [nil, nil] && login.warnings.isEmpty)
  }

  @Test("A code for another device keeps its own time")
  func device() async throws {
    let rig = try await rig(expiresIn: 60)
    let login = try await rig.call(
      LoginStart.self, .init(provider: "example", account: "work", destinations: ["device", "browser"]))
    #expect(login.destinations.map(\.kind) == ["device", "browser"])
    #expect(login.destinations.map(\.expires_at) == [after(1800), after(60)] && login.expires_at == after(1800))
  }

  /// The link must be opened in that time; the sign-in of the user may take longer (RFC 9126 §4).
  @Test("Who opened the link in time may take the login's own time to sign in")
  func signingIn() async throws {
    let rig = try await rig(expiresIn: 60)
    let login = try await rig.start()
    let state = try #require(rig.store.logins.first?.state.exposed)
    rig.clock.advance(.seconds(90))
    _ = await rig.broker.tick()
    await settle()
    let url = "\(login.destinations[0].redirect_uri ?? "")?code=work&state=\(state)"
    #expect(await rig.broker.handleCallback(url: url).kind == .completed)
  }
}
