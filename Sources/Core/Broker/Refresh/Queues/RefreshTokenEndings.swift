import Grants
import OAuth

/// Which refresh tokens end when, as far as that is known, and which end soon: kept as accounts change.
struct RefreshTokenEndings: Sendable {
  /// By provider.
  private var ends: [ProviderName: MomentHeap<AccountName>] = [:]
  private var providers: [AccountName: ProviderName] = [:]
  /// Accounts of which people should sign in again before long.
  private(set) var soon = SortedNames()

  mutating func insert(_ account: AccountName, at provider: ProviderName, end: Timestamp, isSoon: Bool) {
    if let old = providers.updateValue(provider, forKey: account), old != provider { detach(account, old) }
    ends[provider, default: MomentHeap<AccountName>()].set(account, to: end)
    if isSoon { soon.insert(account) } else { soon.remove(account) }
  }

  mutating func remove(_ account: AccountName) {
    guard let provider = providers.removeValue(forKey: account) else { return }
    detach(account, provider)
    soon.remove(account)
  }

  /// The first end at the provider.
  mutating func first(at provider: ProviderName) -> Timestamp? { ends[provider]?.first()?.at }

  private mutating func detach(_ account: AccountName, _ provider: ProviderName) {
    ends[provider]?.remove(account)
    if ends[provider]?.isEmpty == true { ends[provider] = nil }
  }
}
