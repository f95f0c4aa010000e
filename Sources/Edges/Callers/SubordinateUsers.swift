import Glibc
package import Principals
import Synchronization

/// The owners of subordinate user ids (subuid(5)). Only this machine's files are read: a name server that hangs must
/// not delay callers.
public final class SubordinateUsers: Sendable {
  struct Range: Sendable, Equatable {
    var first: UInt32
    var count: UInt32
    var owner: UInt32

    func contains(_ uid: UInt32) -> Bool { uid >= first && uid - first < count }
  }

  private struct State {
    var ranges: [Range] = []
    var seen: FileStamp?
  }

  private struct FileStamp: Equatable {
    var seconds: Int
    var nanoseconds: Int
    var size: Int

    init?(_ path: String) {
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      (seconds, nanoseconds, size) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec, Int(status.st_size))
    }
  }

  public static let shared = SubordinateUsers()

  /// Bytes of either file that are read.
  private static let longest = 1 << 20
  /// Below it there are users of the system and login users (useradd(8), SUB_UID_MIN is far above it).
  private static let lowest: UInt32 = 65_536

  private let state = Mutex(State())
  private let file: String
  private let users: String

  init(file: String = "/etc/subuid", users: String = "/etc/passwd") {
    self.file = file
    self.users = users
  }

  /// The owner of this user id; nil: only itself. While the files cannot be read each id is taken for its owner's, so
  /// that no rule for a group matches it by mistake.
  public func owner(of uid: UInt32) -> UInt32? {
    guard uid >= Self.lowest else { return nil }
    return state.withLock { state in
      let stamp = FileStamp(file)
      if stamp != state.seen {
        if stamp == nil {
          state.ranges = []
        } else if let ranges = read() {
          state.ranges = ranges
        } else {
          return uid
        }
        state.seen = stamp
      }
      return state.ranges.first { $0.contains(uid) }?.owner
    }
  }

  /// Nil where they cannot be read now: there is no descriptor, or one is too long.
  private func read() -> [Range]? {
    do throws(Peer.Failure) {
      guard let text = try text(of: file) else { return nil }
      let names = try CallerOrigin.contents(of: users, atMost: Self.longest).map(Self.uids) ?? [:]
      return Self.ranges(text, names)
    } catch {
      return nil
    }
  }

  /// An empty file has a text too.
  private func text(of file: String) throws(Peer.Failure) -> String? {
    FileStamp(file)?.size == 0 ? "" : try CallerOrigin.contents(of: file, atMost: Self.longest)
  }

  /// `name:first:count` or `uid:first:count` in a line. Ranges of a name that is not known stay one holder's: the range's
  /// first id stands for its owner.
  static func ranges(_ text: String, _ names: [Substring: UInt32]) -> [Range] {
    text.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: ":", omittingEmptySubsequences: false)
      guard fields.count == 3, let first = UInt32(fields[1]), let count = UInt32(fields[2]), count > 0 else {
        return nil
      }
      return Range(first: first, count: count, owner: names[fields[0]] ?? UInt32(fields[0]) ?? first)
    }
  }

  private static func uids(_ passwd: String) -> [Substring: UInt32] {
    var uids: [Substring: UInt32] = [:]
    for line in passwd.split(separator: "\n") {
      let fields = line.split(separator: ":", omittingEmptySubsequences: false)
      if fields.count > 2, let uid = UInt32(fields[2]) { uids[fields[0]] = uid }
    }
    return uids
  }
}

extension Holder {
  /// The holder of a user id whose process is not known, such as a stored one.
  package static func ofUser(_ uid: UInt32) -> Holder { Holder(uid: uid, slice: nil, unit: nil) }

  /// Users that the service manager makes up for one unit (`DynamicUser=`; systemd's UIDS-GIDS).
  private static let transientUsers: ClosedRange<UInt32> = 61_184...65_519

  /// - Parameters:
  ///   - slice: whose user slice the process is in; nil: in none.
  ///   - unit: the system's unit that it runs in.
  init(
    uid: UInt32, slice: UInt32?, unit: String?, _ subordinates: SubordinateUsers = .shared, own: UInt32 = geteuid()
  ) {
    if uid == 0 {
      self = .root
    } else if uid == own {
      self = .owner
    } else if let slice, slice != 0 {
      self = .user(slice)
    } else {
      let owner = subordinates.owner(of: uid)
      if let unit {
        self = .unit(unit, user: Self.transientUsers.contains(uid) ? nil : owner ?? uid)
      } else {
        self = .user(owner ?? uid)
      }
    }
  }
}
