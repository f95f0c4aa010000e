/// The known state of the network, so that a message that repeats it is not reported.
struct NetworkView {
  /// The maximum number of remembered entries; others are reported as new each time.
  static let limit = 4096

  private struct Thing: Hashable {
    let index: UInt32
    let isRoute: Bool
    let key: [UInt8]
  }

  private var links: Set<UInt32> = []
  private var things: Set<Thing> = []

  /// Whether something appeared.
  mutating func heard(_ message: RouteMessage) -> Bool {
    switch message {
    case .link(let index, true):
      return links.count < Self.limit ? links.insert(index).inserted : !links.contains(index)
    case .link(let index, false):
      links.remove(index)
      // The kernel does not report the routes that disappear with a link.
      things = things.filter { $0.index != index }
      return false
    case .address(let index, let key, let isThere):
      return heard(Thing(index: index, isRoute: false, key: key), isThere: isThere)
    case .defaultRoute(let index, let key, let isThere):
      return heard(Thing(index: index, isRoute: true, key: key), isThere: isThere)
    case .end:
      return false
    }
  }

  private mutating func heard(_ thing: Thing, isThere: Bool) -> Bool {
    guard isThere else {
      things.remove(thing)
      return false
    }
    return things.count < Self.limit ? things.insert(thing).inserted : !things.contains(thing)
  }
}
