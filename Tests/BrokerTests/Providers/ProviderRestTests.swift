import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Which answers make a provider's accounts rest, and which do not.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ProviderRestTests {
  private func names(_ count: Int) -> [String] { (0..<count).map { "account-\($0)" } }

  private func expired(_ count: Int) async throws -> MemoryStore {
    let store = MemoryStore()
    for name in names(count) { try await store.signIn(name, age: .seconds(4000)) }
    return store
  }

  private func connection(_ rig: Rig) async throws -> ProviderConnection {
    try #require(await rig.broker.providers[provider("example")])
  }

  @Test(
    "Metadata that are refused, as by a server that is starting, are asked for again soon",
    arguments: [
      HTTPResponse(status: 404),
      HTTPResponse(status: 403, headers: [.init("Content-Type", "text/html")], body: Data("<html>".utf8)),
    ])
  func refusedMetadata(_ refusal: HTTPResponse) async throws {
    let rig = try await Rig(store: expired(2), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.answer(.discovery) { _ in refusal }
    #expect(await rig.reason { try await rig.token("account-0") } == .temporarilyUnavailable)
    let connection = try await connection(rig)
    #expect(await connection.suspended == nil)
    #expect(await connection.diagnostics.lastError?.contains("\(refusal.status)") == true)
    rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
    rig.clock.advance(.seconds(5))
    #expect(try await rig.token("account-1").access_token == "account-1-a2")
    #expect(try await rig.token("account-0").access_token == "account-0-a2")
  }

  @Test(
    "A server that still has no metadata is a configuration error with its key; requests continue",
    arguments: [
      HTTPResponse(status: 404),
      HTTPResponse(status: 200, headers: [.init("Content-Type", "text/html")], body: Data("<html>".utf8)),
    ])
  func absentMetadata(_ answer: HTTPResponse) async throws {
    let rig = try await Rig(store: expired(2), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.answer(.discovery) { _ in answer }
    func error() async -> RPCError? {
      do { _ = try await rig.token("account-0") } catch { return error as? RPCError }
      return nil
    }
    var found = await error()
    #expect(found?.reason == .temporarilyUnavailable && found?.hint?.contains("`discovery = \"openid\"`") == true)
    for _ in 0..<4 {
      rig.clock.advance(.seconds(5))
      found = await error()
    }
    #expect(found?.reason == .providerMisconfigured && found?.hint?.contains("`discovery = \"openid\"`") == true)
    #expect(found?.message.contains("no metadata at https://id.example/.well-known/") == true)
    #expect(try await rig.view("account-0").last_error?.reason == .providerMisconfigured)
    let login = LoginStart.Params(provider: OAuthProviders.discovered.name.rawValue, account: "new")
    #expect(await rig.reason { try await rig.call(LoginStart.self, login) } == .providerMisconfigured)
    rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
    rig.clock.advance(.seconds(60))
    #expect(await eventually { (try? await rig.token("account-0").access_token) == "account-0-a2" })
  }

  @Test("Metadata of another issuer, as of a portal before the network, are looked at again when the network is back")
  func portal() async throws {
    let rig = try await Rig(store: expired(2), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.answer(.discovery) { _ in HTTPResponse(status: 302, headers: [.init("Location", "/portal")]) }
    #expect(await rig.reason { try await rig.token("account-0") } == .providerMisconfigured)
    rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
    await rig.broker.recheck(.networkUp)
    #expect(try await rig.token("account-0").access_token == "account-0-a2")
    #expect(try await rig.token("account-1").access_token == "account-1-a2")
  }

  @Test("A network that is back does not lift the rest of a provider that refuses the client")
  func refusedClient() async throws {
    let rig = try await Rig(store: expired(1), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    #expect(await rig.reason { try await rig.token("account-0") } == .providerMisconfigured)
    await rig.broker.recheck(.networkUp)
    await settle()
    #expect(try await rig.view("account-0").state == .degraded)
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("A request that could not be signed is not an outage: it continues")
  func unsigned() async throws {
    let rig = try await Rig(store: expired(6))
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    for name in names(5) { _ = await rig.reason { try await rig.token(name) } }
    let connection = try await connection(rig)
    #expect(await connection.gate.circuit.outage != nil)
    rig.clock.advance(.seconds(30))
    let outcome = ProviderFailure.misconfigured(message: "the key cannot sign", nil)
    await rig.broker.probe(provider("example"), account("account-5"), outcome)
    let gate = await connection.gate
    #expect(gate.circuit.outage != nil && gate.inFlight == 0)
    let refused = OAuthError(code: .invalidClient)
    rig.clock.advance(.seconds(30))
    await rig.broker.probe(provider("example"), account("account-5"), .misconfigured(message: "no", refused))
    #expect(await connection.gate.circuit.outage == nil)
  }

  @Test("An answer to the settings of before does not lift the rest of those of now")
  func lateSuccess() async throws {
    let rig = try await Rig(store: expired(4))
    rig.transport.answer(.token) { request throws(TransportError) in
      request.form["refresh_token"] != "account-0-r1"
        ? try TokenServer.refused("invalid_client", status: 401)(request) : TokenServer.granted(request, lifetime: 3600)
    }
    rig.transport.hold(.token)
    let late = Task { try await rig.token("account-0", timeout: 60) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    _ = try await rig.call(BrokerReload.self, NoParams())
    for name in names(4).dropFirst() {
      let refused = Task { await rig.reason { try await rig.token(name, timeout: 60) } }
      #expect(await eventually { rig.transport.held(.token) == 2 })
      rig.transport.releaseOne(.token, last: true)
      #expect(await refused.value == .providerMisconfigured)
    }
    rig.transport.release(.token)
    #expect(try await late.value.access_token == "account-0-a2")
    let connection = try await connection(rig)
    #expect(await connection.history.clientRefusals.rest(at: rig.clock.now) != nil)
  }

  @Test("The end of a grant concerns other accounts only if it shows the lifetime of refresh tokens")
  func learning() async throws {
    let rig = try await Rig(store: expired(3))
    let day: Int64 = 86_400
    func ended(after age: Int64) async throws -> (touched: Int, isSaved: Bool) {
      var saved = try #require(rig.store.grant("account-0"))
      let commits = rig.store.log.count
      saved.refreshTokenIssuedAt = rig.clock.now - .seconds(age)
      let placed = await rig.broker.engine.placed { await $0.refreshTokenEnded(saved) }
      return (placed, rig.store.log.count > commits)
    }
    #expect(try await ended(after: 60) == (0, false))
    #expect(try await ended(after: 30 * day) == (0, true))
    rig.clock.advance(.seconds(10 * day))
    #expect(try await ended(after: 30 * day) == (3, true))
    rig.clock.advance(.seconds(day))
    #expect(try await ended(after: 30 * day) == (0, true))
  }
}

extension RefreshEngine {
  /// The number of due accounts that the work places again.
  fileprivate func placed(by work: (RefreshEngine) async -> Void) async -> Int {
    queues = RefreshQueues()
    await work(self)
    return queues.providers.reduce(0) { $0 + (queues[$1].map { $0.due.count + $0.dueWithoutLoss.count } ?? 0) }
  }
}

extension Broker {
  /// Lets one request through to an unavailable provider, and ends it with this result.
  fileprivate func probe(_ name: ProviderName, _ account: AccountName, _ failure: ProviderFailure) {
    guard let connection = providers[name],
      case .go(let ticket) = connection.gate.admit(
        isWanted: true, accounts: 6, at: runtime.clock.uptime, policy: RefreshPolicy())
    else { return }
    engine.recordOutcome(account, ticket, .failure(failure), .init(connection, .init()))
  }
}
