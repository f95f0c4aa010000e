import BrokerAPI

extension StoreError {
  /// What is wrong, in a sentence without a full stop.
  public var message: String {
    switch self {
    case .owned(let path, let pid?): "another grantd (pid \(pid)) owns \(path)"
    case .owned(let path, nil): "another grantd owns \(path)"
    case .newer(let path, let found, let known):
      "\(path) was written by a newer grantd (schema \(found); this one knows up to \(known))"
    case .corrupt(let path, let detail): "\(path) is damaged or not a grantd database: \(detail)"
    case .unreadableAccount(let account, let detail): "what is saved of account \(account) cannot be read: \(detail)"
    case .missing(let path): "\(path) was removed or replaced while grantd had it open"
    case .wrongKey(let path, let keySource): "\(path) is sealed under another key than the one in \(keySource)"
    case .unusableKey(let source, let detail): "the sealing key in \(source) cannot be used: \(detail)"
    case .unreadable(let path, let detail): "\(path) cannot be opened: \(detail)"
    case .unwritable(let path, let detail): "\(path) could not be written: \(detail)"
    case .conflict: "another broker changed it at the same time"
    case .shared(let trouble): trouble.message
    case .unknown(let path, let detail): "the answer to a commit to \(path) was lost: \(detail)"
    case .closed: "the store is closed: grantd is shutting down"
    }
  }

  /// What to do next.
  public var hint: String {
    switch self {
    case .owned(let path, let pid?):
      "Stop that process (\(pid)) or its unit, or use another folder than \(path) with --state."
    case .owned(let path, nil):
      "Stop that process or its unit, or use another folder than \(path) with --state."
    case .newer:
      "Install the newer grantd again, or restore the copy of the state folder from before the upgrade."
    case .corrupt(let path, _):
      "Nothing was changed: restore the state folder from a backup, or move \(path) and its -wal file away and sign in "
        + "again."
    case .unreadableAccount(let account, _):
      "Nothing was changed: sign in to \(account) again, or remove it with `grantctl logout \(account)`."
    case .missing:
      "Nothing to do: grantd writes it again from memory; change nothing in its state folder while it runs."
    case .wrongKey(let path, _):
      "Give grantd the key that \(path) was sealed under; if it is lost, move the database away and sign in again."
    case .unusableKey(let source, _):
      "Restore the key (32 bytes, or their base64 or hexadecimal text, mode 0600, owned by grantd's user) in \(source); "
        + "if it is lost, move the database away and sign in again."
    case .unreadable(let path, _):
      "See that grantd's user owns \(path), that no other user may write there, and that the disk is mounted read-write."
    case .unwritable(let path, _):
      "Free space on the disk of \(path) and see that it is writable; what was saved before is unharmed, "
        + "and grantd tries again."
    case .conflict: "Try again."
    case .shared(let trouble): trouble.hint
    case .unknown:
      "See that the database can be reached; grantd finds out whether the commit was made, and tries again."
    case .closed:
      "Start grantd again."
    }
  }

  /// The stored data are damaged or missing: only a new database helps.
  var isLoss: Bool {
    switch self {
    case .corrupt, .missing: true
    case .owned, .newer, .wrongKey, .unusableKey, .unreadable, .unreadableAccount, .unwritable, .conflict, .shared,
      .unknown, .closed:
      false
    }
  }
}

/// Translates an error of the store for the caller of a method.
@BrokerActor
func stored<Output: Sendable>(_ work: () async throws(StoreError) -> Output) async throws(RPCError) -> Output {
  do throws(StoreError) { return try await work() } catch { throw storeError(error) }
}

func storeError(_ error: StoreError) -> RPCError { RPCError(.storeFailure, error.message, hint: error.hint) }
