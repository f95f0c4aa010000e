import Grants
import HeapModule
import OAuth

/// Accounts by a moment, the earliest first. Each account has one moment; setting another replaces it.
///
/// A moment that was replaced stays in the heap until it comes up or half of the heap is such, so that each operation costs
/// O(log n) amortised.
struct MomentHeap: Sendable {
  private struct Entry: Comparable, Sendable {
    var at: Timestamp
    var account: AccountName

    static func < (one: Self, other: Self) -> Bool { (one.at, one.account) < (other.at, other.account) }
  }

  /// Replaced moments that a small heap may keep.
  private static let slack = 64

  private var heap = Heap<Entry>()
  private var moments: [AccountName: Timestamp] = [:]

  var count: Int { moments.count }
  var isEmpty: Bool { moments.isEmpty }

  mutating func reserve(_ count: Int) { moments.reserveCapacity(count) }

  func contains(_ account: AccountName) -> Bool { moments[account] != nil }

  mutating func set(_ account: AccountName, to moment: Timestamp) {
    guard moments.updateValue(moment, forKey: account) != moment else { return }
    heap.insert(Entry(at: moment, account: account))
    compactIfWorthwhile()
  }

  mutating func remove(_ account: AccountName) {
    guard moments.removeValue(forKey: account) != nil else { return }
    compactIfWorthwhile()
  }

  /// The earliest; nil where there is none.
  mutating func first() -> (account: AccountName, at: Timestamp)? {
    while let entry = heap.min {
      if moments[entry.account] == entry.at { return (entry.account, entry.at) }
      heap.removeMin()
    }
    return nil
  }

  mutating func popFirst() -> (account: AccountName, at: Timestamp)? {
    guard let first = first() else { return nil }
    heap.removeMin()
    moments[first.account] = nil
    return first
  }

  /// The first so many, in their order.
  mutating func prefix(_ count: Int) -> [AccountName] {
    var taken: [(account: AccountName, at: Timestamp)] = []
    while taken.count < count, let first = popFirst() { taken.append(first) }
    for one in taken { set(one.account, to: one.at) }
    return taken.map(\.account)
  }

  private mutating func compactIfWorthwhile() {
    guard heap.count > 2 * moments.count + Self.slack else { return }
    heap = Heap(moments.map { Entry(at: $0.value, account: $0.key) })
  }
}
