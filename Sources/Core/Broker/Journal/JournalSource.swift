import Grants

/// Who knows what should be on disk.
@BrokerActor
protocol JournalSource: AnyObject {
  /// All state except small values. No commits run during the copy: callers that change an account keep it.
  func wholeState() async -> (rest: StoredState, accounts: [any PackedAccount])
  /// The changes that put all of an account on disk; nil: there is no such account.
  func changes(of account: AccountName) -> [Change]?
  /// Another broker wrote the account: memory follows the disk. With the account's lock.
  func follow(_ account: AccountName) async
  /// The database is another copy with these accounts: memory keeps the accounts and other rows that the copy lacks,
  /// and writes them back. If it fails, it is called again.
  func keep(over copy: AccountsOfCopy) async throws(StoreError)
  /// The store works, and no copy has to be compared: memory follows it where that was not possible before.
  func compared() async
}
