public import BrokerAPI

/// Who may do what: the first thing a rule names is the caller, as the kernel identified it.
public struct Rule: Sendable, Equatable {
  /// For people: where it is written (`/etc/grantd/grantd.toml:12`), or its `name`.
  public var name: String
  /// Matches a caller with this uid; nil: any.
  public var uid: UInt32?
  /// Matches a caller with this primary or supplementary gid; nil: any.
  public var gid: UInt32?
  /// Account names, `*` standing for any run of characters.
  public var accounts: [String]
  public var access: Set<Access>

  public init(name: String, uid: UInt32?, gid: UInt32?, accounts: [String], access: Set<Access>) {
    self.name = name
    self.uid = uid
    self.gid = gid
    self.accounts = accounts
    self.access = access
  }
}
