import Grants
import OAuth

/// Changes that other brokers reported while earlier ones are read: each name once, so that a storm of refreshes elsewhere
/// is read many accounts at a time.
@BrokerActor
final class WaitingChanges {
  private var accounts: Set<AccountName> = []
  private var logins: Set<LoginID> = []
  private var revocations: Set<String> = []
  private var registrations: Set<ProviderName> = []
  private var isOtherCopy = false

  func add(_ change: ChangesElsewhere) {
    switch change {
    case .accounts(let names): accounts.formUnion(names)
    case .logins(let ids): logins.formUnion(ids)
    case .revocations(let ids): revocations.formUnion(ids)
    case .registrations(let names): registrations.formUnion(names)
    case .otherCopy: isOtherCopy = true
    }
  }

  /// At most one of each kind, another copy first.
  func drain() -> [ChangesElsewhere] {
    defer { (accounts, logins, revocations, registrations, isOtherCopy) = ([], [], [], [], false) }
    var all: [ChangesElsewhere] = []
    if isOtherCopy { all.append(.otherCopy) }
    if !accounts.isEmpty { all.append(.accounts(accounts)) }
    if !logins.isEmpty { all.append(.logins(logins)) }
    if !revocations.isEmpty { all.append(.revocations(revocations)) }
    if !registrations.isEmpty { all.append(.registrations(registrations)) }
    return all
  }
}
