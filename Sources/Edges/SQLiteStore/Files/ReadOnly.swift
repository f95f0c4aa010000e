public import Broker
import SQLite
import Sealing
import Synchronization

// A start on a disk that is mounted read-only: stored data are read, and commits fail until the disk accepts them.
extension Opening {
  /// The database on a disk that is mounted read-only. Whatever an opening would change is left for ``database()``.
  func databaseToRead() throws(StoreError) -> Opened {
    func refused(_ detail: String) -> StoreError {
      .unreadable(path: folder.database, detail: "\(detail), and its file system is mounted read-only")
    }
    guard folder.size(of: folder.successor) == 0 else { throw refused("it must be replaced by \(folder.successor)") }
    guard case .store(let under, let damage) = try inspect() else { throw refused("it does not exist yet") }
    guard damage.version == SQLiteSchema.version else {
      throw refused("it must be prepared for this version of grantd")
    }
    if let structure = damage.structure { throw refused("it is damaged (\(structure))") }
    do {
      return Opened(
        database: try SQLiteConnection(path: folder.database, reading), keys: keyring.unchanged(keyring.key(under)))
    } catch {
      throw .opening(error, at: folder.database)
    }
  }
}

extension SQLiteStore {
  public var writesFail: StoreError? {
    home.withLock { $0.isReadOnly }
      ? .unwritable(path: location, detail: "its file system is mounted read-only") : nil
  }

  /// Opens the database again if the start found the disk read-only and it is not any more.
  func becomeWritable() throws(StoreError) {
    guard let failure = writesFail else { return }
    guard !opening.folder.isReadOnly else { throw failure }
    // Closed first: the new one's locks would go with the old one's descriptor (fcntl(2)).
    let old = home.withLock { home in
      defer { home.database = nil }
      return home.database
    }
    try? old?.close()
    try home.withLock { $0.lock }.lockFile(opening.folder.lock, owning: opening.folder.path)
    let opened = try opening.database()
    let files = OpenFiles(in: opening.folder)
    repaired.withLock { $0.notices += opened.damageNotices }
    home.withLock { home in
      (home.database, home.files, home.key, home.isReadOnly) = (opened.database, files, opened.keys.key, false)
    }
  }
}
