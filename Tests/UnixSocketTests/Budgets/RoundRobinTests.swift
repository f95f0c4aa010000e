import Listening
import Principals
import Testing

@testable import UnixSocket

@Suite struct RoundRobinTests {
  @Test("the keys take turns, and each key's elements come in their order") func turns() {
    var turns = RoundRobin<String, Int>()
    for number in 0..<3 { turns.append(number, for: "a") }
    turns.append(10, for: "b")
    for number in 20..<22 { turns.append(number, for: "c") }
    #expect(turns.keys == 3 && turns.count == 6)
    var taken: [Int] = []
    while let next = turns.popFirst() { taken.append(next.element) }
    #expect(taken == [0, 10, 20, 1, 21, 2])
    #expect(turns.isEmpty && turns.keys == 0)
  }

  @Test("a key that may not have a turn is passed over and keeps its place") func passedOver() {
    var turns = RoundRobin<String, Int>()
    for (key, number) in [("a", 1), ("b", 2), ("a", 3)] { turns.append(number, for: key) }
    #expect(turns.popFirst { $0 != "a" }?.element == 2)
    #expect(turns.popFirst { $0 != "a" } == nil)
    #expect(turns.count == 2)
    #expect(turns.popFirst()?.element == 1)
    #expect(turns.popFirst()?.element == 3)
  }

  @Test("a key that arrives while others have thousands waiting has the next turn", arguments: 1...5)
  func random(seed: UInt64) {
    var numbers = Seeded(state: seed)
    var turns = RoundRobin<Int, Int>()
    var expected: [Int: [Int]] = [:]
    for step in 0..<20_000 {
      let key = Int.random(in: 0..<5, using: &numbers)
      if Int.random(in: 0..<10, using: &numbers) < 6 {
        turns.append(step, for: key)
        expected[key, default: []].append(step)
      } else if let (key, element) = turns.popFirst() {
        #expect(expected[key]?.removeFirst() == element)
      }
    }
    let left = expected.values.reduce(0) { $0 + $1.count }
    #expect(turns.count == left)
    turns.append(-1, for: 99)
    let newcomer = (1...turns.keys).first { _ in turns.popFirst()?.key == 99 }
    #expect(newcomer != nil)
  }
}
