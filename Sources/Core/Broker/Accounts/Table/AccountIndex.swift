import Grants
import OAuth

/// Summaries of all accounts, updated with each change: sorted names, accounts of a provider, their users, and their
/// standing.
struct AccountIndex: Sendable {
  /// The account's standing, as far as only its grant changes it.
  enum Kind: Int, CaseIterable, Sendable {
    case good
    case goodAndBusy
    case failing
    case loginRequired
    /// Its refresh token was refused once and is tried again within seconds.
    case refusedOnce
    case misconfigured
    /// Its refresh was refused with a code that may concern the client, and is tried again soon.
    case refused
    /// The same, while other accounts of the provider are refreshed.
    case refusedAlone

    /// Whether a change of the provider's settings may help.
    fileprivate var awaitsSettings: Bool {
      switch self {
      case .misconfigured, .refused, .refusedAlone: true
      case .good, .goodAndBusy, .failing, .loginRequired, .refusedOnce: false
      }
    }

    init(_ grant: Grant) {
      switch grant.saved.standing {
      case .good: self = grant.phase == .idle ? .good : .goodAndBusy
      case .failing: self = .failing
      case .loginRequired: self = grant.awaitsSecondTry ? .refusedOnce : .loginRequired
      case .misconfigured:
        self = grant.isRefusedAlone ? .refusedAlone : grant.isRefusedLately ? .refused : .misconfigured
      }
    }
  }

  struct Members: Sendable {
    var names = SortedNames()
    private var counts = Array(repeating: 0, count: Kind.allCases.count)
    /// Accounts with a sign-in, and among them those whose user the provider did not name.
    private(set) var signedIn = 0
    private(set) var anonymous = 0

    func count(_ kind: Kind) -> Int { counts[kind.rawValue] }

    fileprivate mutating func join(_ account: AccountName, _ entry: Entry, isNew: Bool) {
      add(entry, 1)
      if isNew { names.insert(account) }
    }

    fileprivate mutating func add(_ entry: Entry, _ number: Int) {
      counts[entry.kind.rawValue] += number
      guard !entry.isUnattended else { return }
      signedIn += number
      if entry.person == nil { anonymous += number }
    }
  }

  fileprivate struct Entry: Equatable, Sendable {
    var provider: ProviderName
    var kind: Kind
    var isUnattended: Bool
    /// The subject at this provider; nil: unknown.
    var person: Int?
  }

  /// Nearly every person has one account.
  private enum Own: Sendable {
    case one(AccountName)
    case several(Set<AccountName>)
  }

  /// The highest number of any attempt. A new grant under an existing name continues from it, so that an answer for the
  /// earlier grant is not accepted for the new one.
  private(set) var attempts: UInt64 = 0
  /// The time at which the latest token on disk was issued, when the broker started.
  var newestIssue: Timestamp?
  private(set) var names = SortedNames()
  private(set) var byProvider: [ProviderName: Members] = [:]
  private(set) var misconfigured = SortedNames()
  /// Unattended accounts.
  private(set) var declared = SortedNames()
  private var entries: [AccountName: Entry] = [:]
  /// By a hash of provider and subject; the caller compares the found accounts.
  private var people: [Int: Own] = [:]

  /// The account's new grant; nil: the account was removed.
  mutating func update(_ account: AccountName, _ grant: Grant?) {
    attempts = max(attempts, grant?.attempts ?? 0)
    let new = grant.map { grant in
      Entry(
        provider: grant.saved.provider, kind: Kind(grant), isUnattended: grant.saved.kind.isUnattended,
        person: grant.saved.identity.map { Self.person($0.subject, grant.saved.provider) })
    }
    let old = entries[account]
    guard new != old else { return }
    entries[account] = new
    if let old { detach(account, old, new) }
    if let new { join(account, new, old) }
  }

  mutating func reserve(_ count: Int) {
    entries.reserveCapacity(count)
    people.reserveCapacity(count)
  }

  /// ``Grant/retryNow(at:)`` makes it try now.
  func isFailing(_ account: AccountName) -> Bool {
    switch entries[account]?.kind {
    case .failing, .misconfigured, .refused, .refusedAlone: true
    case .good, .goodAndBusy, .loginRequired, .refusedOnce, nil: false
    }
  }

  /// Accounts that may belong to this user; others are rarely among them.
  func accounts(of subject: String, at provider: ProviderName) -> [AccountName] {
    switch people[Self.person(subject, provider)] {
    case .one(let account): [account]
    case .several(let accounts): accounts.sorted()
    case nil: []
    }
  }

  private static func person(_ subject: String, _ provider: ProviderName) -> Int {
    var hasher = Hasher()
    hasher.combine(provider)
    hasher.combine(subject)
    return hasher.finalize()
  }

  private mutating func detach(_ account: AccountName, _ old: Entry, _ new: Entry?) {
    byProvider[old.provider]?.add(old, -1)
    if new?.provider != old.provider {
      byProvider[old.provider]?.names.remove(account)
      if byProvider[old.provider]?.names.isEmpty == true { byProvider[old.provider] = nil }
    }
    if new == nil { names.remove(account) }
    if old.kind.awaitsSettings, new?.kind.awaitsSettings != true { misconfigured.remove(account) }
    if old.isUnattended, new?.isUnattended != true { declared.remove(account) }
    if let person = old.person, new?.person != person {
      switch people[person] {
      case .one, nil: people[person] = nil
      case .several(var accounts):
        accounts.remove(account)
        people[person] = accounts.count == 1 ? accounts.first.map(Own.one) : .several(accounts)
      }
    }
  }

  private mutating func join(_ account: AccountName, _ new: Entry, _ old: Entry?) {
    byProvider[new.provider, default: Members()].join(account, new, isNew: new.provider != old?.provider)
    if old == nil { names.insert(account) }
    if new.kind.awaitsSettings, old?.kind.awaitsSettings != true { misconfigured.insert(account) }
    if new.isUnattended, old?.isUnattended != true { declared.insert(account) }
    if let person = new.person, old?.person != person {
      switch people[person] {
      case nil: people[person] = .one(account)
      case .one(let other): people[person] = .several([other, account])
      case .several(let accounts): people[person] = .several(accounts.union([account]))
      }
    }
  }
}
