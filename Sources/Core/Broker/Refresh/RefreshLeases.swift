import Grants
import OAuth

/// The leases of running refreshes, and those of other brokers.
struct RefreshLeases {
  /// Running refreshes, with a lease or without.
  var inFlight = 0
  /// This broker's leases. The next refresh of an account may begin before the last one has released its lease.
  var held: [Key: Held] = [:]
  /// Refreshes whose request was sent and whose answer has not come.
  var awaited: Set<Key> = []
  /// Refreshes whose late answer is still read, without a slot among the provider's requests.
  var late: [Key: ProviderConnection] = [:]
  /// Accounts whose lease another broker has.
  private(set) var elsewhere: [AccountName: Elsewhere] = [:]
  /// Accounts whose lease is taken from another broker: an administrator demands it.
  var forced: Set<AccountName> = []

  struct Elsewhere {
    /// The machine.
    let name: String
    /// Until when at most, since boot.
    let end: Duration
  }

  struct Key: Hashable {
    var account: AccountName
    /// Unique per account, even if another grant took its name: ``Accounts`` continues the numbers.
    var attempt: UInt64
  }

  struct Held {
    let lease: Lease
    /// The latest time since boot at which a request is sent under it.
    var latestSend: Duration
  }

  mutating func recordHolder(of account: AccountName, _ name: String, until end: Duration) {
    elsewhere[account] = Elsewhere(name: name, end: end)
  }

  /// True: another broker had the account's lease until now, as far as was known.
  mutating func removeHolder(of account: AccountName) -> Bool { elsewhere.removeValue(forKey: account) != nil }

  /// The other broker that may be refreshing the account; nil: none is.
  mutating func holder(of account: AccountName, at uptime: Duration) -> Elsewhere? {
    guard let holder = elsewhere[account] else { return nil }
    if holder.end > uptime { return holder }
    elsewhere[account] = nil
    return nil
  }
}
