public import Grants

/// One account as a store hands it out to be kept in memory: small, and read when it is needed.
public protocol PackedAccount: Sendable {
  var account: AccountName { get }

  /// - Throws: `.unreadableAccount` where something of it cannot be read, or not be unsealed.
  func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount
}

/// How much of a packed account is read. What is left out is empty; a secret that is left out is there and has no text.
public enum AccountDepth: Sendable {
  /// What is due when, and whose it is: without scopes, and of the person only the subject.
  case moments
  /// Everything but the secrets.
  case facts
  /// What can be read of an account whose row is damaged: no secrets, and a default for each column that cannot be read.
  /// Always possible.
  case remains
  case whole
}

/// As it is: for stores that keep nothing sealed.
public struct UnpackedAccount: PackedAccount {
  private let stored: StoredAccount

  public init(_ stored: StoredAccount) { self.stored = stored }

  public var account: AccountName { stored.grant.account }
  public func read(_ depth: AccountDepth) -> StoredAccount { stored }
}
