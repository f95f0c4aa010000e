public import Glibc

/// This machine's users and groups (passwd(5), group(5)), by calls that several threads may make at once.
public enum UserDatabase {
  public struct User: Sendable, Equatable {
    public var name: String
    public var uid: uid_t
    public var gid: gid_t
    public var home: String?
  }

  /// Bytes for the texts of an entry, at first and at most. A group's entry has the names of all its members.
  static let firstBuffer = 1 << 10
  static let largestBuffer = 1 << 20
  /// How often signals may interrupt one look-up.
  static let interruptions = 16

  public static func user(named name: String) -> User? {
    entry(passwd(), { getpwnam_r(name, $0, $1, $2, $3) }, user)
  }

  public static func user(_ uid: uid_t) -> User? {
    entry(passwd(), { getpwuid_r(uid, $0, $1, $2, $3) }, user)
  }

  public static func group(named name: String) -> gid_t? {
    entry(Glibc.group(), { getgrnam_r(name, $0, $1, $2, $3) }, \.gr_gid)
  }

  /// The primary group and all groups of a user. A user that does not exist has none.
  ///
  /// - Returns: nil if the database cannot be read, as while a directory service restarts.
  public static func membership(of uid: uid_t) -> (gid: gid_t, groups: [gid_t])? {
    var isAbsent = false
    let found = entry(passwd(), { getpwuid_r(uid, $0, $1, $2, $3) }, user) { isAbsent = true }
    if let found { return (found.gid, groups(of: found)) }
    return isAbsent ? (.max, []) : nil
  }

  /// The numbers of all groups of the user.
  public static func groups(of user: User) -> [gid_t] {
    var count: Int32 = 64
    while count <= mostGroups {
      var groups = [gid_t](repeating: 0, count: Int(count))
      let room = count
      if getgrouplist(user.name, user.gid, &groups, &count) >= 0 { return Array(groups.prefix(Int(count))) }
      count = max(count, room * 2)
    }
    return [user.gid]
  }

  /// The kernel's own limit (`NGROUPS_MAX`).
  static let mostGroups: Int32 = 65_536

  private static func user(_ entry: passwd) -> User {
    User(
      name: String(cString: entry.pw_name), uid: entry.pw_uid, gid: entry.pw_gid,
      home: entry.pw_dir.map { String(cString: $0) })
  }

  typealias Call<Entry> = (
    UnsafeMutablePointer<Entry>, UnsafeMutablePointer<CChar>, Int, UnsafeMutablePointer<UnsafeMutablePointer<Entry>?>
  ) -> Int32

  /// The entry that the call finds, with a larger buffer if it is too small; nil: none, or the database cannot be read.
  ///
  /// - Parameter absent: called if the database has no such entry.
  static func entry<Entry, Value>(
    _ empty: Entry, _ call: Call<Entry>, _ read: (Entry) -> Value, absent: () -> Void = {}
  ) -> Value? {
    var (size, interrupted) = (firstBuffer, 0)
    while size <= largestBuffer, interrupted <= interruptions {
      let texts = UnsafeMutablePointer<CChar>.allocate(capacity: size)
      defer { texts.deallocate() }
      var entry = empty
      var found: UnsafeMutablePointer<Entry>?
      switch call(&entry, texts, size, &found) {
      // The texts are in the buffer: they are read before it goes.
      case 0:
        if found == nil { absent() }
        return found == nil ? nil : read(entry)
      case ERANGE: size *= 2
      case EINTR: interrupted += 1
      default: return nil
      }
    }
    return nil
  }
}
