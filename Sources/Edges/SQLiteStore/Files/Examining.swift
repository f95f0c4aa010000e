public import Broker
import SQLite
import Sealing
import Synchronization

// Whether the files of an open database still exist unchanged. SQLite itself notices little of that.
extension SQLiteStore {
  @discardableResult
  public func examine() async throws(StoreError) -> [String] {
    guard inbox.withLock({ $0.isOpen }) else { throw .closed }
    let notices = try await queues.looking.run { () throws(StoreError) in try self.examineFiles() } + repairsToLog()
    // Between two commits: each changes the sizes, and looks for itself.
    guard inbox.withLock({ $0.isQuiet }) else { return notices }
    try await queues.commits.run { () throws(StoreError) in try self.examineContents() }
    return notices
  }

  // MARK: On the queue of looks

  private func examineFiles() throws(StoreError) -> [String] {
    let files = home.withLock { $0.files }
    do throws(StoreError) {
      try files?.examine()
    } catch {
      // Files that a rebuild moved are not missing.
      guard home.withLock({ $0.files }) == files else { return [] }
      throw error
    }
    guard files != nil else { return [] }
    var notices: [String] = []
    if try acquireLock(in: opening.folder) {
      notices.append("\(opening.folder.lock) was removed or replaced: grantd has made and locked it again")
    }
    if let notice = keepKey() { notices.append(notice) }
    return notices
  }

  /// True: the lock's file was missing, and this process has locked a new one.
  func acquireLock(in folder: StateFolder) throws(StoreError) -> Bool {
    try owning.withLock { _ throws(StoreError) in
      let held = home.withLock { $0.lock }
      guard !held.isIn(folder.lock) else { return false }
      if held.owns(folder.path) {
        try held.lockFile(folder.lock, owning: folder.path)
        return true
      }
      let lock = try OwnerLock.acquire(folder.lock, owning: folder.path)
      home.withLock { $0.lock = lock }
      held.release()
      return true
    }
  }

  /// The report about the key's file. One that was removed from the state folder is written again: without it the next
  /// start would refuse all sealed data.
  private func keepKey() -> String? {
    let key = home.withLock { $0.key }
    guard let file = key.file, !file.has(key) else { return nil }
    do throws(SealingError) {
      if let place = try file.keep(key, inside: opening.folder.path, restores: true) {
        return "\(file.path) was removed or replaced: the key is in \(place) again; if it is kept elsewhere now, "
          + "restart grantd with that and remove the file"
      }
      return "\(file.path) is missing: put it back before grantd is restarted, or change the key with: "
        + "grantctl key rotate"
    } catch {
      return "\(file.path) cannot be written again, and is needed by the next start: \(StoreError(error).message)"
    }
  }

  // MARK: On the queue

  func examineContents() throws(StoreError) {
    let now = OpenFiles.Contents(in: opening.folder)
    try home.withLock { $0.files }?.examineContents(now)
  }

  /// That no other program wrote to the database since this program's last write.
  func examineDatabase() throws(StoreError) {
    let now = OpenFiles.Contents(in: opening.folder)
    try home.withLock { $0.files }?.examineDatabase(now)
  }

  /// This program has written to the open files.
  func written(to part: OpenFiles.Part) {
    let now = OpenFiles.Contents(in: opening.folder)
    home.withLock { $0.files?.written(now, to: part) }
  }
}
