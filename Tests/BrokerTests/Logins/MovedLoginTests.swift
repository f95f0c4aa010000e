import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A provider that a reload moves to another server while a login is under way: what is for one server, or came from it,
/// never goes to the other.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct MovedLoginTests {
  private func configuration(_ server: Server, isDiscovered: Bool = false) -> BrokerConfiguration {
    let change = { (settings: inout ProviderSettings) in
      settings.authorization.par = .always
      settings.token.allowsPassword = true
    }
    return .plain([OAuthProvider(isDiscovered ? server.discovered(change) : server.settings(change))])
  }

  private func start(_ rig: Rig, _ kinds: [String] = ["browser"]) async throws -> LoginStart.Result {
    try await rig.call(LoginStart.self, .init(provider: "example", account: "work", destinations: kinds))
  }

  /// What the server brings the browser back with.
  private func callBack(_ login: SavedLogin, of server: Server = .first, _ rig: Rig) async -> CallbackOutcome.Kind {
    let url = "\(login.redirectURI)?code=code-of-\(server.host)&state=\(login.state.exposed)"
    return await rig.broker.handleCallback(url: url).kind
  }

  @Test(
    "A new login asks the current server after any wait",
    arguments: [HTTPRequest.Purpose.discovery, .par, .device])
  func starts(_ held: HTTPRequest.Purpose) async throws {
    let rig = try await Rig.ofServers(configuration(.first, isDiscovered: true))
    rig.transport.hold(held)
    let login = Task { try await start(rig, ["manual", "device"]) }
    #expect(await eventually { rig.transport.held(held) == 1 })
    try await rig.reload(configuration(.second, isDiscovered: true))
    rig.transport.release(held)
    let url = try await login.value.destinations.first?.url
    #expect(url?.contains("https://b.example/authorize") == true && url?.contains("request-of-b.example") == true)
    #expect(rig.store.logins.map(\.device?.deviceCode) == [Secret("device-of-b.example")])
    #expect(rig.store.logins.count == 1 && rig.astray.isEmpty)
  }

  @Test("A code for the earlier server is not sent to the current one", arguments: [true, false])
  func callback(_ waitsForMetadata: Bool) async throws {
    let rig = try await Rig.ofServers(configuration(.first, isDiscovered: waitsForMetadata))
    let started = try await start(rig)
    let login = try #require(rig.store.logins.first)
    if waitsForMetadata {
      try await rig.reload(configuration(.first, isDiscovered: true))
      rig.transport.hold(.discovery)
      let callback = Task { await callBack(login, rig) }
      #expect(await eventually { rig.transport.held(.discovery) == 1 })
      try await rig.reload(configuration(.second, isDiscovered: true))
      rig.transport.release(.discovery)
      #expect(await callback.value == .failed)
    } else {
      try await rig.reload(configuration(.second))
      #expect(await callBack(login, rig) == .failed)
    }
    #expect(rig.transport.count(.token) == 0 && rig.astray.isEmpty && rig.store.logins.isEmpty)
    #expect(await rig.reason { try await rig.waitFor(started) } == .loginExpired)
    _ = try await start(rig)
    let next = try #require(rig.store.logins.first)
    #expect(await callBack(next, of: .second, rig) == .completed)
    #expect(rig.astray.isEmpty)
  }

  @Test("Nor does a code that is being spent on disk")
  func exchanging() async throws {
    let rig = try await Rig.ofServers(configuration(.first))
    _ = try await start(rig)
    let login = try #require(rig.store.logins.first)
    rig.store.set(.hangs) { $0.contains { if case .removeLogin = $0 { true } else { false } } }
    let callback = Task { await callBack(login, rig) }
    #expect(await eventually { rig.store.hanging == 1 })
    try await rig.reload(configuration(.second))
    rig.store.set(.works)
    #expect(await callback.value == .failed)
    #expect(rig.transport.count(.token) == 0 && rig.astray.isEmpty && rig.store.logins.isEmpty)
  }

  @Test("A reload that leaves the server ends no login")
  func stays() async throws {
    let rig = try await Rig.ofServers(configuration(.first))
    _ = try await start(rig)
    try await rig.reload(configuration(.first))
    let login = try #require(rig.store.logins.first)
    #expect(await callBack(login, rig) == .completed)
  }

  @Test("The code of a login on another device goes to no other server", arguments: [true, false])
  func device(_ waitsForMetadata: Bool) async throws {
    let rig = try await Rig.ofServers(configuration(.first, isDiscovered: waitsForMetadata))
    let login = try await start(rig, ["device"])
    #expect(await eventually { rig.clock.sleepers >= 1 })
    if waitsForMetadata {
      try await rig.reload(configuration(.first, isDiscovered: true))
      rig.transport.hold(.discovery)
      rig.clock.advance(.seconds(5))
      #expect(await eventually { rig.transport.held(.discovery) == 1 })
      try await rig.reload(configuration(.second, isDiscovered: true))
      rig.transport.release(.discovery)
    } else {
      try await rig.reload(configuration(.second))
      rig.clock.advance(.seconds(5))
    }
    #expect(await eventually { await rig.reason { try await rig.waitFor(login) } == .loginExpired })
    #expect(rig.transport.count(.token) == 0 && rig.astray.isEmpty)
  }

  @Test("A password is sent only to the server for which it was typed")
  func password() async throws {
    let rig = try await Rig.ofServers(configuration(.first, isDiscovered: true))
    rig.transport.hold(.discovery)
    let password = SecretText("password-of-a.example")
    let call = Task {
      await rig.reason {
        try await rig.call(
          LoginPassword.self, .init(provider: "example", account: "work", username: "work", password: password))
      }
    }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    try await rig.reload(configuration(.second, isDiscovered: true))
    rig.transport.release(.discovery)
    #expect(await call.value == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test("A login that continues with a choice stays at its own server")
  func continues() async throws {
    let rig = try await Rig.ofServers(.at(.first))
    rig.transport.answer(.token) { _ in reply("{}", status: 419) }
    let started = try await start(rig)
    let login = try #require(rig.store.logins.first)
    _ = await rig.broker.handleCallback(
      url: "\(login.redirectURI)?code=code-of-a.example&state=\(login.state.exposed)")
    #expect(try await rig.waitFor(started).state == .actionRequired)
    try await rig.reload(.at(.second))
    let reason = await rig.reason {
      try await rig.call(LoginContinue.self, .init(login_id: started.login_id, session_id: "s1"))
    }
    #expect(reason == .loginExpired)
    #expect(rig.transport.count(.token) == 1 && rig.astray.isEmpty)
  }

  @Test("An imported refresh token is not sent to a server that took over the provider's name")
  func imports() async throws {
    let store = MemoryStore()
    let rig = try await Rig.ofServers(configuration(.first), store: store)
    await rig.broker.journal.lock(account("work"))
    let token = SecretText("refresh-0-of-a.example")
    let call = Task {
      await rig.reason {
        try await rig.call(AccountImport.self, .init(account: "work", provider: "example", refresh_token: token))
      }
    }
    await settle()
    try await rig.reload(configuration(.second))
    await rig.broker.journal.unlock(account("work"))
    #expect(await call.value == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == 0 && store.grant("work") == nil)
  }
}
