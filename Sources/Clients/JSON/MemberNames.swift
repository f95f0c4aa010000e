/// The names of one object.
struct MemberNames {
  /// Up to here a comparison with each takes less time than hashing.
  static let few = 16

  private let byBytes: Bool
  private var bytes: [[UInt8]: Int] = [:]
  private var texts: [String: Int] = [:]

  init(_ repeated: JSON.Options.Repeated) { byBytes = repeated == .refusedByBytes }

  /// - Parameter members: of the names before it.
  /// - Returns: the position of the member that has the name already; nil: it is a new one.
  mutating func insert(_ name: String, behind members: [JSON.Member]) -> Int? {
    if members.count < Self.few {
      return members.firstIndex { byBytes ? isSame($0.name, name) : $0.name == name }
    }
    return byBytes
      ? Self.insert(Array(name.utf8), at: members.count, &bytes) { members.map { Array($0.name.utf8) } }
      : Self.insert(name, at: members.count, &texts) { members.map(\.name) }
  }

  private static func insert<Key: Hashable>(
    _ key: Key, at position: Int, _ known: inout [Key: Int], _ before: () -> [Key]
  ) -> Int? {
    if known.isEmpty { for (index, key) in before().enumerated() { known[key] = index } }
    if let index = known[key] { return index }
    known[key] = position
    return nil
  }

  /// Swift's String would take canonical equivalents for equal.
  private func isSame(_ one: String, _ other: String) -> Bool {
    one.utf8.count == other.utf8.count && one.utf8.elementsEqual(other.utf8)
  }
}
