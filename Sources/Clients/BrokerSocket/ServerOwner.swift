import Glibc

/// Who may be the server of a socket that was found at its usual place: a client sends it secrets.
public enum ServerOwner {
  /// Root, this user, or the owner of the socket's folder, where only root can have made or replaced that folder. A socket
  /// that the service manager listens at belongs to the manager's user.
  public static func isExpected(_ uid: UInt32, at path: String) -> Bool {
    uid == 0 || uid == geteuid() || owner(ofFolderOf: path) == uid
  }

  /// Nil where others than root and the owner can write to the folder, or others than root can replace it.
  private static func owner(ofFolderOf path: String) -> UInt32? {
    guard let folder = parent(path), let status = status(folder), let above = parent(folder).flatMap(Self.status),
      above.st_uid == 0, (status.st_mode | above.st_mode) & 0o022 == 0
    else { return nil }
    return status.st_uid
  }

  private static func parent(_ path: String) -> String? {
    guard let slash = path.lastIndex(of: "/") else { return nil }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private static func status(_ path: String) -> stat? {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR ? status : nil
  }
}
