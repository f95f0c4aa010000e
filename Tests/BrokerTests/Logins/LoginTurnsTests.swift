import BrokerAPI
import Grants
import Testing

@testable import Broker

@Suite struct LoginTurnsTests {
  private let name = ProviderName(rawValue: "cameras")!

  @Test("After a login the next turn is a refused holder's, until the reservation ends")
  func turns() {
    var turns = LoginTurns()
    #expect(turns.next(before: .user(1), at: name, now: .zero) == nil)
    turns.refused(.user(1), at: name, by: .user(1), now: .zero)
    #expect(turns.next(before: .user(1), at: name, now: .zero) == nil, "its own login keeps nobody else waiting")
    turns.refused(.user(2), at: name, by: .user(1), now: .seconds(1))
    turns.refused(.user(3), at: name, by: .user(1), now: .seconds(2))
    #expect(turns.next(before: .user(1), at: name, now: .seconds(3)) == .user(2))
    #expect(turns.next(before: .user(3), at: name, now: .seconds(3)) == nil)
    #expect(turns.next(before: .user(1), at: name, now: .seconds(12)) == .user(2))
    #expect(turns.next(before: .user(1), at: name, now: .seconds(13)) == nil, "it did not come")
    turns.started(at: name)
    #expect(turns.next(before: .user(1), at: name, now: .seconds(14)) == nil)
  }

  @Test("One that gave up long ago has no turn")
  func patience() {
    var turns = LoginTurns()
    turns.refused(.user(2), at: name, by: .user(1), now: .zero)
    #expect(turns.next(before: .user(1), at: name, now: LoginTurns.patience) == nil)
    turns.refused(.user(3), at: name, by: .user(1), now: LoginTurns.patience)
    #expect(turns.next(before: .user(1), at: name, now: LoginTurns.patience) == .user(3))
  }
}
