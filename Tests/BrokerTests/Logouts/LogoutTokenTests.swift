import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Which accounts a logout token of the provider ends.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct LogoutTokenTests {
  private func rig(
    scopes: [String] = ["read"], declares: Bool = false, _ change: (inout SavedGrant) -> Void = { _ in }
  ) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", scopes: scopes)
    var grant = try #require(store.grant("work"))
    change(&grant)
    try await store.commit([.putGrant(grant)])
    var configuration = BrokerConfiguration.plain([NamingProvider(.plain { $0.logout.backchannel = true })])
    if declares {
      configuration.accounts = [
        DeclaredAccount(name: account("work"), provider: provider("example"), source: .clientCredentials)
      ]
    }
    return try await Rig(store: store, configuration: configuration)
  }

  private func isSignedIn(_ rig: Rig) async throws -> Bool { try await rig.view("work").state == .ok }

  @Test("One that was taken is refused")
  func once() async throws {
    let rig = try await rig()
    #expect(await rig.signOutAtProvider() == .taken)
    #expect(try await !isSignedIn(rig))
    #expect(await rig.callBack(try await rig.start()).kind == .completed)
    guard case .refused = await rig.signOutAtProvider() else { Issue.record("it was taken again"); return }
    #expect(try await isSignedIn(rig))
    #expect(await rig.signOutAtProvider(number: 2) == .taken)
    #expect(try await !isSignedIn(rig))
  }

  @Test("One of another session ends nothing")
  func session() async throws {
    let rig = try await rig { $0.idToken = Secret(unsignedToken(#""sid":"s1""#)) }
    #expect(await rig.signOutAtProvider(session: "s2", number: 1) == .taken)
    #expect(try await isSignedIn(rig))
    #expect(await rig.signOutAtProvider(session: "s1", number: 2) == .taken)
    #expect(try await !isSignedIn(rig))
  }

  @Test("A declared account does not end with a user's session")
  func unattended() async throws {
    let rig = try await rig(declares: true) { $0.kind = .clientCredentials }
    #expect(try await isSignedIn(rig))
    #expect(await rig.signOutAtProvider() == .taken)
    #expect(try await isSignedIn(rig))
    #expect(rig.store.grant("work")?.standing == .good && rig.store.revocations.isEmpty)
  }

  @Test("Offline access goes on after the session")
  func offline() async throws {
    let rig = try await rig(scopes: ["read", "offline_access"])
    #expect(await rig.signOutAtProvider() == .taken)
    #expect(try await isSignedIn(rig))
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1") && rig.store.revocations.isEmpty)
  }
}
