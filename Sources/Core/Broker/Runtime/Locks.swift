import DequeModule

/// Who has which lock, and who waits for it, in their order.
struct Locks<Key: Hashable & Sendable>: Sendable {
  /// Absent: free.
  private var waiters: [Key: Deque<CheckedContinuation<Void, Never>>] = [:]

  var isEmpty: Bool { waiters.isEmpty }

  func waiting(for key: Key) -> Int { waiters[key]?.count ?? 0 }

  /// Takes the lock where it is free.
  mutating func acquire(_ key: Key) -> Bool {
    guard waiters[key] == nil else { return false }
    waiters[key] = []
    return true
  }

  /// For a lock in use: the continuation is resumed as its next owner.
  mutating func wait(for key: Key, _ continuation: CheckedContinuation<Void, Never>) {
    waiters[key]?.append(continuation)
  }

  mutating func release(_ key: Key) {
    // In place: a copy would cost as much as the queue is long.
    guard let next = waiters[key]?.popFirst() else {
      waiters[key] = nil
      return
    }
    next.resume()
  }
}
