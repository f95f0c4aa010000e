public import FoundationEssentials
import Glibc

/// Files and folders that are closed to all but this process's user.
public enum PrivateFiles {
  /// Makes the folder (0700) where it is missing, and refuses one where other users could replace files.
  ///
  /// Throws ``SealingError/unusableFolder(path:detail:)`` alone.
  public static func prepareFolder(_ path: String) throws(SealingError) {
    guard make(path) else {
      throw .unusableFolder(path: path, detail: "the folder cannot be made: \(systemError(errno))")
    }
    var status = stat()
    guard stat(path, &status) == 0 else { throw .unusableFolder(path: path, detail: systemError(errno)) }
    guard status.st_uid == geteuid() || status.st_uid == 0 else {
      throw .unusableFolder(path: path, detail: "the folder belongs to user \(status.st_uid), not to \(geteuid())")
    }
    guard status.st_mode & 0o022 == 0 else {
      throw .unusableFolder(
        path: path, detail: "others may write in the folder (mode \(String(status.st_mode & 0o7777, radix: 8)))")
    }
  }

  /// With its parent folders, for any umask.
  private static func make(_ path: String) -> Bool {
    if mkdir(path, 0o700) == 0 { return chmod(path, 0o700) == 0 }
    if errno == EEXIST { return true }
    guard errno == ENOENT, let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex,
      make(String(path[..<slash]))
    else { return false }
    return mkdir(path, 0o700) == 0 ? chmod(path, 0o700) == 0 : errno == EEXIST
  }

  /// Writes a new file (0600), whose content is on disk on return. False: it already existed, or could not be written;
  /// `errno` has the reason.
  public static func create(_ path: String, contents: Data) -> Bool {
    let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { return false }
    defer { Glibc.close(descriptor) }
    let count = contents.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
    return count == contents.count && fchmod(descriptor, 0o600) == 0 && fsync(descriptor) == 0
  }

  /// The folder of a file; `.` for only a name.
  public static func folder(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// Makes the entries of a folder durable. False: `errno` has the reason.
  public static func syncFolder(_ path: String) -> Bool {
    let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { Glibc.close(descriptor) }
    return fsync(descriptor) == 0
  }
}

func systemError(_ code: Int32) -> String { String(cString: strerror(code)) }
