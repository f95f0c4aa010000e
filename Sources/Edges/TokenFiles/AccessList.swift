import Broker
import CLinux
import Glibc

/// Who may read a file: its mode, and an access control list for one more user or group (acl(5)). The broker of the system
/// has no capability to give a file away; its owner may let others read it.
struct AccessList {
  /// The kernel's binary form (`posix_acl_xattr.h`): a version, then for each entry a tag, permissions and an id.
  private static let version: UInt32 = 2
  private static let none = UInt32.max
  private static let read: UInt16 = 4

  private enum Tag: UInt16 {
    case owner = 0x01
    case user = 0x02
    case ownerGroup = 0x04
    case group = 0x08
    case mask = 0x10
    case others = 0x20
  }

  private let mode: mode_t
  /// Nil: the mode says all.
  private let more: (tag: Tag, id: UInt32)?

  init(of file: TokenFile) {
    mode = mode_t(file.mode ?? 0o600)
    switch file.reader {
    // Root reads everything.
    case .user(let uid, _, _): more = uid == geteuid() || uid == 0 ? nil : (.user, uid)
    case .group(let gid): more = (.group, gid)
    }
  }

  private var bytes: [UInt8]? {
    guard let more else { return nil }
    let (owner, group) = (UInt16(mode >> 6 & 7), UInt16(mode >> 3 & 7))
    // In the order of their tags.
    var entries: [(Tag, UInt16, UInt32)] = [(.owner, owner, Self.none)]
    if more.tag == .user { entries.append((.user, Self.read, more.id)) }
    entries.append((.ownerGroup, group, Self.none))
    if more.tag == .group { entries.append((.group, Self.read, more.id)) }
    entries += [(.mask, group | Self.read, Self.none), (.others, 0, Self.none)]
    var bytes = little(Self.version)
    for (tag, permissions, id) in entries { bytes += little(tag.rawValue) + little(permissions) + little(id) }
    return bytes
  }

  private func little<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian) { Array($0) }
  }

  func give(to descriptor: Int32, _ path: String) throws(TokenFileFailure) {
    guard fchmod(descriptor, mode) == 0 else {
      throw TokenFileFailure(
        "the permissions of \(path) cannot be set: \(String(cString: strerror(errno)))", hint: "Choose another folder.")
    }
    guard let bytes else { return }
    guard clinux_acl_set(descriptor, bytes, bytes.count) == 0 else {
      let hint =
        errno == ENOTSUP
        ? "The file system of that folder has no access control lists: choose a folder of another one, such as /run."
        : "Choose another folder."
      throw TokenFileFailure(
        "\(path) cannot be made readable for another user: \(String(cString: strerror(errno)))", hint: hint)
    }
  }

  /// Whether the file has these permissions.
  func isOf(_ descriptor: Int32) -> Bool {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_uid == geteuid() else { return false }
    var found = [UInt8](repeating: 0, count: 1024)
    let count = clinux_acl_get(descriptor, &found, found.count)
    guard let bytes else { return count < 0 && status.st_mode & 0o7777 == mode }
    return count == bytes.count && Array(found.prefix(count)) == bytes
  }
}
