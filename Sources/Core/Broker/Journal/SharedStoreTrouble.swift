/// Why a database that several brokers share cannot be used now.
public struct SharedStoreTrouble: Sendable, Equatable {
  public enum Kind: Sendable, CaseIterable {
    case library, settings, unreachable, notPermitted, key, schema, lockTimeout, fullDisk, readOnly, pooler, unconfirmed
    case sharedNode, otherCopy, refused
  }

  public var kind: Kind
  /// The location of the database, for people.
  public var location: String
  /// A sentence without a full stop.
  public var detail: String

  public init(_ kind: Kind, _ location: String, _ detail: String) {
    self.kind = kind
    self.location = location
    self.detail = detail
  }

  var message: String {
    switch kind {
    case .library, .settings: "the shared store cannot be used: \(detail)"
    case .unreachable: "\(location) cannot be reached: \(detail)"
    case .notPermitted: "\(location) refuses the role: \(detail)"
    case .key: "\(location) is sealed under another key: \(detail)"
    case .schema: "\(location) has a schema that is not grantd's: \(detail)"
    case .lockTimeout: "\(location): another session holds a lock: \(detail)"
    case .fullDisk: "\(location): the disk of the database server is full"
    case .readOnly: "\(location) is read-only: \(detail)"
    case .pooler: "\(location) is behind a connection pooler: \(detail)"
    case .unconfirmed: "\(location): a commit was not confirmed by the standby"
    case .sharedNode, .otherCopy, .refused: "\(location): \(detail)"
    }
  }

  var hint: String {
    switch kind {
    case .library: "Install libpq5, version 14 or later."
    case .settings: "Correct [store] in the configuration (docs/fleet.md)."
    case .unreachable:
      "Start the database, or correct connection in [store]; tokens in memory are served until they end."
    case .notPermitted: "Correct the role, its password and its rights: it must own the database (docs/fleet.md)."
    case .key:
      "Give this machine the key of the others, as the credential grantd.key or by key_file; nothing was changed."
    case .schema: "Use an empty database, or the one of this fleet; nothing was changed."
    case .lockTimeout: "Find the session in pg_stat_activity and end it; grantd tries again."
    case .fullDisk: "Free space on the disk of the database server; grantd tries again."
    case .readOnly: "Connect to the primary server; list all servers in host= so that grantd finds it."
    case .pooler: "Connect to PostgreSQL directly: grantd needs two connections of its own."
    case .unconfirmed: "Look at the synchronous standby; grantd tries again."
    case .sharedNode: "Stop the other grantd, which has a copy of this state folder; grantd tries again."
    case .otherCopy: "If a backup was restored, nothing: grantd compares all accounts with it."
    case .refused: "Look into the log of the database server; grantd tries again."
    }
  }
}
