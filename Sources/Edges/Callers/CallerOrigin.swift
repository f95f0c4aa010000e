import Glibc

/// A process's units and program, read from `/proc` while a descriptor of the process proves that the pid is still its
/// own.
struct CallerOrigin: Equatable {
  /// The system's unit, such as `mail-sync.service`; nil if unknown.
  var unit: String?
  /// The unit of the user's own manager, if it runs in one.
  var userUnit: String?
  /// The user in whose slice it runs; nil: in none.
  var userSlice: UInt32?
  /// The executable's path; nil if the kernel does not show it.
  var executable: String?

  /// - Parameter isAlive: whether the process that connected still runs: asked after the reading, since its pid could be
  ///   another's by then. Nil where the kernel cannot tell: then nothing that was read counts.
  init(pid: Int32, isAlive: () -> Bool?) throws(Peer.Failure) {
    guard pid > 0 else { return }
    let cgroup = try Self.contents(of: "/proc/\(pid)/cgroup").flatMap(CGroup.init)
    let executable = Self.target(of: "/proc/\(pid)/exe")
    guard isAlive() == true else { return }
    unit = cgroup?.unit
    userUnit = cgroup?.userUnit
    userSlice = cgroup?.userSlice
    self.executable = executable
  }

  /// The same by PIDFD_GET_INFO, without reading `/proc/PID/cgroup` where the group is cached. Nil where the kernel lacks
  /// it.
  ///
  /// - Parameters:
  ///   - info: asked after each reading in `/proc`, for the same reason.
  ///   - contents: of `/proc/PID/cgroup`.
  init?(
    pid: Int32, _ groups: ControlGroups, info: () -> ControlGroups.PidfdInfo,
    contents: () throws(Peer.Failure) -> String?
  ) throws(Peer.Failure) {
    guard pid > 0 else { return }
    let executable = Self.target(of: "/proc/\(pid)/exe")
    let before = info()
    guard before != .unsupported else { return nil }
    guard case .exists(pid, let group) = before else { return }
    var place = groups[group]
    if place == nil {
      place = try contents().flatMap(groups.parse)
      let after = info()
      guard case .exists(pid, _) = after else { return }
      // If it was moved in between, the text may be of either group.
      if after == before, let place { groups.learn(group, place) }
    }
    unit = place?.unit
    userUnit = place?.userUnit
    userSlice = place?.userSlice
    self.executable = executable
  }

  init() {}

  /// The kernel's longest path, and more than any cgroup file has.
  private static let longest = 4096

  static func contents(of path: String, atMost limit: Int = longest) throws(Peer.Failure) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if let failure = Peer.Failure.exhausted(by: errno) { throw failure }
      return nil
    }
    defer { close(descriptor) }
    return text(limit) { read(descriptor, $0.baseAddress, limit) }
  }

  /// Without the kernel's suffix for a deleted file: no rule can name that path.
  private static func target(of path: String) -> String? {
    let target = text(longest) { $0.withMemoryRebound(to: CChar.self) { readlink(path, $0.baseAddress!, longest) } }
    return target.flatMap { $0.hasPrefix("/") && !$0.hasSuffix(" (deleted)") ? $0 : nil }
  }

  /// Nil if it is too long: half a path is another path.
  private static func text(_ limit: Int, _ fill: (UnsafeMutableBufferPointer<UInt8>) -> Int) -> String? {
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: limit) { buffer in
      let count = fill(buffer)
      guard count > 0, count < limit else { return nil }
      return String(validating: UnsafeBufferPointer(rebasing: buffer[..<count]), as: UTF8.self)
    }
  }
}

/// A process's place in systemd's tree of control groups.
struct CGroup: Equatable {
  var unit: String?
  var userUnit: String?
  /// The user of its `user-UID.slice`, which contains all programs of a user, for any user id (systemd.special(7)).
  var userSlice: UInt32?
  /// Whether it was read from the unified hierarchy, whose ids PIDFD_GET_INFO returns.
  let isOfUnifiedTree: Bool

  /// A party that makes control groups.
  enum Owner: Hashable, Sendable {
    case user(UInt32)
    case unit(String)
    case other
  }

  var owner: Owner { userSlice.map(Owner.user) ?? unit.map(Owner.unit) ?? .other }

  /// From `/proc/PID/cgroup` (cgroups(7)): the line of the unified tree, or of systemd's own in the older layout. Nil
  /// if there is none, or if the process is outside of the visible tree.
  init?(_ contents: String) {
    // Bytes: what Unicode calls the same is not the same to the kernel, and each new connection pays for this.
    let lines = contents.utf8.split(separator: UInt8(ascii: "\n"))
    guard
      let line = lines.first(where: { $0.starts(with: "0::".utf8) && !$0.elementsEqual("0::/".utf8) })
        ?? lines.first(where: Self.isOfSystemd) ?? lines.first(where: { $0.starts(with: "0::".utf8) })
    else { return nil }
    isOfUnifiedTree = line.starts(with: "0::".utf8)
    let path = line.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
    guard path.count == 3, path[2].first == UInt8(ascii: "/") else { return nil }
    let components = path[2].split(separator: UInt8(ascii: "/"))
    guard !components.contains(where: { $0.elementsEqual("..".utf8) }) else { return nil }
    userSlice = Self.userSlice(components)
    // From the left: below its own group a delegated unit can make whatever names it likes.
    var rest = components[...]
    unit = Self.next(&rest)
    // Only there does a manager have its own units, and no other unit can have its name.
    if let unit, unit.hasPrefix("user@"), unit.hasSuffix(".service") { userUnit = Self.next(&rest) }
  }

  /// The line of systemd's own tree, in the older layout: `1:name=systemd:/…`.
  private static func isOfSystemd(_ line: Substring.UTF8View) -> Bool {
    line.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false).dropFirst().first?
      .elementsEqual("name=systemd".utf8) ?? false
  }

  /// Directly below the root's `user.slice`: elsewhere any user could have made it.
  private static func userSlice(_ components: [Substring.UTF8View]) -> UInt32? {
    guard components.count > 1, components[0].elementsEqual("user.slice".utf8),
      components[1].starts(with: "user-".utf8), ends(components[1], ".slice")
    else { return nil }
    return UInt32(Substring(components[1].dropFirst("user-".utf8.count).dropLast(".slice".utf8.count)))
  }

  private static let kinds = [".service", ".scope", ".socket", ".mount", ".swap"]

  /// The first part that is not a slice. A name without a unit's suffix is not a unit.
  private static func next(_ rest: inout ArraySlice<Substring.UTF8View>) -> String? {
    while let component = rest.popFirst() {
      // systemd puts an underscore before names that the kernel could take for its own.
      let name = component.first == UInt8(ascii: "_") ? component.dropFirst() : component
      if ends(name, ".slice") { continue }
      return kinds.contains { ends(name, $0) } ? String(Substring(name)) : nil
    }
    return nil
  }

  private static func ends(_ name: Substring.UTF8View, _ end: String) -> Bool {
    name.suffix(end.utf8.count).elementsEqual(end.utf8)
  }
}
