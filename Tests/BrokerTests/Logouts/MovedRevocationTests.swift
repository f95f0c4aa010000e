import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A provider that a reload moves to another server while tokens have still to be revoked: the promise to revoke them is
/// kept at the server that issued them, and no other learns them.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct MovedRevocationTests {
  private func configuration(
    _ server: Server, accounts: [String] = [], isDiscovered: Bool = false
  ) -> BrokerConfiguration {
    .at(server, accounts: accounts, isDiscovered: isDiscovered)
  }

  /// Signed in to the account `work` at the first server.
  private func rig(store: MemoryStore = MemoryStore(), isDiscovered: Bool = false) async throws -> Rig {
    let rig = try await Rig.ofServers(configuration(.first, isDiscovered: isDiscovered), store: store)
    _ = try await rig.start()
    let login = try #require(rig.store.logins.first)
    let url = "\(login.redirectURI)?code=code-of-a.example&state=\(login.state.exposed)"
    #expect(await rig.broker.handleCallback(url: url).kind == .completed)
    return rig
  }

  private func logout(_ rig: Rig) async throws -> [String] {
    try await rig.call(AccountLogout.self, .init(account: "work")).steps.map(\.result)
  }

  /// Everything is tried that waits.
  private func retry(_ rig: Rig) async {
    rig.clock.advance(.seconds(3600))
    _ = await rig.broker.tick()
    await settle()
  }

  private func revoked(_ rig: Rig) -> [String] {
    rig.transport.requests(.revocation).compactMap { $0.form["token"] }
  }

  @Test("A token waits for its own server, over a restart too, and is revoked there", arguments: [true, false])
  func waits(_ restarts: Bool) async throws {
    var rig = try await rig()
    rig.transport.answer(.revocation, TokenServer.failing(.notSent))
    #expect(try await logout(rig) == ["queued", "queued", "done"])
    if restarts {
      rig = try await Rig.ofServers(configuration(.second), store: rig.store)
    } else {
      try await rig.reload(configuration(.second))
    }
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 200) }
    for _ in 0..<3 { await retry(rig) }
    #expect(rig.astray.isEmpty && rig.store.revocations.count == 2)
    try await rig.reload(configuration(.first))
    await retry(rig)
    #expect(await eventually { rig.store.revocations.isEmpty })
    #expect(Set(revoked(rig)) == ["access-1-of-a.example", "refresh-1-of-a.example"] && rig.astray.isEmpty)
  }

  @Test("One that never comes back is given up after a week")
  func givenUp() async throws {
    let rig = try await rig()
    rig.transport.answer(.revocation, TokenServer.failing(.notSent))
    _ = try await logout(rig)
    try await rig.reload(configuration(.second))
    let sent = rig.transport.count(.revocation)
    for _ in 0..<200 where !rig.store.revocations.isEmpty { await retry(rig) }
    #expect(rig.store.revocations.isEmpty && rig.transport.count(.revocation) == sent && rig.astray.isEmpty)
  }

  @Test("A revocation that waits for metadata asks no other server")
  func metadata() async throws {
    let rig = try await rig(isDiscovered: true)
    try await rig.reload(configuration(.first, isDiscovered: true))
    rig.transport.hold(.discovery)
    let logout = Task { try await self.logout(rig) }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    try await rig.reload(configuration(.second, isDiscovered: true))
    rig.transport.release(.discovery)
    #expect(try await logout.value == ["queued", "queued", "done"])
    #expect(rig.transport.count(.revocation) == 0 && rig.astray.isEmpty)
  }

  @Test("A logout after the reload knows whose tokens they are")
  func after() async throws {
    let rig = try await rig()
    try await rig.reload(configuration(.second))
    #expect(try await logout(rig) == ["queued", "queued", "done"])
    #expect(rig.transport.count(.revocation) == 0 && rig.store.revocations.count == 2)
  }

  @Test("An undeclared account leaves its token with its own server, even if the provider moves")
  func declared() async throws {
    let rig = try await Rig.ofServers(configuration(.first, accounts: ["robot"]))
    _ = try await rig.token("robot")
    try await rig.reload(configuration(.second))
    await retry(rig)
    #expect(rig.transport.count(.revocation) == 0 && rig.astray.isEmpty)
    #expect(rig.store.revocations.map(\.token) == [Secret("access-1-of-a.example")])
  }

  @Test("An answer of the earlier server to a refresh of a removed account is sent to no other server")
  func late() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    rig.clock.advance(.seconds(3590))
    let caller = Task { try? await rig.token("work") }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    _ = try await rig.call(AccountLogout.self, .init(account: "work", revoke: false))
    try await rig.reload(configuration(.second))
    rig.transport.release(.token)
    _ = await caller.value
    #expect(await eventually { rig.store.revocations.map(\.token) == [Secret("refresh-2-of-a.example")] })
    await retry(rig)
    #expect(rig.transport.count(.revocation) == 0 && rig.astray.isEmpty)
  }

  @Test("A browser takes the ID token to the server of the login, or nowhere", arguments: [true, false])
  func session(_ moves: Bool) async throws {
    let rig = try await Rig.ofServers(.plain([OAuthProvider(Server.first.settings())]))
    _ = try await rig.start()
    let login = try #require(rig.store.logins.first)
    let url = "\(login.redirectURI)?code=code-of-a.example&state=\(login.state.exposed)"
    #expect(await rig.broker.handleCallback(url: url).kind == .completed)
    try await rig.reload(.plain([OAuthProvider(moves ? Server.second.settings() : Server.first.settings())]))
    let result = try await rig.call(AccountLogout.self, .init(account: "work", revoke: false, end_session: true))
    #expect(result.end_session_url?.hasPrefix("https://a.example/out") ?? false == !moves)
    #expect(result.steps.first?.result == (moves ? "unsupported" : "opened"))
  }
}
