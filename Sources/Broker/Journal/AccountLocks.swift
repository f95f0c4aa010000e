import Grants

/// Who writes which account, and who waits to, in their order.
struct AccountLocks {
  /// Absent: free.
  private var waiters: [AccountName: [CheckedContinuation<Void, Never>]] = [:]

  var isEmpty: Bool { waiters.isEmpty }

  /// Takes the lock where it is free.
  mutating func take(_ account: AccountName) -> Bool {
    guard waiters[account] == nil else { return false }
    waiters[account] = []
    return true
  }

  /// Of a lock that is taken: the continuation is resumed as its next owner.
  mutating func wait(for account: AccountName, _ continuation: CheckedContinuation<Void, Never>) {
    waiters[account]?.append(continuation)
  }

  mutating func leave(_ account: AccountName) {
    guard var queue = waiters[account] else { return }
    guard !queue.isEmpty else {
      waiters[account] = nil
      return
    }
    let next = queue.removeFirst()
    waiters[account] = queue
    next.resume()
  }
}
