import BrokerAPI
import Grants
import Principals
import Testing

@testable import Broker

@Suite struct LoginQueueTests {
  private let place = "cameras://sign-in"

  @Test("After a login the next slot belongs to the first refused caller for a time, then to the next")
  func turns() {
    var turns = LoginQueue()
    #expect(turns.first(before: .user(1), at: place, now: .zero) == nil)
    turns.refused(.user(2), at: place, end: .seconds(600), now: .seconds(1))
    turns.refused(.user(3), at: place, end: .seconds(600), now: .seconds(2))
    turns.refused(.user(2), at: place, end: .seconds(600), now: .seconds(3))
    #expect(turns.first(before: .user(1), at: "another", now: .seconds(3)) == nil)
    // Two callers that alternate exclude no other caller, and neither does a later refused one.
    for other in [1, 3, 4] as [UInt32] {
      #expect(turns.first(before: .user(other), at: place, now: .seconds(4)) == .user(2))
    }
    #expect(turns.first(before: .user(2), at: place, now: .seconds(13)) == nil)
    turns.started(.user(2), at: place)
    #expect(turns.first(before: .user(2), at: place, now: .seconds(20)) == .user(3))
    #expect(turns.first(before: .user(2), at: place, now: .seconds(29)) == .user(3))
    #expect(turns.first(before: .user(2), at: place, now: .seconds(30)) == nil, "it did not come")
  }

  @Test("The units of a user have one slot in the queue") func units() {
    var turns = LoginQueue()
    let units = (0..<LoginQueue.most).map { Holder.unit("a\($0).service", user: 2) }
    for unit in units { turns.refused(unit, at: place, end: .seconds(600), now: .zero) }
    turns.refused(.user(3), at: place, end: .seconds(600), now: .zero)
    #expect(turns.first(before: .user(1), at: place, now: .seconds(1)) == .user(2))
    #expect(turns.first(before: units[9], at: place, now: .seconds(1)) == nil)
    #expect(turns.first(before: .user(2), at: place, now: .seconds(1)) == nil)
    turns.started(units[9], at: place)
    #expect(turns.first(before: units[0], at: place, now: .seconds(2)) == .user(3))
  }

  @Test("Who comes to the front as the one ahead gives up has a whole turn") func wholeTurn() {
    var turns = LoginQueue()
    turns.refused(.user(2), at: place, end: .zero, now: .zero)
    turns.refused(.user(3), at: place, end: .seconds(600), now: .zero)
    #expect(turns.first(before: .user(1), at: place, now: .seconds(55)) == .user(2))
    #expect(turns.first(before: .user(1), at: place, now: .seconds(61)) == .user(3))
    #expect(turns.first(before: .user(1), at: place, now: .seconds(70)) == .user(3))
    #expect(turns.first(before: .user(1), at: place, now: .seconds(71)) == nil)
  }

  @Test("A refused holder keeps its turn as long as the login ahead may last, and a minute more")
  func patience() {
    var turns = LoginQueue()
    turns.refused(.user(2), at: place, end: .seconds(600), now: .zero)
    #expect(turns.first(before: .user(1), at: place, now: .seconds(659)) == .user(2))
    turns = LoginQueue()
    turns.refused(.user(2), at: place, end: .seconds(600), now: .zero)
    #expect(turns.first(before: .user(1), at: place, now: .seconds(661)) == nil)
  }

  @Test("The queue has a bound") func bound() {
    var turns = LoginQueue()
    for user in 0..<UInt32(LoginQueue.most + 9) {
      turns.refused(.user(user), at: place, end: .zero, now: .zero)
    }
    var (now, passed) = (Duration.zero, 0)
    while turns.first(before: .user(.max), at: place, now: now) != nil, passed < 100 {
      passed += 1
      turns.started(.user(UInt32(passed - 1)), at: place)
      now += .milliseconds(1)
    }
    #expect(passed == LoginQueue.most)
  }
}
