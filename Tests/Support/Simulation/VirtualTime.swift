/// Milliseconds since the simulated world began: the one true time, that the providers live by.
typealias Moment = Int64

let second: Moment = 1000
let minute: Moment = 60 * second
let hour: Moment = 60 * minute
let day: Moment = 24 * hour

/// The timers of the world. The seed chooses the order of timers that are due at the same moment.
final class VirtualTime {
  typealias TimerID = UInt64

  private struct Entry {
    var at: Moment
    var order: UInt64
    var id: TimerID
  }

  private(set) var now: Moment = 0
  private var heap: [Entry] = []
  private var actions: [TimerID: () -> Void] = [:]
  private var random: Randomness
  private var last: TimerID = 0

  init(_ random: Randomness) { self.random = random }

  @discardableResult
  func at(_ moment: Moment, _ action: @escaping () -> Void) -> TimerID {
    last += 1
    actions[last] = action
    heap.append(Entry(at: max(moment, now), order: random.next(), id: last))
    rise(heap.count - 1)
    return last
  }

  @discardableResult
  func after(_ wait: Moment, _ action: @escaping () -> Void) -> TimerID { at(now + max(wait, 0), action) }

  func cancel(_ id: TimerID) { actions[id] = nil }

  /// The machine sleeps: time passes, and no timer ends during it.
  func leap(_ duration: Moment) { now += duration }

  /// The next action that is due, with the time moved there.
  func next() -> (() -> Void)? {
    while let first = heap.first {
      removeFirst()
      guard let action = actions.removeValue(forKey: first.id) else { continue }
      now = max(now, first.at)
      return action
    }
    return nil
  }

  func removeAll() {
    heap = []
    actions = [:]
  }

  private func isBefore(_ a: Int, _ b: Int) -> Bool { (heap[a].at, heap[a].order) < (heap[b].at, heap[b].order) }

  private func rise(_ start: Int) {
    var index = start
    while index > 0, isBefore(index, (index - 1) / 2) {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  private func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var index = 0
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < heap.count && isBefore(child, least) { least = child }
      guard least != index else { return }
      heap.swapAt(index, least)
      index = least
    }
  }
}
