public import OAuth
public import Sealing

/// The store's secrets as an admin sees them: the key that they are sealed under, and copies of them for elsewhere.
public protocol StoreAdministration: Sendable {
  /// Seals everything under a new key while the store is in use. On return, earlier and waiting commits are under the
  /// new key. The process may end at any time without loss: the next start completes or undoes the rotation.
  func rotateKey() async throws(KeyRotationError) -> KeyRotation

  /// Throws if a backup would be too large, before anything is read for one.
  func checkSize() async throws(BackupError)

  /// A file that opens with the passphrase on any machine. Takes a second or more, on another thread.
  func pack(_ backup: Backup, with secret: BackupFile.Secret) async throws(BackupError) -> [UInt8]

  /// The content of such a file, of this or an older version. Writes nothing permanent.
  func unpack(_ file: [UInt8], with secret: BackupFile.Secret) async throws(BackupError) -> Backup
}

public struct KeyRotation: Sendable, Equatable {
  /// The location of the new key.
  public var file: String
  public var accounts: Int
  /// Sentences without a full stop: data still under the old key, or not in place yet.
  public var remains: [String]

  public init(file: String, accounts: Int, remains: [String]) {
    self.file = file
    self.accounts = accounts
    self.remains = remains
  }
}

/// Why the key is the one of before.
public enum KeyRotationError: Error, Sendable, Equatable {
  /// It was given from outside, and only who gives it can change it.
  case fixed(source: String)
  case unwritable(file: String, detail: String)
  /// The values could not be sealed again.
  case store(StoreError)
}

/// The portable state of a broker, and its origin.
public struct Backup: Sendable, Equatable {
  public var host: String
  public var madeAt: Timestamp
  /// The version of grantd that made it.
  public var version: String
  /// Without logins that are pending and without small values, which are the machine's own.
  public var state: StoredState

  public init(host: String, madeAt: Timestamp, version: String, state: StoredState) {
    self.host = host
    self.madeAt = madeAt
    self.version = version
    self.state = state
  }
}

/// Why there is no backup, or what is wrong with one.
public enum BackupError: Error, Sendable, Equatable {
  case file(BackupFile.Failure)
  case store(StoreError)
}
