import Broker
import Glibc
import Sealing

/// The folder with the database and its files. Only for its owner.
struct StateFolder: Equatable {
  /// SQLite's files next to a database.
  static let companions = ["-wal", "-shm", "-journal"]

  let path: String

  var database: String { path + "/grantd.db" }
  var log: String { database + "-wal" }
  var lock: String { path + "/grantd.lock" }

  /// A new database that is being written.
  var draft: String { database + ".new" }
  /// A complete new database that replaces the existing one: at once, or with the next start.
  var successor: String { database + ".rebuilt" }

  /// Whether there is anything that was sealed.
  var hasDatabase: Bool { [database, log, successor].contains { size(of: $0) > 0 } }

  func size(of file: String) -> Int {
    var status = stat()
    return stat(file, &status) == 0 ? Int(status.st_size) : 0
  }

  /// Its file system is mounted read-only.
  var isReadOnly: Bool {
    var status = statvfs()
    // ST_RDONLY
    return statvfs(path, &status) == 0 && status.f_flag & 1 != 0
  }

  /// Makes the folder (0700) where it is missing, and refuses one where other users could replace files.
  static func prepare(_ path: String) throws(StoreError) -> StateFolder {
    do throws(SealingError) { try PrivateFiles.prepareFolder(path) } catch { throw StoreError(error) }
    return StateFolder(path: path)
  }

  /// Makes the database's file before SQLite does, which would make it readable for others. SQLite gives its other
  /// files the permissions of this one.
  func protect(_ database: String) throws(StoreError) {
    let descriptor = Glibc.open(database, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw .unreadable(path: database, detail: systemError(errno)) }
    defer { Glibc.close(descriptor) }
    guard fchmod(descriptor, 0o600) == 0, PrivateFiles.syncFolder(path) else {
      throw .unreadable(path: database, detail: systemError(errno))
    }
    for suffix in Self.companions { chmod(database + suffix, 0o600) }
  }
}

func systemError(_ code: Int32) -> String { String(cString: strerror(code)) }
