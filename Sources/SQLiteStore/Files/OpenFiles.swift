import Broker
import Glibc

/// The files that an open database is in, so that it is seen when they are removed or replaced: SQLite goes on writing
/// into files that nobody will find again.
///
/// They are looked at from outside alone. Whoever opens and closes one of them takes SQLite's locks away.
struct OpenFiles: Sendable, Equatable {
  private struct File: Equatable {
    let path: String
    let device: dev_t
    let inode: ino_t
  }

  private let folder: StateFolder
  private let files: [File]

  /// As they are now, just after the database was opened.
  init(in folder: StateFolder) {
    self.folder = folder
    files = ([folder.database] + ["-wal", "-shm"].map { folder.database + $0 }).compactMap { path in
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      return File(path: path, device: status.st_dev, inode: status.st_ino)
    }
  }

  /// That each is still where it was. Names the highest thing that is gone: the folder before what was in it.
  func examine() throws(StoreError) {
    var status = stat()
    guard stat(folder.path, &status) == 0 else { throw absence(of: folder.path, errno) }
    for file in files {
      guard stat(file.path, &status) == 0 else { throw absence(of: file.path, errno) }
      guard status.st_dev == file.device, status.st_ino == file.inode else { throw .missing(path: file.path) }
      if file.path == folder.database, status.st_size == 0 {
        throw .corrupt(path: file.path, detail: "it was emptied while grantd had it open")
      }
    }
  }

  private func absence(of path: String, _ code: Int32) -> StoreError {
    code == ENOENT || code == ENOTDIR
      ? .missing(path: path) : .unwritable(path: path, detail: "it cannot be looked at: \(systemError(code))")
  }
}
