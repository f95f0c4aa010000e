import BrokerAPI
import TestSupport
import Testing

@testable import Broker

@Suite("account.list", .scheduled, .timeLimit(.minutes(slowness > 1 ? 10 : 1))) struct ListTests {
  private func rig(_ count: Int) async throws -> Rig {
    let store = MemoryStore()
    for number in 0..<count { try await store.signIn("a\(number)") }
    return try await Rig(store: store, wholeAccounts: 1)
  }

  @Test("is made for one client of a user at a time, with a limited number of waiting requests")
  func waiting() async throws {
    let rig = try await rig(20)
    let asked = Limit.waitingLists + 20
    @Sendable func list() async -> ErrorReason? {
      await rig.reason { try await rig.call(AccountList.self, .init(), as: .user(0)) }
    }
    // On the actor: it has all requests before it runs the first.
    let requests = (0..<asked).map { _ in Task { @BrokerActor in await list() } }
    var outcomes: [ErrorReason?] = []
    for request in requests { outcomes.append(await request.value) }
    #expect(outcomes.count { $0 == nil } > Limit.waitingLists)
    #expect(outcomes.contains(.overloaded) && outcomes.allSatisfy { $0 == nil || $0 == .overloaded })
    #expect(try await rig.call(AccountList.self, .init()).accounts.count == 20)
  }

  @Test("has a maximum number of accounts, and names the first account of the next page")
  func pages() async throws {
    let rig = try await rig(Limit.listedAccounts + 500)
    for (limit, pages) in [(nil, [1000, 500]), (10_000, [1000, 500]), (900, [900, 600])] as [(Int?, [Int])] {
      var counts: [Int] = []
      var names: [String] = []
      var next: String?
      repeat {
        let page = try await rig.call(AccountList.self, .init(after: next, limit: limit))
        counts.append(page.accounts.count)
        names += page.accounts.map(\.account)
        next = page.next
      } while next != nil
      #expect(counts == pages && names == names.sorted() && Set(names).count == Limit.listedAccounts + 500)
    }
    for limit in [0, 10_001] {
      await #expect(throws: RPCError.self) { try await rig.call(AccountList.self, .init(limit: limit)) }
    }
  }

  @Test("is not made for a client that has gone")
  func gone() async throws {
    let rig = try await rig(3)
    let session = FakeSession(.root)
    #expect(try await rig.call(AccountList.self, .init(), on: session).accounts.count == 3)
    session.close()
    #expect(await rig.reason { try await rig.call(AccountList.self, .init(), on: session) } == .overloaded)
  }
}
