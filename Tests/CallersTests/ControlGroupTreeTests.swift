import Foundation
import Glibc
import Testing

@testable import Callers

@Suite struct ControlGroupTreeTests {
  /// A tree of folders like that of control groups, whose ids are inode numbers too.
  private func tree(_ folders: [String], _ body: (ControlGroupTree, (String) -> UInt64) throws -> Void) throws {
    let root = FileManager.default.temporaryDirectory.appending(path: "cgroup-\(UInt32.random(in: 0 ... .max))")
      .path(percentEncoded: false)
    try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: root) }
    try Data().write(to: URL(filePath: root + "/cgroup.controllers"))
    for folder in folders {
      try FileManager.default.createDirectory(atPath: root + folder, withIntermediateDirectories: true)
    }
    let tree = try #require(ControlGroupTree(["/nowhere", root]))
    try body(tree) { path in
      var status = stat()
      return stat(root + path, &status) == 0 ? UInt64(status.st_ino) : 0
    }
  }

  @Test("A group is found by its id, also below a unit's own")
  func found() throws {
    let folders = [
      "/system.slice/fetch.service", "/user.slice/user-1000.slice/user@1000.service/app.slice/mail.service/payload",
    ]
    try tree(folders) { tree, id in
      for folder in folders { #expect(tree.search(for: id(folder)) == .found(folder)) }
      #expect(tree.search(for: id("")) == .found("/"))
      #expect(tree.search(for: 1) == .absent)
      let place = try #require(CGroup("0::\(folders[1])"))
      #expect(place.unit == "user@1000.service" && place.userUnit == "mail.service" && place.userSlice == 1000)
    }
  }

  @Test("A user who makes many groups keeps no other unit from being found")
  func crowded() throws {
    let mine = (0..<ControlGroupTree.mostOfOne + 50).map { "/user.slice/user-1000.slice/user@1000.service/g\($0)/a" }
    try tree(mine + ["/system.slice/z.service/deep/er"]) { tree, id in
      #expect(tree.search(for: id("/system.slice/z.service/deep/er")) == .found("/system.slice/z.service/deep/er"))
      #expect(mine.contains { tree.search(for: id($0)) == .partial })
      #expect(tree.search(for: 1) == .partial)
    }
  }

  @Test("A group that a search skipped is looked for again, one that does not exist is not")
  func skipped() throws {
    let mine = (0..<ControlGroupTree.mostOfOne + 50).map { "/user.slice/user-1000.slice/user@1000.service/g\($0)" }
    try tree(mine) { tree, id in
      let (groups, now) = (ControlGroups(), Duration.seconds(5))
      let skipped = mine.map { id($0) }.first { tree.search(for: $0) == .partial }
      let hidden = try #require(skipped)
      #expect(groups.find(hidden, of: 1000, in: tree, at: now) == nil && groups.isLost(hidden, at: now))
      for path in mine.filter({ id($0) != hidden }).prefix(100) { #expect(rmdir(tree.folder + path) == 0) }
      #expect(groups.find(hidden, of: 1000, in: tree, at: now) == nil)
      let later = now + ControlGroups.partialTime
      #expect(!groups.isLost(hidden, at: later))
      #expect(groups.find(hidden, of: 1000, in: tree, at: later)?.userSlice == 1000)
      #expect(groups.find(1, of: 1000, in: tree, at: now) == nil && groups.isLost(1, at: now + .seconds(1_000_000)))
    }
  }
}
