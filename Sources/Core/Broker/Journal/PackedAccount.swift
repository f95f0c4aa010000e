public import Grants

/// One account in the store's form for memory: small, and decoded on demand.
public protocol PackedAccount: Sendable {
  var account: AccountName { get }

  /// - Throws: `.unreadableAccount` where something of it cannot be read, or not be unsealed.
  func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount
}

/// How much of a packed account is decoded. Omitted parts are empty; an omitted secret exists without its text.
public enum AccountDepth: Sendable {
  /// Due times and the user: without scopes, and with only the user's subject.
  case moments
  /// Everything but the secrets.
  case facts
  /// The readable part of an account with a damaged row: no secrets, and a default for each unreadable column. Always
  /// possible.
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
