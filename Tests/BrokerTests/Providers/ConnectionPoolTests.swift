import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Which requests share connections.
@Suite(.scheduled) struct ConnectionPoolTests {
  private func pool(_ use: ConnectionPool.Use, _ size: Int) -> ConnectionPool {
    ConnectionPool(provider("example"), use, size: size)
  }

  @Test("A caller's check uses no connections of refreshes or logins")
  func uses() async throws {
    let store = try await MemoryStore.expired("work")
    let settings = ProviderSettings.plain { $0.api.base = URL(string: "https://api.example/") }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
    rig.transport.answer(.resource) { _ in reply("{}") }
    _ = try await rig.call(RequestSend.self, .init(account: "work", method: "GET", url: "https://api.example/me"))
    #expect(rig.transport.pools(.token) == [pool(.refreshes, 2 * 8 + Limit.lateAnswers + 2)])
    #expect(rig.transport.pools(.resource) == [pool(.callers, Limit.callerConnections + 2 * Limit.callsPerHolder)])
    let login = try await rig.call(LoginStart.self, .init(provider: "example", account: "home"))
    _ = await rig.broker.handleCallback(url: login.callback(code: "home"))
    let exchanges = pool(.exchanges, Limit.pendingLogins + 2 * Limit.pendingLoginsPerHolder)
    #expect(rig.transport.pools(.token).last == exchanges)
    _ = try await rig.call(AccountLogout.self, .init(account: "home"))
    #expect(rig.transport.pools(.revocation).first == pool(.revocations, 2 * Limit.revocationsAtOnce))
  }

  @Test("Metadata and keys are a refresh's, and the number of connections follows the configuration")
  func sizes() async throws {
    let store = try await MemoryStore.expired("work", "home")
    let providers = [OAuthProvider(.discovered())]
    let rig = try await Rig(store: store, configuration: .plain(providers) { $0.concurrentPerProvider = 64 })
    _ = try await rig.token("work")
    let first = pool(.refreshes, 2 * 64 + Limit.lateAnswers + 2)
    #expect(rig.transport.pools(.discovery) == [first] && rig.transport.pools(.token) == [first])
    rig.reading.value = .success(.plain(providers) { $0.concurrentPerProvider = 2 })
    _ = try await rig.call(BrokerReload.self, .init())
    _ = try await rig.token("home")
    #expect(rig.transport.pools(.token).last == pool(.refreshes, 2 * 2 + Limit.lateAnswers + 2))
  }
}
