import Grants
import OAuth
import Testing

@testable import Broker

@Suite struct RefreshQueueTests {
  private func place(
    _ end: Int64, due: Bool = true, good: Bool = true, stalled: Bool = false, canLose: Bool = true, atRisk: Bool = false
  ) -> RefreshQueue.Place {
    .init(
      end: Timestamp(seconds: end), isDue: due, isGood: good, isStalled: stalled, canLose: canLose, isAtRisk: atRisk)
  }

  @Test("the latest unanswered request comes first, also next to accounts without a token") func unanswered() {
    var queue = RefreshQueue()
    queue.insert(account("a-none"), place(.min))
    for (name, sent) in [("old", 10), ("new", 20), ("oldest", 5)] as [(String, Int64)] {
      var place = place(30, atRisk: true)
      place.unansweredSince = Timestamp(seconds: sent)
      queue.insert(account(name), place)
    }
    #expect(queue.latestUnanswered == account("new"))
    queue.remove(account("new"))
    #expect(queue.latestUnanswered == account("old"))
    queue.insert(account("old"), place(30))
    #expect(queue.latestUnanswered == account("oldest"))
  }

  @Test("Whom callers wait for comes first, in their order; then whose token ends first, if it may")
  func order() {
    var queue = RefreshQueue()
    queue.insert(account("late"), place(30))
    queue.insert(account("soon"), place(10))
    queue.insert(account("safe"), place(20, canLose: false))
    #expect(queue.next(.all) { _ in true }?.account == account("soon"))
    #expect(queue.next(.withoutLoss) { _ in true }?.account == account("safe"))
    #expect(queue.next(.none) { _ in true } == nil)
    queue.want(account("second"))
    queue.want(account("late"))
    queue.want(account("second"))
    #expect(queue.wantedCount == 2)
    let places = queue.probers(withoutLossOnly: false)
    #expect(places[account("second")] == .some(0) && places[account("late")] == .some(1))
    #expect(places[account("soon")] == .some(nil))
    #expect(queue.next(.none) { _ in true }?.account == account("second"))
    #expect(queue.next(.none) { $0 != account("second") }?.account == account("late"))
    queue.unwant(account("second"))
    #expect(queue.unwantAll() == [account("late")] && queue.wantedCount == 0)
  }

  @Test("An account whose last failure was the provider's comes after other wanted accounts")
  func stalledLater() {
    var queue = RefreshQueue()
    for name in ["failing", "other"] { queue.insert(account(name), place(5, due: false, stalled: true)) }
    queue.insert(account("due"), place(10))
    for name in ["failing", "good", "other"] { queue.want(account(name)) }
    var found: [AccountName] = []
    while let next = queue.next(.all, { _ in true }), next.isWanted {
      found.append(next.account)
      queue.unwant(next.account)
    }
    #expect(found == [account("good"), account("failing"), account("other")])
    #expect(queue.next(.all) { _ in true }?.account == account("due"))
    queue.want(account("failing"))
    queue.want(account("good"))
    #expect(queue.probers(withoutLossOnly: false)[account("failing")] == .some(1))
    #expect(queue.firstWanted == account("good") && queue.wantedCount == 2)
    #expect(queue.unwantAll() == [account("good"), account("failing")])
  }

  @Test("A probe uses an account that can lose nothing, and one with the fewest failures")
  func probers() {
    var queue = RefreshQueue()
    for number in 0..<5 { queue.insert(account("a\(number)"), place(Int64(number), due: false, stalled: true)) }
    queue.insert(account("safe"), place(100, due: false, stalled: true, canLose: false))
    queue.insert(account("risk"), place(100, due: false, stalled: true, atRisk: true))
    #expect(Set(queue.probers(withoutLossOnly: true).keys) == [account("safe")])
    #expect(Set(queue.probers(withoutLossOnly: false).keys) == [account("safe"), account("risk")])
    queue.probes[account("risk")] = 1
    #expect(Set(queue.probers(withoutLossOnly: false).keys) == [account("safe"), account("risk"), account("a0")])
    #expect(queue.isStalled(account("a3")))
    queue.remove(account("a3"))
    #expect(!queue.isStalled(account("a3")))
  }

  @Test("A few of thousands with waiting callers may probe: accounts whose failure was the provider's")
  func manyWanted() {
    var queue = RefreshQueue()
    for number in 0..<5000 { queue.want(account("a\(number)")) }
    queue.insert(account("stalled"), place(1, due: false, stalled: true))
    let probers = queue.probers(withoutLossOnly: false)
    #expect(probers.count == RefreshQueue.wantedProbers + 2 && probers[account("a7")] == .some(7))
    #expect(queue.stalledAccounts == [account("stalled")])
  }

  @Test("An account has one entry: its earlier one no longer counts")
  func replaced() {
    var queue = RefreshQueue()
    queue.insert(account("a"), place(10))
    #expect(
      queue.due.count + queue.dueWithoutLoss.count == 1 && queue.riskyCount == 1 && queue.resting == [account("a")])
    queue.insert(account("a"), place(10, good: false, canLose: false))
    #expect(queue.due.count + queue.dueWithoutLoss.count == 1 && queue.riskyCount == 0 && queue.resting.isEmpty)
    queue.insert(account("a"), place(10, due: false))
    #expect(queue.isEmpty)
  }
}
