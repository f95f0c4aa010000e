public import Grants
public import OAuth

/// The accounts that another copy of the shared database knows.
public struct AccountsOfCopy: Sendable, Equatable {
  /// Counts the copies that this process has found.
  public var number: Int
  public var names: Set<AccountName>
  /// When the accounts that it does not have any more were removed from it, by its clock.
  public var removed: [AccountName: Timestamp]

  public init(number: Int, names: Set<AccountName>, removed: [AccountName: Timestamp]) {
    self.number = number
    self.names = names
    self.removed = removed
  }

  /// Whether an account that is not in the copy now was removed, by its time or since the names were read. One that was
  /// signed in to later is not.
  func isRemoved(_ account: AccountName, loggedInAt login: Timestamp) -> Bool {
    removed[account].map { login <= $0 } ?? names.contains(account)
  }
}
