import Principals
import Synchronization
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct EntranceTests {
  /// The holders in the order in which they entered.
  private final class Served: Sendable {
    let holders = Mutex<[Holder]>([])
  }

  /// Returns when the request waits.
  private static func ask(_ holder: Holder, _ entrance: Entrance, _ served: Served) async {
    Task {
      guard await entrance.enter(holder) else { return }
      served.holders.withLock { $0.append(holder) }
      entrance.release()
    }
    await settle()
  }

  @Test("a user with hundreds of requests delays another user by one turn") func turns() async {
    let entrance = Entrance()
    for _ in 0..<Entrance.most { #expect(await entrance.enter(.user(1000))) }
    let served = Served()
    for unit in 0..<200 { await Self.ask(.unit("\(unit % 4).service", user: 1000), entrance, served) }
    await Self.ask(.user(1001), entrance, served)
    entrance.release()
    await settle()
    let place = served.holders.withLock { $0.firstIndex(of: .user(1001)) }
    #expect(place.map { $0 < 3 } == true)
    for _ in 1..<Entrance.most { entrance.release() }
    #expect(entrance.counts.inside == 0 && entrance.counts.waiting == 0)
  }

  @Test("a holder has a quarter of the places of waiting requests") func full() async {
    let entrance = Entrance()
    for _ in 0..<Entrance.most { #expect(await entrance.enter(.user(1000))) }
    let served = Served()
    for _ in 0..<Entrance.mostWaiting / 4 { await Self.ask(.user(1000), entrance, served) }
    #expect(await !entrance.enter(.user(1000)))
    await Self.ask(.user(1001), entrance, served)
    for _ in 0..<Entrance.most { entrance.release() }
    await settle()
    #expect(served.holders.withLock { $0.count } == Entrance.mostWaiting / 4 + 1)
    #expect(entrance.counts.inside == 0 && entrance.counts.waiting == 0)
  }

  @Test("requests of four units of a user take the turns of one user") func units() {
    var turns = GroupedRoundRobin<Holder, Holder, Int>()
    for number in 0..<400 {
      let holder = Holder.unit("\(number % 4)", user: 1000)
      turns.append(number, for: holder, of: holder.user)
    }
    for number in 1000..<1010 { turns.append(number, for: .user(1001), of: .user(1001)) }
    let first = (0..<20).compactMap { _ in turns.popFirst() }
    #expect(first.filter { $0.key == .user(1001) }.count == 10)
    #expect(Set(first.filter { $0.key != .user(1001) }.map(\.key)).count == 4)
    #expect(turns.groupCount == 1 && turns.count == 390)
  }
}
