import Grants

/// Sorted names in chunks: insertion, removal and search cost O(√n), and a copy is free until either changes. An
/// iteration keeps a copy, so concurrent changes do not affect it.
struct SortedNames: Sendable {
  private static let most = 1024

  /// None is empty.
  private var chunks: [[AccountName]] = []
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  /// False: it already exists.
  @discardableResult
  mutating func insert(_ name: AccountName) -> Bool {
    guard let last = chunks.last?.last else {
      chunks = [[name]]
      count = 1
      return true
    }
    // A start brings them in their order.
    if last < name {
      if chunks[chunks.count - 1].count < Self.most {
        chunks[chunks.count - 1].append(name)
      } else {
        chunks.append([name])
      }
      count += 1
      return true
    }
    let chunk = chunk(for: name)
    let index = Self.index(of: name, in: chunks[chunk])
    guard index == chunks[chunk].count || chunks[chunk][index] != name else { return false }
    chunks[chunk].insert(name, at: index)
    count += 1
    guard chunks[chunk].count > Self.most else { return true }
    let upper = Array(chunks[chunk][(Self.most / 2)...])
    chunks[chunk].removeSubrange((Self.most / 2)...)
    chunks.insert(upper, at: chunk + 1)
    return true
  }

  mutating func remove(_ name: AccountName) {
    guard !chunks.isEmpty else { return }
    let chunk = chunk(for: name)
    let index = Self.index(of: name, in: chunks[chunk])
    guard index < chunks[chunk].count, chunks[chunk][index] == name else { return }
    chunks[chunk].remove(at: index)
    if chunks[chunk].isEmpty { chunks.remove(at: chunk) }
    count -= 1
  }

  /// Up to so many names behind this one; nil: from the first.
  func after(_ name: AccountName?, most: Int) -> [AccountName] {
    guard !chunks.isEmpty else { return [] }
    var (chunk, index) = (0, 0)
    if let name {
      chunk = self.chunk(for: name)
      index = Self.index(of: name, in: chunks[chunk])
      if index < chunks[chunk].count, chunks[chunk][index] == name { index += 1 }
    }
    var found: [AccountName] = []
    while found.count < most, chunk < chunks.count {
      found += chunks[chunk][index...].prefix(most - found.count)
      (chunk, index) = (chunk + 1, 0)
    }
    return found
  }

  /// The chunk that has the name, or would.
  private func chunk(for name: AccountName) -> Int {
    var (low, high) = (0, chunks.count - 1)
    while low < high {
      let middle = (low + high + 1) / 2
      if chunks[middle][0] <= name { low = middle } else { high = middle - 1 }
    }
    return low
  }

  /// Its index, or its insertion point.
  private static func index(of name: AccountName, in chunk: [AccountName]) -> Int {
    var (low, high) = (0, chunk.count)
    while low < high {
      let middle = (low + high) / 2
      if chunk[middle] < name { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

extension SortedNames: Sequence {
  func makeIterator() -> FlattenSequence<[[AccountName]]>.Iterator { chunks.joined().makeIterator() }
}
