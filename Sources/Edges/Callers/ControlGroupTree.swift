import Glibc

/// The unified tree of control groups (cgroups(7)), searched for the directory of an id: its inode number.
struct ControlGroupTree {
  /// The root of the unified tree, even if the older hierarchies exist too.
  static let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
  /// The maximum of examined directories below one unit, or below one user's slice. A user may make any number there
  /// without hiding those of others.
  static let mostOfOne = 2048
  /// Directories that are looked at in all.
  static let most = 50_000

  let folder: String

  init?(_ folders: [String] = folders) {
    guard let folder = folders.first(where: { access("\($0)/cgroup.controllers", F_OK) == 0 }) else { return nil }
    self.folder = folder
  }

  enum Search: Equatable {
    /// The path below the tree's root, as `/proc/PID/cgroup` has it.
    case found(String)
    case absent
    /// It is not among the examined directories, and some were skipped: a unit or a user has too many.
    case partial
    /// There is no descriptor or memory to examine all now.
    case incomplete
  }

  /// The progress of one search.
  private struct Examined {
    private var counts: [String: Int] = [:]
    private var total = 0
    private(set) var isPartial = false
    var isIncomplete = false

    /// False: there are too many, and the directory is skipped.
    mutating func add(of owner: String) -> Bool {
      guard total < ControlGroupTree.most, counts[owner, default: 0] < ControlGroupTree.mostOfOne else {
        isPartial = true
        return false
      }
      total += 1
      counts[owner, default: 0] += 1
      return true
    }
  }

  func search(for id: UInt64) -> Search {
    var status = stat()
    if stat(folder, &status) == 0, UInt64(status.st_ino) == id { return .found("/") }
    var examined = Examined()
    // Breadth first: units are near the root.
    var level = [""]
    while !level.isEmpty {
      var next: [String] = []
      for path in level {
        if let found = child(of: path, with: id, &examined, &next) { return .found(found) }
      }
      level = next
    }
    if examined.isIncomplete { return .incomplete }
    return examined.isPartial ? .partial : .absent
  }

  /// The child with the id; nil: none of the examined ones, which are appended to `next`.
  private func child(
    of path: String, with id: UInt64, _ examined: inout Examined, _ next: inout [String]
  ) -> String? {
    let owner = Self.ownerOfChildren(of: path)
    guard let stream = opendir(folder + path) else {
      // A directory that was removed has no children.
      if Peer.Failure.exhausted(by: errno) != nil { examined.isIncomplete = true }
      return nil
    }
    defer { closedir(stream) }
    while let entry = readdir(stream) {
      guard Self.isChild(entry) else { continue }
      // The owner may have any number of further ones.
      if let owner, !examined.add(of: owner) { return nil }
      guard let name = Self.name(of: entry) else { continue }
      let below = "\(path)/\(name)"
      if UInt64(entry.pointee.d_ino) == id { return below }
      // A user with more takes nothing from the others' share.
      if owner == nil, !examined.add(of: Self.owner(of: below)) { continue }
      next.append(below)
    }
    return nil
  }

  /// The owner of a directory: its unit, or its user's slice.
  private static func owner(of path: String) -> String {
    let components = path.split(separator: "/")
    if components.count > 1, components[0] == "user.slice" { return "user.slice/\(components[1])" }
    let end = components.firstIndex { !$0.hasSuffix(".slice") } ?? components.endIndex
    return components[..<min(end + 1, components.endIndex)].joined(separator: "/")
  }

  /// The owner of all children of a directory; nil: each has another one.
  private static func ownerOfChildren(of path: String) -> String? {
    let components = path.split(separator: "/")
    let isOwned =
      components.first == "user.slice" ? components.count > 1 : components.contains { !$0.hasSuffix(".slice") }
    return isOwned ? owner(of: path) : nil
  }

  private static func isChild(_ entry: UnsafeMutablePointer<dirent>) -> Bool {
    guard entry.pointee.d_type == UInt8(DT_DIR) else { return false }
    let name = entry.pointee.d_name
    // Not "." or "..".
    return name.0 != 0x2E || (name.1 != 0 && (name.1 != 0x2E || name.2 != 0))
  }

  private static func name(of entry: UnsafeMutablePointer<dirent>) -> String? {
    withUnsafePointer(to: &entry.pointee.d_name) { pointer in
      pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(validatingCString: $0) }
    }
  }
}

extension ControlGroups {
  /// The path of a control group with a known id; nil if it was removed, is invisible, or cannot be looked for now.
  ///
  /// - Parameters:
  ///   - user: whose process is in it.
  ///   - now: by the clock of ``isLost(_:at:)``.
  func find(
    _ group: UInt64, of user: UInt32, in tree: @autoclosure () -> ControlGroupTree? = ControlGroupTree(),
    at now: Duration
  ) -> CGroup? {
    guard group != 0 else { return nil }
    if let known = self[group] { return known }
    guard !isLost(group, at: now) else { return nil }
    switch tree()?.search(for: group) {
    case .found(let path)?:
      guard let place = CGroup("0::\(path)") else { break }
      learn(group, place)
      return place
    // Its owner may have hidden it with others, which can be removed later.
    case .partial?:
      lose(group, of: user, until: now + Self.partialTime)
      return nil
    case .incomplete?: return nil
    case .absent?, nil: break
    }
    lose(group, of: user)
    return nil
  }
}
