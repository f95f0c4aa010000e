import Grants

/// What is asked of all accounts together, kept as they change: which ones a provider has, and how they stand.
struct AccountIndex: Sendable {
  /// How an account stands, as far as that changes only with its grant.
  enum Kind: Hashable, CaseIterable, Sendable {
    case good
    case goodAndBusy
    case failing
    case loginRequired
    case misconfigured

    init(_ grant: Grant) {
      switch grant.saved.standing {
      case .good: self = grant.phase == .idle ? .good : .goodAndBusy
      case .failing: self = .failing
      case .loginRequired: self = .loginRequired
      case .misconfigured: self = .misconfigured
      }
    }
  }

  struct Members: Sendable {
    var names: Set<AccountName> = []
    var counts: [Kind: Int] = [:]
  }

  private struct Entry: Equatable, Sendable {
    var provider: ProviderName
    var kind: Kind
  }

  private var entries: [AccountName: Entry] = [:]
  private(set) var byProvider: [ProviderName: Members] = [:]

  /// The account's grant is this now; nil: it is gone.
  mutating func update(_ account: AccountName, _ grant: Grant?) {
    let new = grant.map { Entry(provider: $0.saved.provider, kind: Kind($0)) }
    let old = entries[account]
    guard new != old else { return }
    entries[account] = new
    if let old {
      byProvider[old.provider]?.counts[old.kind, default: 0] -= 1
      if new?.provider != old.provider { leave(account, old.provider) }
    }
    if let new {
      byProvider[new.provider, default: Members()].counts[new.kind, default: 0] += 1
      if new.provider != old?.provider { byProvider[new.provider]?.names.insert(account) }
    }
  }

  private mutating func leave(_ account: AccountName, _ provider: ProviderName) {
    byProvider[provider]?.names.remove(account)
    if byProvider[provider]?.names.isEmpty == true { byProvider[provider] = nil }
  }
}
