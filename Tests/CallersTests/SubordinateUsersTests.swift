import Foundation
import Testing

@testable import Callers

@Suite struct SubordinateUsersTests {
  @Test("While the file cannot be read no user id is unknown to the rules")
  func unreadable() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "subuid-\(UInt32.random(in: 0 ... .max))")
    defer { try? FileManager.default.removeItem(at: folder) }
    // A folder can be opened, and not be read.
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let users = SubordinateUsers(file: folder.path(percentEncoded: false), users: "/etc/passwd")
    #expect(users.owner(of: 100_000) == 100_000 && users.owner(of: 1000) == nil)
    // It is looked at again once it can be.
    try FileManager.default.removeItem(at: folder)
    try Data("7:100000:65536\n".utf8).write(to: folder)
    #expect(users.owner(of: 100_001) == 7 && users.owner(of: 300_000) == nil)
    try Data().write(to: folder)
    #expect(users.owner(of: 100_001) == nil)
  }
}
