import Grants
import OAuth
import Testing

@testable import Broker

@Suite struct MomentHeapTests {
  @Test("After any changes the earliest comes first and each account once", arguments: 1...20)
  func model(_ seed: UInt64) {
    var random = seed
    func below(_ bound: Int) -> Int {
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(random >> 33) % bound
    }
    var heap = MomentHeap<AccountName>()
    var model: [AccountName: Timestamp] = [:]
    func first() -> AccountName? { model.min { ($0.value, $0.key) < ($1.value, $1.key) }?.key }
    for _ in 0..<2000 {
      let name = account("a\(below(50))")
      switch below(5) {
      case 0, 1:
        let moment = Timestamp(seconds: Int64(below(20)))
        heap.set(name, to: moment)
        model[name] = moment
      case 2:
        heap.remove(name)
        model[name] = nil
      case 3:
        #expect(heap.popFirst()?.key == first())
        if let first = first() { model[first] = nil }
      default:
        let some = heap.prefix(3)
        #expect(some == model.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.prefix(3).map(\.key))
      }
      #expect(heap.first()?.key == first() && heap.count == model.count)
      #expect(heap.contains(name) == (model[name] != nil))
    }
  }
}
