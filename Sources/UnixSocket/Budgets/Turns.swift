/// What waits for each key, first come first served; the keys take turns.
struct Turns<Key: Hashable & Sendable, Element: Sendable>: Sendable {
  private struct Waiting: Sendable {
    /// Nil: taken.
    var elements: [Element?] = []
    var first = 0

    var isEmpty: Bool { first == elements.count }

    mutating func removeFirst() -> Element? {
      let element = elements[first]
      elements[first] = nil
      first += 1
      // So that each element is moved a few times at most.
      if first > 32, first > elements.count / 2 { (elements, first) = (Array(elements[first...]), 0) }
      return element
    }
  }

  private var waiting: [Key: Waiting] = [:]
  /// Those of whom something waits, in the order of their turns.
  private var order: [Key] = []
  private var next = 0
  private(set) var count = 0

  /// How many keys have something that waits.
  var keys: Int { order.count }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element, for key: Key) {
    if waiting[key] == nil { order.append(key) }
    waiting[key, default: Waiting()].elements.append(element)
    count += 1
  }

  /// The first element of the next key that may have a turn; nil: there is none.
  mutating func take(where mayHave: (Key) -> Bool = { _ in true }) -> (key: Key, element: Element)? {
    for _ in 0..<order.count {
      if next >= order.count { next = 0 }
      let key = order[next]
      guard mayHave(key), let element = waiting[key]?.removeFirst() else {
        next += 1
        continue
      }
      count -= 1
      if waiting[key]?.isEmpty == true {
        waiting[key] = nil
        order.remove(at: next)
      } else {
        next += 1
      }
      return (key, element)
    }
    return nil
  }
}
