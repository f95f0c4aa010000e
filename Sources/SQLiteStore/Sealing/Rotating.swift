public import Broker
import Crypto
import Foundation
import GRDB
import Glibc
import Synchronization

// The key is changed while the store serves. The new one is on disk before anything is sealed under it, and the old one
// is there until everything is: whatever ends the process, the database says which of the two it is under.
extension SQLiteStore {
  public func rotateKey() async throws(KeyRotationError) -> KeyRotation {
    try await alone(for: .rotation) { () throws(KeyRotationError) in try self.replaceKey() }.get()
  }

  // MARK: On the queue

  private func replaceKey() throws(KeyRotationError) -> KeyRotation {
    let old = home.withLock { $0.key }
    guard let file = old.file else { throw .fixed(source: old.source) }
    let database = try openDatabase()
    try clearNext(beside: old, database)
    let new = old.replaced(by: SymmetricKey(size: .bits256))
    try new.writeNext()
    report(.keyWritten)
    try reseal(database, from: old, to: new)
    // From here on the new key is the key, whatever else fails.
    home.withLock { $0.key = new }
    report(.resealCommitted)
    // What has taken the database's place meanwhile is under a key that its file must not lose.
    do throws(StoreError) { try home.withLock { $0.files }?.examine() } catch { throw .store(error) }
    var remains: [String] = []
    if (try? opening.cutLog(of: database)) != true {
      remains.append("\(opening.folder.log) still holds values under the old key: another program reads the database")
    }
    report(.logCut)
    do throws(KeyRotationError) {
      try new.installNext()
    } catch {
      remains.append(whereabouts(of: new, file, error))
    }
    report(.keyInstalled)
    remains += opening.folder.putAside.map { "\($0), which was put aside, is still under an old key" }
    return KeyRotation(file: file, accounts: count(database), remains: remains)
  }

  /// Where the new key is that could not be put into its file.
  private func whereabouts(of key: SealingKey, _ file: String, _ error: KeyRotationError) -> String {
    let detail: String
    do throws(StoreError) {
      if let place = try key.keepOnDisk(inside: opening.folder.path, restores: true) {
        return place == file
          ? "the new key had to be written again" : "the new key is in \(place) until the next start: \(error.detail)"
      }
      detail = error.detail
    } catch {
      detail = error.message
    }
    return "the new key is in memory alone: keep grantd running, see to \(file), and rotate the key again: \(detail)"
  }

  /// As for a commit: looked at before and after, because what is written into a file that is gone is not saved.
  private func openDatabase() throws(KeyRotationError) -> DatabaseQueue {
    do throws(StoreError) {
      let database = try database()
      try opening.folder.withdrawSuccessor()
      opening.folder.removeDraft()
      try home.withLock { $0.files }?.examine()
      return database
    } catch {
      throw .store(error)
    }
  }

  private func reseal(_ database: DatabaseQueue, from old: SealingKey, to new: SealingKey) throws(KeyRotationError) {
    var isCommitting = false
    do {
      try opening.reseal(database, from: old.sealer, to: new.sealer) {
        report(.resealed)
        isCommitting = true
      }
    } catch {
      // A commit that failed on its way may still be found in the log, and then nothing but the new key opens it.
      let isUndone = !isCommitting || (try? opening.cutLog(of: database)) == true
      if isUndone { new.removeNext() }
      throw .store(.writing(error, at: location))
    }
  }

  /// What an earlier rotation left: its key has its place by now, or the database must be seen not to need it.
  private func clearNext(beside key: SealingKey, _ database: DatabaseQueue) throws(KeyRotationError) {
    guard let file = key.file else { return }
    let next = SealingKey.nextFile(of: file)
    guard access(next, F_OK) == 0 else { return }
    if let left = try? SealingKey.loadAlone(file: next), left.key == key.key { return try key.installNext() }
    guard (try? opening.cutLog(of: database)) == true else {
      throw .unwritable(file: next, detail: "it is left of an earlier rotation, and the database is being read")
    }
    key.removeNext()
  }

  private func count(_ database: DatabaseQueue) -> Int {
    (try? database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM grants") }) ?? 0
  }

  private func report(_ step: RotationStep) { opening.onWritePoint?(.rotating(step)) }
}

extension SealingKey {
  /// The key beside its file, for its owner alone, on disk.
  func writeNext() throws(KeyRotationError) {
    guard let file else { throw .fixed(source: source) }
    let next = Self.nextFile(of: file)
    guard Self.writeFile(next, contents: Self.text(of: key)), syncFolder(Self.folder(of: file)) else {
      let detail = systemError(errno)
      if errno != EEXIST { unlink(next) }
      throw .unwritable(file: next, detail: detail)
    }
  }

  /// Gives the key beside the file its place. What the file had is overwritten, as far as a file system does that.
  func installNext() throws(KeyRotationError) {
    guard let file else { return }
    let old = Glibc.open(file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    defer { if old >= 0 { Glibc.close(old) } }
    guard rename(Self.nextFile(of: file), file) == 0 else {
      throw .unwritable(file: file, detail: systemError(errno))
    }
    // Where this fails, the next start finds the two as they were or as they are: it takes either.
    guard syncFolder(Self.folder(of: file)) else { return }
    var status = stat()
    // A second name of the file is somebody's copy.
    guard old >= 0, fstat(old, &status) == 0, status.st_nlink == 0, status.st_size <= 512 else { return }
    let nothing = [UInt8](repeating: 0, count: Int(status.st_size))
    if pwrite(old, nothing, nothing.count, 0) == nothing.count { fsync(old) }
  }

  /// The database is under this key: what stands beside it belongs to a rotation that never came to anything. False:
  /// there was nothing.
  @discardableResult
  func forgetNext() -> Bool {
    guard let file, access(Self.nextFile(of: file), F_OK) == 0 else { return false }
    // Never the last copy, whatever happened to the file meanwhile.
    guard let kept = try? Self.loadAlone(file: file), kept.key == key else { return false }
    removeNext()
    return true
  }

  func removeNext() {
    guard let file else { return }
    unlink(Self.nextFile(of: file))
    _ = syncFolder(Self.folder(of: file))
  }
}

extension KeyRotationError {
  /// For people, without a full stop.
  var detail: String {
    switch self {
    case .fixed(let source): "the key is given in \(source)"
    case .unwritable(_, let detail): detail
    case .store(let error): error.message
    }
  }
}
