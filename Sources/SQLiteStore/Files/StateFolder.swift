import Broker
import Glibc

/// The folder with the database and what belongs to it. For its owner's eyes alone.
struct StateFolder: Equatable {
  /// SQLite's files beside a database.
  static let companions = ["-wal", "-shm", "-journal"]

  let path: String

  var database: String { path + "/grantd.db" }
  var log: String { database + "-wal" }
  var lock: String { path + "/grantd.lock" }

  /// A new database that is being written.
  var draft: String { database + ".new" }
  /// A new database that is whole, and takes the place of the one that is there: at once, or with the next start.
  var successor: String { database + ".rebuilt" }

  /// Whether there is anything that was sealed.
  var hasDatabase: Bool { [database, log, successor].contains { size(of: $0) > 0 } }

  func size(of file: String) -> Int {
    var status = stat()
    return stat(file, &status) == 0 ? Int(status.st_size) : 0
  }

  /// Makes the folder (0700) where it is missing, and refuses one where other users could replace files.
  static func prepare(_ path: String) throws(StoreError) -> StateFolder {
    guard make(path) else {
      throw .unreadable(path: path, detail: "the folder cannot be made: \(systemError(errno))")
    }
    var status = stat()
    guard stat(path, &status) == 0 else { throw .unreadable(path: path, detail: systemError(errno)) }
    guard status.st_uid == geteuid() || status.st_uid == 0 else {
      throw .unreadable(path: path, detail: "the folder belongs to user \(status.st_uid), not to \(geteuid())")
    }
    guard status.st_mode & 0o022 == 0 else {
      throw .unreadable(
        path: path, detail: "others may write in the folder (mode \(String(status.st_mode & 0o7777, radix: 8)))")
    }
    return StateFolder(path: path)
  }

  /// With what leads to it, whatever the umask is.
  private static func make(_ path: String) -> Bool {
    if mkdir(path, 0o700) == 0 { return chmod(path, 0o700) == 0 }
    if errno == EEXIST { return true }
    // Not by NSString, whose `deletingLastPathComponent` ends the process where a path has one character.
    guard errno == ENOENT, let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex,
      make(String(path[..<slash]))
    else { return false }
    return mkdir(path, 0o700) == 0 ? chmod(path, 0o700) == 0 : errno == EEXIST
  }

  /// Makes the database's file before SQLite does, which would make it readable for others. SQLite gives its other
  /// files the permissions of this one.
  func protect(_ database: String) throws(StoreError) {
    let descriptor = Glibc.open(database, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw .unreadable(path: database, detail: systemError(errno)) }
    defer { Glibc.close(descriptor) }
    guard fchmod(descriptor, 0o600) == 0, syncFolder(path) else {
      throw .unreadable(path: database, detail: systemError(errno))
    }
    for suffix in Self.companions { chmod(database + suffix, 0o600) }
  }
}

/// Makes the entries of a folder durable.
func syncFolder(_ path: String) -> Bool {
  let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
  guard descriptor >= 0 else { return false }
  defer { Glibc.close(descriptor) }
  return fsync(descriptor) == 0
}

func systemError(_ code: Int32) -> String { String(cString: strerror(code)) }
