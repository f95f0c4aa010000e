public import Grants
public import OAuth

/// The accounts that another copy of the shared database knows.
public struct AccountsOfCopy: Sendable, Equatable {
  /// Counts the copies that this process has found.
  public var number: Int
  public var names: Set<AccountName>
  /// When the accounts that it does not have any more were removed from it, by its clock.
  public var removed: [AccountName: Timestamp]
  /// The same of registrations.
  public var removedRegistrations: [ProviderName: Timestamp] = [:]
  /// Revocations that it does not have any more.
  public var removedRevocations: Set<String> = []

  public init(number: Int, names: Set<AccountName>, removed: [AccountName: Timestamp]) {
    self.number = number
    self.names = names
    self.removed = removed
  }

  /// Why an account is not in the copy now.
  enum Lack { case removed, neverHad, unknown }

  /// - Parameter login: an account that was signed in to after its removal is another one.
  func lack(of account: AccountName, loggedInAt login: Timestamp) -> Lack {
    if let time = removed[account] { return login <= time ? .removed : .neverHad }
    // It was removed since the names were read, or this is a further copy.
    return names.contains(account) ? .unknown : .neverHad
  }
}
