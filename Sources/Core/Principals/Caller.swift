/// The process at the other end of a connection, as the kernel said when it connected; nothing that it says itself.
public struct Caller: Sendable, Hashable {
  public var uid: UInt32
  public var gid: UInt32
  public var groups: [UInt32]
  /// The process that connected; it may have ended since.
  public var pid: Int32
  /// The system's unit that it runs in, such as `mail-sync.service`, as its control group says; nil where that could not be
  /// had.
  public var unit: String?
  /// The unit of its user's own manager, if it runs in one. Any user may have one of any name: it has a meaning only
  /// together with ``uid``.
  public var userUnit: String?
  /// The path of its executable; nil if the kernel does not show it to the broker.
  public var executable: String?
  /// The name of the program that executed it, if it is the helper. For people only: a process chooses its name.
  public var parent: String?
  /// The holder that this caller's resources are charged to.
  public var holder: Holder
  /// Its user id is in a range that `/etc/subuid` gives to a user.
  public var isSubordinate = false

  /// - Parameter holder: nil: derived from the user id.
  public init(
    uid: UInt32, gid: UInt32, groups: [UInt32], pid: Int32, unit: String? = nil, userUnit: String? = nil,
    executable: String? = nil, holder: Holder? = nil
  ) {
    self.holder = holder ?? Holder(uid: uid)
    self.unit = unit
    self.userUnit = userUnit
    self.executable = executable
    self.uid = uid
    self.gid = gid
    self.groups = groups
    self.pid = pid
  }
}
