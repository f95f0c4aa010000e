public import OAuth

/// The store's secrets as an admin sees them: the key that they are sealed under, and copies of them for elsewhere.
public protocol Vault: Sendable {
  /// Seals everything under a new key, while the store serves. What was committed before and what waits is under the new
  /// key when this returns. The end of the process at any instant loses nothing: the next start finishes it or takes it
  /// back.
  func rotateKey() async throws(KeyRotationError) -> KeyRotation

  /// Throws ``BackupError/tooLarge(limit:)`` where a backup would be, before anything is read for one.
  func checkSize() async throws(BackupError)

  /// A file that opens with the secret alone, on any machine. Takes a second or more and runs elsewhere.
  func pack(_ backup: Backup, with secret: BackupSecret) async throws(BackupError) -> [UInt8]

  /// What is in such a file, of this version or an older one. Writes nothing that stays.
  func unpack(_ file: [UInt8], with secret: BackupSecret) async throws(BackupError) -> Backup
}

public struct KeyRotation: Sendable, Equatable {
  /// Where the new key is.
  public var file: String
  public var accounts: Int
  /// Sentences without a full stop: what is still under the old key, or not in its place yet.
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
  /// The values could not be sealed anew.
  case store(StoreError)
}

/// All of a broker that another machine can go on with, and where it is from.
public struct Backup: Sendable, Equatable {
  public var host: String
  public var madeAt: Timestamp
  /// Of the grantd that made it.
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

/// What a backup opens with.
public enum BackupSecret: Sendable {
  case passphrase(Secret)
  /// The contents of a key file.
  case key([UInt8])
}

/// Why there is no backup, or what is wrong with one. Each says what to do next.
public enum BackupError: Error, Sendable, Equatable {
  /// It begins like nothing that this program wrote.
  case foreign
  /// Its form, or the state in it, is of a later version.
  case newer(String)
  case wrongPassphrase
  case wrongKey
  /// Made with the other kind of secret.
  case needsPassphrase
  case needsKey
  /// Its end is missing.
  case truncated
  case damaged(String)
  /// Not a key, or too short a passphrase.
  case unusableSecret(String)
  case tooLarge(limit: Int)
  case store(StoreError)
}
