public import Broker
import Foundation
import GRDB
import Glibc
public import Grants
import OAuth
import Sealing
import Synchronization

// Accounts that the state folder does not take at the end of a run go into a database beside the socket, sealed under
// the same key. The next start takes them over.
extension SQLiteStore {
  /// Writes the accounts into a new file, which replaces one that is there.
  ///
  /// - Parameter path: in a folder of this user's, on another file system than the state.
  public func rescue(_ accounts: [any PackedAccount], to path: String) async throws(StoreError) {
    let key = home.withLock { $0.key }
    try await on(packing) { () throws(StoreError) in
      Self.removeRescued(path)
      let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard descriptor >= 0 else { throw .unwritable(path: path, detail: systemError(errno)) }
      Glibc.close(descriptor)
      do {
        try Opening.write(StoredState(), accounts, under: key, to: path, Opening.writing("grantd.rescue"))
      } catch {
        Self.removeRescued(path)
        throw .writing(error, at: path)
      }
    }
  }

  /// Takes over what ``rescue(_:to:)`` wrote, where the state has an older generation of the same sign-in, or none. The
  /// file is removed once that is on disk.
  ///
  /// - Returns: the accounts that were taken over; none where there is no such file.
  public func takeRescued(from path: String) async throws(StoreError) -> [AccountName] {
    var status = stat()
    guard lstat(path, &status) == 0 else { return [] }
    guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
      throw .unreadable(path: path, detail: "it is not this user's alone")
    }
    return try await on(queue) { () throws(StoreError) in
      let accounts = try self.rescued(at: path)
      let taken: [AccountName]
      do {
        let sealer = self.sealer
        taken = try self.database().writeWithoutTransaction { db in
          var taken: [AccountName] = []
          try db.inTransaction(.immediate) {
            for account in accounts where try account.isNewer(than: db) {
              try Change.removeTokens(account.grant.account).apply(to: db, sealer: sealer)
              try account.put(in: db, sealer: sealer)
              taken.append(account.grant.account)
            }
            return .commit
          }
          return taken
        }
      } catch {
        throw .writing(error, at: self.location)
      }
      self.home.withLock { $0.files?.written() }
      Self.removeRescued(path)
      return taken
    }
  }

  /// More could not have been unsaved: a refresh waits for the disk before the next begins.
  private static let rescuedMost = 100_000

  private func rescued(at path: String) throws(StoreError) -> [StoredAccount] {
    let key = home.withLock { $0.key }
    do {
      let database = try DatabaseQueue(path: path, configuration: Opening.looking)
      defer { try? database.close() }
      return try database.read { db in
        let sql = "SELECT value FROM meta WHERE name = ?"
        let note = try Data.fetchOne(db, sql: sql, arguments: [Keyring.noteName])
        guard let note, (try? Keyring(key).find(note)) != nil else {
          throw StoreError.wrongKey(path: path, keySource: key.source)
        }
        return try PackedRows.page(of: db, after: nil, most: Self.rescuedMost, sealer: key.sealer).map {
          try $0.read(.whole)
        }
      }
    } catch {
      throw .reading(error, at: path)
    }
  }

  private static func removeRescued(_ path: String) {
    for suffix in [""] + StateFolder.companions { unlink(path + suffix) }
  }
}

extension StoredAccount {
  fileprivate func isNewer(than db: Database) throws -> Bool {
    let row = try Row.fetchOne(
      db, sql: "SELECT generation, logged_in_at FROM grants WHERE account = ?", arguments: [grant.account.rawValue])
    guard let row else { return true }
    return row["logged_in_at"] == grant.loggedInAt.milliseconds && row["generation"] < grant.generation
  }
}
