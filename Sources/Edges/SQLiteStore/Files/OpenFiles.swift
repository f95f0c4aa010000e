import Broker
import Glibc

/// The files of an open database, to notice their removal, replacement or truncation: SQLite continues to write into
/// unreachable files.
///
/// They are examined only from outside. Opening and closing one of them releases SQLite's locks (fcntl(2)).
struct OpenFiles: Sendable, Equatable {
  private struct File: Equatable {
    let path: String
    let identity: FileIdentity
  }

  /// The database's and the log's contents, as far as a look from outside tells.
  struct Contents: Sendable, Equatable {
    var databaseSize = 0
    /// Nanoseconds since 1970, which a date after 2262 overflows. SQLite writes to the database only when it takes the log in.
    var databaseModified = 0
    var logSize = 0
    var logModified = 0

    /// A look, which may wait where the disk hangs.
    init(in folder: StateFolder) {
      (databaseSize, databaseModified) = Self.attributes(at: folder.database)
      (logSize, logModified) = Self.attributes(at: folder.log)
    }

    private static func attributes(at path: String) -> (size: Int, modified: Int) {
      var status = stat()
      guard stat(path, &status) == 0 else { return (0, 0) }
      return (Int(status.st_size), status.st_mtim.tv_sec &* 1_000_000_000 &+ status.st_mtim.tv_nsec)
    }
  }

  private let folder: StateFolder
  private let files: [File]
  /// After this program's last write.
  private(set) var contents: Contents

  /// As they are now, just after the database was opened.
  init(in folder: StateFolder) {
    self.folder = folder
    files = ([folder.database] + ["-wal", "-shm"].map { folder.database + $0 }).compactMap { path in
      FileIdentity(at: path).map { File(path: path, identity: $0) }
    }
    contents = Contents(in: folder)
  }

  static func == (one: OpenFiles, other: OpenFiles) -> Bool { one.files == other.files && one.folder == other.folder }

  /// That each still exists at its path. Names the highest missing path: a folder before its content.
  func examine() throws(StoreError) {
    var status = stat()
    guard stat(folder.path, &status) == 0 else { throw absence(of: folder.path, errno) }
    for file in files {
      guard stat(file.path, &status) == 0 else { throw absence(of: file.path, errno) }
      guard FileIdentity(status) == file.identity else { throw .missing(path: file.path) }
      if file.path == folder.database, status.st_size == 0 {
        throw .corrupt(path: file.path, detail: "it was emptied while grantd had it open")
      }
    }
  }

  /// That no other program wrote to the database or its log since this program's last write. Otherwise it would not be
  /// noticed: an older copy of the database is valid, and the log is not examined before the next start. Called while
  /// this program writes nothing.
  func examineContents(_ now: Contents) throws(StoreError) {
    if now.databaseSize < contents.databaseSize { throw cut(folder.database, contents.databaseSize, now.databaseSize) }
    if now.logSize < contents.logSize { throw cut(folder.log, contents.logSize, now.logSize) }
    guard now.logSize == contents.logSize, now.logModified == contents.logModified else { throw foreign(folder.log) }
    try examineDatabase(now)
  }

  /// The same for only the database.
  func examineDatabase(_ now: Contents) throws(StoreError) {
    if now.databaseSize < contents.databaseSize { throw cut(folder.database, contents.databaseSize, now.databaseSize) }
    guard now.databaseSize == contents.databaseSize, now.databaseModified == contents.databaseModified else {
      throw foreign(folder.database)
    }
  }

  /// The file that this program writes to.
  enum Part {
    /// A commit, also one that is taken back.
    case log
    /// Also the database: the log is taken in.
    case all
  }

  /// This program has written.
  mutating func written(_ now: Contents, to part: Part) {
    (contents.logSize, contents.logModified) = (now.logSize, now.logModified)
    if part == .all { contents = now }
  }

  private func cut(_ path: String, _ before: Int, _ now: Int) -> StoreError {
    .corrupt(path: path, detail: "it was cut from \(before) to \(now) bytes while grantd had it open")
  }

  private func foreign(_ path: String) -> StoreError {
    .corrupt(path: path, detail: "another program wrote to it while grantd had it open")
  }

  private func absence(of path: String, _ code: Int32) -> StoreError {
    code == ENOENT || code == ENOTDIR
      ? .missing(path: path) : .unwritable(path: path, detail: "it cannot be looked at: \(systemError(code))")
  }
}
