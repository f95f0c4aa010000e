import Grants
import OAuth

/// The leases of refreshes under way, and those that other brokers have.
struct RefreshLeases {
  /// Of this broker. The next refresh of an account may begin before the last one has given its lease back.
  var held: [Key: Held] = [:]
  /// Refreshes whose request was sent and whose answer has not come.
  var awaited: Set<Key> = []
  /// Refreshes whose answer is late and read on, and which have no place among the provider's requests.
  var late: [Key: ProviderConnection] = [:]
  /// Accounts that another broker refreshes, until when since boot at most: it has their lease.
  private(set) var elsewhere: [AccountName: Duration] = [:]

  struct Key: Hashable {
    var account: AccountName
    /// Never twice of one account, also where another grant took its name: ``Accounts`` numbers them on.
    var attempt: UInt64
  }

  struct Held {
    let lease: Lease
    /// What was on disk when the lease was given. What comes of the refresh is written where that is there still.
    let generation: [Expectation]

    var expectations: [Expectation] { generation + [.lease(lease)] }
  }

  mutating func noteHolder(of account: AccountName, until end: Duration) { elsewhere[account] = end }

  /// True: another broker had the account's lease until now, as far as was known.
  mutating func forgetHolder(of account: AccountName) -> Bool { elsewhere.removeValue(forKey: account) != nil }

  /// Until when another broker may be refreshing the account; nil: none is.
  mutating func endElsewhere(_ account: AccountName, at uptime: Duration) -> Duration? {
    guard let end = elsewhere[account] else { return nil }
    if end > uptime { return end }
    elsewhere[account] = nil
    return nil
  }
}
