import Grants
import OAuth

/// Each provider's queue, and in which of them each account is: in one at most.
struct RefreshQueues {
  /// When each account wants to be looked at again.
  var schedule = MomentHeap<AccountName>()
  private var queues: [ProviderName: RefreshQueue] = [:]
  private var places: [AccountName: ProviderName] = [:]

  subscript(provider: ProviderName) -> RefreshQueue? {
    get { queues[provider] }
    // In place: a copy of a queue would cost its length.
    _modify { yield &queues[provider] }
  }

  var providers: [ProviderName] { Array(queues.keys) }

  /// How many refreshes that may lose a token are due at these providers.
  func riskyCount(where isIncluded: (ProviderName) -> Bool) -> Int {
    queues.reduce(0) { $0 + (isIncluded($1.key) ? $1.value.riskyCount : 0) }
  }

  /// Updates the account's position. An account in no queue enters its provider's if it is due or waits.
  mutating func insert(_ account: AccountName, at provider: ProviderName, _ place: RefreshQueue.Place) {
    if let old = places[account], old != provider { queues[old]?.remove(account) }
    guard place.isDue || place.isStalled || places[account] != nil else { return }
    queues[provider, default: RefreshQueue()].insert(account, place)
    places[account] = provider
  }

  /// A caller waits for the account.
  mutating func want(_ account: AccountName, at provider: ProviderName) {
    queues[provider, default: RefreshQueue()].want(account)
    places[account] = provider
  }

  /// A probe with the account's refresh token failed.
  mutating func countProbe(_ account: AccountName, at provider: ProviderName) {
    queues[provider, default: RefreshQueue()].probes[account, default: 0] += 1
  }

  mutating func remove(_ account: AccountName) {
    if let provider = places.removeValue(forKey: account) { queues[provider]?.remove(account) }
  }
}
