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
    /// Not all of it could be looked at now.
    case incomplete
  }

  func search(for id: UInt64) -> Search {
    var status = stat()
    if stat(folder, &status) == 0, UInt64(status.st_ino) == id { return .found("/") }
    var isComplete = true
    // Breadth first: units are near the root.
    var level = [""]
    var counts: [String: Int] = [:]
    var all = 0
    while !level.isEmpty {
      var next: [String] = []
      for path in level {
        guard let children = Self.folders(in: folder + path) else {
          isComplete = false
          continue
        }
        for child in children {
          let below = "\(path)/\(child.name)"
          if child.inode == id { return .found(below) }
          let owner = Self.owner(of: below)
          // A user with more takes nothing from the others' share.
          guard counts[owner, default: 0] < Self.mostOfOne else { continue }
          counts[owner, default: 0] += 1
          all += 1
          guard all < Self.most else { return .incomplete }
          next.append(below)
        }
      }
      level = next
    }
    return isComplete ? .absent : .incomplete
  }

  /// The owner of a directory: its unit, or its user's slice.
  private static func owner(of path: String) -> String {
    let components = path.split(separator: "/")
    if components.count > 1, components[0] == "user.slice" { return "user.slice/\(components[1])" }
    let end = components.firstIndex { !$0.hasSuffix(".slice") } ?? components.endIndex
    return components[..<min(end + 1, components.endIndex)].joined(separator: "/")
  }

  /// Nil if there is no descriptor or memory to examine it. A removed one has none.
  private static func folders(in path: String) -> [(name: String, inode: UInt64)]? {
    guard let stream = opendir(path) else { return Peer.Failure.exhausted(by: errno) == nil ? [] : nil }
    defer { closedir(stream) }
    var found: [(String, UInt64)] = []
    while let entry = readdir(stream) {
      guard entry.pointee.d_type == UInt8(DT_DIR) else { continue }
      let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(validatingCString: $0) }
      }
      guard let name, name != ".", name != ".." else { continue }
      found.append((name, UInt64(entry.pointee.d_ino)))
    }
    return found
  }
}

extension ControlGroups {
  /// The path of a control group with a known id; nil if it was removed, or is invisible.
  func find(_ group: UInt64) -> CGroup? {
    guard group != 0 else { return nil }
    if let known = self[group] { return known }
    guard !isLost(group) else { return nil }
    switch ControlGroupTree()?.search(for: group) {
    case .found(let path)?:
      guard let place = CGroup("0::\(path)") else { break }
      learn(group, place)
      return place
    case .incomplete?: return nil
    case .absent?, nil: break
    }
    lose(group)
    return nil
  }
}
