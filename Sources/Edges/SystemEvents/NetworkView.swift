/// The known state of the network, so that a message that repeats it is not reported.
struct NetworkView {
  /// The maximum number of remembered entries; others are reported as new each time.
  static let limit = 4096

  private struct NetworkEntry: Hashable {
    let index: UInt32
    let isRoute: Bool
    let key: [UInt8]
  }

  private var links: Set<UInt32> = []
  private var entries: Set<NetworkEntry> = []

  /// Whether something appeared.
  mutating func update(with message: RouteMessage) -> Bool {
    switch message {
    case .link(let index, true):
      return links.count < Self.limit ? links.insert(index).inserted : !links.contains(index)
    case .link(let index, false):
      links.remove(index)
      // The kernel does not report the routes that disappear with a link.
      entries = entries.filter { $0.index != index }
      return false
    case .address(let index, let key, let isThere):
      return update(with: NetworkEntry(index: index, isRoute: false, key: key), isThere: isThere)
    case .defaultRoute(let index, let key, let isThere):
      return update(with: NetworkEntry(index: index, isRoute: true, key: key), isThere: isThere)
    case .end:
      return false
    }
  }

  private mutating func update(with entry: NetworkEntry, isThere: Bool) -> Bool {
    guard isThere else {
      entries.remove(entry)
      return false
    }
    return entries.count < Self.limit ? entries.insert(entry).inserted : !entries.contains(entry)
  }
}
