/// A cache of which each owner has a part: the entries of one owner displace only each other. If all parts together are
/// too many, the largest is removed.
struct OwnedCache<Key: Hashable, Owner: Hashable, Value> {
  /// Entries in total.
  private let limit: Int
  private let limitOfOwner: Int
  private var entries: [Key: (value: Value, owner: Owner)] = [:]
  /// In the order of their arrival.
  private var keys: [Owner: [Key]] = [:]

  init(limit: Int, limitOfOwner: Int) {
    self.limit = limit
    self.limitOfOwner = limitOfOwner
  }

  subscript(key: Key) -> Value? { entries[key]?.value }

  mutating func insert(_ value: Value, for key: Key, of owner: Owner) {
    remove(key)
    if let own = keys[owner], own.count >= limitOfOwner { remove(own[0]) }
    if entries.count >= limit, let largest = keys.max(by: { $0.value.count < $1.value.count })?.key {
      for key in keys.removeValue(forKey: largest) ?? [] { entries[key] = nil }
    }
    entries[key] = (value, owner)
    keys[owner, default: []].append(key)
  }

  private mutating func remove(_ key: Key) {
    guard let owner = entries.removeValue(forKey: key)?.owner else { return }
    keys[owner]?.removeAll { $0 == key }
    if keys[owner]?.isEmpty == true { keys[owner] = nil }
  }
}

extension OwnedCache: Sendable where Key: Sendable, Owner: Sendable, Value: Sendable {}
