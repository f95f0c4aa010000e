public import Broker
import SQLite
import Sealing
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
    defer { written(to: .all) }
    try clearNext(beside: file, old, database)
    let new: SealingKey
    do throws(SealingError) { new = try file.makeNext() } catch { throw KeyRotationError(error) }
    report(.keyWritten)
    let damaged = try reseal(database, from: old, to: new, in: file)
    // From here on the new key is the key, even if a later step fails.
    home.withLock { home in
      home.key = new
      home.commits.write(home.sealer)
    }
    report(.resealCommitted)
    // A database that replaced this one in the interim is under a key that its file must not lose.
    do throws(StoreError) { try home.withLock { $0.files }?.examine() } catch { throw .store(error) }
    var remains: [String] = []
    if damaged > 0 {
      remains.append(
        "\(damaged) row\(damaged == 1 ? "" : "s") that cannot be read \(damaged == 1 ? "was" : "were") kept: "
          + "`grantctl repair` lists them")
    }
    if (try? opening.cutLog(of: database)) != true {
      remains.append("\(opening.folder.log) still holds values under the old key: another program reads the database")
    }
    report(.logCut)
    do throws(SealingError) {
      try file.installNext()
    } catch {
      remains.append(whereabouts(of: new, file, error))
    }
    report(.keyInstalled)
    remains += opening.folder.putAside.map { "\($0), which was put aside, is still under an old key" }
    return KeyRotation(file: file.path, accounts: count(database), remains: remains)
  }

  /// The location of a new key that could not be written to its file.
  private func whereabouts(of key: SealingKey, _ file: KeyFile, _ error: SealingError) -> String {
    let detail: String
    do throws(SealingError) {
      if let place = try file.keep(key, inside: opening.folder.path, restores: true) {
        return place == file.path
          ? "the new key had to be written again" : "the new key is in \(place) until the next start: \(error.detail)"
      }
      detail = error.detail
    } catch {
      detail = StoreError(error).message
    }
    return
      "the new key is only in memory: keep grantd running, correct \(file.path), and rotate the key again: \(detail)"
  }

  /// As for a commit: checked before and after, because data written into a missing file are not saved.
  private func openDatabase() throws(KeyRotationError) -> SQLiteConnection {
    do throws(StoreError) {
      let database = try database()
      try opening.folder.withdrawSuccessor()
      opening.folder.removeDraft()
      try home.withLock { $0.files }?.examine()
      try examineContents()
      return database
    } catch {
      throw .store(error)
    }
  }

  private func reseal(
    _ database: SQLiteConnection, from old: SealingKey, to new: SealingKey, in file: KeyFile
  ) throws(KeyRotationError) -> Int {
    var isCommitting = false
    do {
      return try opening.reseal(database, from: old.sealer, to: new.sealer) {
        report(.resealed)
        isCommitting = true
      }
    } catch {
      // A commit that failed on its way may still be found in the log, and then nothing but the new key opens it.
      let isUndone = !isCommitting || (try? opening.cutLog(of: database)) == true
      if isUndone { file.removeNext() }
      throw .store(.writing(error, at: location))
    }
  }

  /// The rest of an earlier rotation: its key is in place, or the database must be examined first.
  private func clearNext(
    beside file: KeyFile, _ key: SealingKey, _ database: SQLiteConnection
  ) throws(KeyRotationError) {
    do throws(SealingError) {
      guard try file.finishRotation(to: key) else { return }
    } catch {
      throw KeyRotationError(error)
    }
    guard (try? opening.cutLog(of: database)) == true else {
      throw .unwritable(file: file.next, detail: "it is left of an earlier rotation, and the database is being read")
    }
    file.removeNext()
  }

  private func count(_ database: SQLiteConnection) -> Int {
    (try? database.read { try $0.number("SELECT count(*) FROM grants") }) ?? 0
  }

  private func report(_ step: RotationStep) { opening.onWritePoint?(.rotating(step)) }
}
