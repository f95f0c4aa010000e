import Grants
import OAuth

/// Accounts, or other keys, by a time of the calendar.
typealias MomentHeap<Key: Hashable & Comparable & Sendable> = KeyedHeap<Key, Timestamp>

/// Keys by a moment, the earliest first. Each key has one moment; setting another replaces it.
///
/// A binary heap that knows where each key is, so that a moment is replaced in O(log n) at once: the heap of
/// swift-collections would keep the moments that were replaced, and clearing them out of a million stops the broker for
/// as long as it takes.
struct KeyedHeap<Key: Hashable & Comparable & Sendable, Moment: Comparable & Sendable>: Sendable {
  private struct Entry: Comparable, Sendable {
    var at: Moment
    var key: Key

    static func < (one: Self, other: Self) -> Bool { (one.at, one.key) < (other.at, other.key) }
  }

  /// No entry is before its parent, which is at (index − 1) / 2.
  private var heap: [Entry] = []
  private var indices: [Key: Int] = [:]

  var count: Int { heap.count }
  var isEmpty: Bool { heap.isEmpty }

  mutating func reserve(_ count: Int) {
    heap.reserveCapacity(count)
    indices.reserveCapacity(count)
  }

  func contains(_ key: Key) -> Bool { indices[key] != nil }

  mutating func set(_ key: Key, to moment: Moment) {
    let entry = Entry(at: moment, key: key)
    guard let index = indices[key] else {
      heap.append(entry)
      return rise(entry, from: heap.count - 1)
    }
    move(entry, to: index)
  }

  mutating func remove(_ key: Key) {
    guard let index = indices.removeValue(forKey: key) else { return }
    let last = heap.removeLast()
    if index < heap.count { move(last, to: index) }
  }

  /// The earliest; nil if there is none.
  func first() -> (key: Key, at: Moment)? { heap.first.map { ($0.key, $0.at) } }

  mutating func popFirst() -> (key: Key, at: Moment)? {
    guard let first = first() else { return nil }
    remove(first.key)
    return first
  }

  /// All of them, in no order.
  var keys: [Key] { heap.map(\.key) }

  /// The first so many, in their order.
  mutating func prefix(_ count: Int) -> [Key] {
    var taken: [(key: Key, at: Moment)] = []
    while taken.count < count, let first = popFirst() { taken.append(first) }
    for one in taken { set(one.key, to: one.at) }
    return taken.map(\.key)
  }

  /// Replaces another entry, then restores the order.
  private mutating func move(_ entry: Entry, to index: Int) {
    if entry < heap[index] { rise(entry, from: index) } else { sink(entry, from: index) }
  }

  private mutating func rise(_ entry: Entry, from start: Int) {
    var index = start
    while index > 0, entry < heap[(index - 1) / 2] {
      put(heap[(index - 1) / 2], at: index)
      index = (index - 1) / 2
    }
    put(entry, at: index)
  }

  private mutating func sink(_ entry: Entry, from start: Int) {
    var index = start
    while 2 * index + 1 < heap.count {
      var child = 2 * index + 1
      if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
      guard heap[child] < entry else { break }
      put(heap[child], at: index)
      index = child
    }
    put(entry, at: index)
  }

  private mutating func put(_ entry: Entry, at index: Int) {
    heap[index] = entry
    indices[entry.key] = index
  }
}
