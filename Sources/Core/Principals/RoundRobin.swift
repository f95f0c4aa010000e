/// Waiting items by key, first come first served; the keys alternate.
public struct RoundRobin<Key: Hashable, Element> {
  fileprivate struct Waiting {
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
  /// The keys of which something waits, in the order of their turns.
  private var order: [Key] = []
  private var next = 0
  public private(set) var count = 0

  public init() {}

  /// How many keys have something that waits.
  public var keys: Int { order.count }
  public var isEmpty: Bool { count == 0 }

  public mutating func append(_ element: Element, for key: Key) {
    if waiting[key] == nil { order.append(key) }
    waiting[key, default: Waiting()].elements.append(element)
    count += 1
  }

  /// The first element of the next key that may have a turn; nil: there is none.
  public mutating func popFirst(where mayHave: (Key) -> Bool = { _ in true }) -> (key: Key, element: Element)? {
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

/// Waiting items by key and group, such as each unit of each user. The groups alternate, and the keys of a group share
/// its share.
public struct GroupedRoundRobin<Group: Hashable, Key: Hashable, Element> {
  private var groups: [Group: RoundRobin<Key, Element>] = [:]
  /// The groups of which something waits, in the order of their turns.
  private var order: [Group] = []
  private var next = 0
  public private(set) var count = 0

  public init() {}

  /// How many groups have something that waits.
  public var groupCount: Int { order.count }
  public var isEmpty: Bool { count == 0 }

  public mutating func append(_ element: Element, for key: Key, of group: Group) {
    if groups[group] == nil { order.append(group) }
    groups[group, default: RoundRobin()].append(element, for: key)
    count += 1
  }

  /// The first element of the next group with a key that may have a turn; nil: there is none.
  public mutating func popFirst(where mayHave: (Key) -> Bool = { _ in true }) -> (key: Key, element: Element)? {
    for _ in 0..<order.count {
      if next >= order.count { next = 0 }
      let group = order[next]
      guard let taken = groups[group]?.popFirst(where: mayHave) else {
        next += 1
        continue
      }
      count -= 1
      if groups[group]?.isEmpty == true {
        groups[group] = nil
        order.remove(at: next)
      } else {
        next += 1
      }
      return taken
    }
    return nil
  }
}

extension GroupedRoundRobin: Sendable where Group: Sendable, Key: Sendable, Element: Sendable {}
extension RoundRobin: Sendable where Key: Sendable, Element: Sendable {}
extension RoundRobin.Waiting: Sendable where Key: Sendable, Element: Sendable {}
