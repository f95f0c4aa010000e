/// Who has which lock, and who waits for it, in their order.
struct Locks<Key: Hashable & Sendable>: Sendable {
  /// Absent: free.
  private var waiters: [Key: [CheckedContinuation<Void, Never>]] = [:]

  var isEmpty: Bool { waiters.isEmpty }

  /// How many wait for it.
  func waiting(for key: Key) -> Int { waiters[key]?.count ?? 0 }

  /// Takes the lock where it is free.
  mutating func take(_ key: Key) -> Bool {
    guard waiters[key] == nil else { return false }
    waiters[key] = []
    return true
  }

  /// Of a lock that is taken: the continuation is resumed as its next owner.
  mutating func wait(for key: Key, _ continuation: CheckedContinuation<Void, Never>) {
    waiters[key]?.append(continuation)
  }

  mutating func leave(_ key: Key) {
    guard var queue = waiters[key] else { return }
    guard !queue.isEmpty else {
      waiters[key] = nil
      return
    }
    let next = queue.removeFirst()
    waiters[key] = queue
    next.resume()
  }
}
