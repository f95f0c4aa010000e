public import Broker
import SQLiteStore
public import Sealing

// Backups are those of the machine's own database; all machines have the same key, so that no machine changes it.
extension PostgreSQLStore: StoreAdministration {
  public func rotateKey() async throws(KeyRotationError) -> KeyRotation {
    throw .fixed(source: "the fleet: every machine that shares \(location) has the same key")
  }

  public func checkSize() async throws(BackupError) { try await own.checkSize() }

  public func pack(_ backup: Backup, with secret: BackupFile.Secret) async throws(BackupError) -> [UInt8] {
    try await own.pack(backup, with: secret)
  }

  public func unpack(_ file: [UInt8], with secret: BackupFile.Secret) async throws(BackupError) -> Backup {
    try await own.unpack(file, with: secret)
  }
}
