import BrokerAPI
import Grants
import OAuth
import Testing

@testable import Broker

/// How many requests may wait, and whose.
@Suite(.timeLimit(.minutes(2))) struct WaiterTests {
  @Test("One user whose requests all wait keeps nobody else from waiting")
  func share() async throws {
    let rules = [1000, 1001].map { (uid: UInt32) in
      Rule(name: "\(uid)", uid: uid, gid: nil, accounts: ["*"], access: [.use])
    }
    var configuration = BrokerConfiguration.plain(rules: rules)
    configuration.accounts = [.robot(ExchangeSource(from: account("work")))]
    let rig = try await Rig(store: .expired("work", "home"), configuration: configuration)
    rig.transport.answer(.token, TokenServer.trading)
    rig.transport.hold(.token)
    func ask(_ name: String, _ uid: UInt32) -> Task<ErrorReason?, Never> {
      Task {
        await rig.reason {
          try await rig.call(TokenGet.self, .init(account: name, timeout: 300), as: .user(uid))
        }
      }
    }
    let crowd = (0..<Limit.waitersPerHolder + 50).map { _ in ask("work", 1000) }
    #expect(await eventually { await rig.broker.runtime.waiters.count >= Limit.waitersPerHolder })
    await settle()
    let before = await rig.broker.runtime.waiters.count
    // Another user waits, and so does the broker for a token that it trades.
    let others = [ask("home", 1001), ask("robot", 1001)]
    #expect(await eventually { await rig.broker.runtime.waiters.count == before + 3 })
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.release(.token)
    for other in others { #expect(await other.value == nil) }
    var reasons: [ErrorReason?: Int] = [:]
    for caller in crowd { reasons[await caller.value, default: 0] += 1 }
    #expect(reasons == [nil: Limit.waitersPerHolder, .overloaded: 50])
    // The places are free again.
    rig.transport.hold(.token)
    _ = Task { try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 2), as: .user(1000)) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let again = ask("work", 1000)
    rig.transport.release(.token)
    #expect(await again.value == nil)
  }
}
