import BrokerAPI
import Principals
import Testing

@testable import Broker

/// The hold of all releases.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct HoldTests {
  @Test("No token is released until the hold ends, not even to root; the rest goes on")
  func held() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rule = Rule(name: "alice", uid: 1000, gid: nil, accounts: ["work"], access: [.use, .idToken])
    let rig = try await Rig(store: store, configuration: .plain(rules: [rule]))
    #expect(rig.cached("work", as: .user(1000)) != nil)
    #expect(try await rig.call(BrokerLock.self, .init()).state == "held")
    for caller in [Caller.user(1000), .root] {
      #expect(rig.cached("work", as: caller) == nil)
      for kind in [nil, TokenKind.idToken] {
        let params = TokenGet.Params(account: "work", kind: kind)
        #expect(await rig.reason { try await rig.call(TokenGet.self, params, as: caller) } == .locked)
      }
    }
    #expect(await rig.reason { try await rig.token("work") } == .locked)
    #expect(try await rig.view("work").state == .ok)
    #expect(try await rig.call(BrokerUnlock.self, .init()).state == "released")
    #expect(rig.cached("work", as: .user(1000)) != nil)
  }
}
