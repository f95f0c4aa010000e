import Grants

/// Callers that wait for a grant or a login to move. Each is woken once and then asks again.
struct Waiting {
  enum Key: Hashable {
    case account(AccountName)
    case login(LoginID)
    /// Whoever waits for a person's word on a release, by its id.
    case release(String)
    /// Whoever holds something that the disk did not take.
    case store
    /// Whoever began something that goes on by itself.
    case work(UInt64)
  }

  private var byKey: [Key: [UInt64: CheckedContinuation<Void, Never>]] = [:]
  private var next: UInt64 = 0
  private(set) var count = 0

  /// Names the next waiter.
  mutating func ticket() -> UInt64 {
    next += 1
    return next
  }

  mutating func add(_ continuation: CheckedContinuation<Void, Never>, ticket: UInt64, for key: Key) {
    byKey[key, default: [:]][ticket] = continuation
    count += 1
  }

  mutating func wake(_ key: Key) {
    guard let waiters = byKey.removeValue(forKey: key) else { return }
    count -= waiters.count
    for waiter in waiters.values { waiter.resume() }
  }

  mutating func wake(_ ticket: UInt64, of key: Key) {
    guard let waiter = byKey[key]?.removeValue(forKey: ticket) else { return }
    if byKey[key]?.isEmpty == true { byKey[key] = nil }
    count -= 1
    waiter.resume()
  }

  mutating func wakeAccounts() {
    for key in Array(byKey.keys) { if case .account = key { wake(key) } }
  }

  mutating func wakeAll() {
    for key in Array(byKey.keys) { wake(key) }
  }
}
