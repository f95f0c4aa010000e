import Foundation
import Principals
import Testing

@testable import Callers

@Suite struct CallerOriginTests {
  @Test(
    "A unit is the first part that is not a slice, from the left: a delegated unit's children are not units",
    arguments: [
      ("0::/system.slice/mail-sync.service\n", "mail-sync.service", nil),
      ("0::/system.slice/system-foo.slice/foo@1.service\n", "foo@1.service", nil),
      ("0::/system.slice/foo.service/ssh.service\n", "foo.service", nil),
      ("0::/system.slice/foo.service/user@0.service/evil.service\n", "foo.service", nil),
      ("0::/user.slice/user-1001.slice/user@1001.service/app.slice/ssh.service\n", "user@1001.service", "ssh.service"),
      (
        "0::/user.slice/user-1001.slice/user@1001.service/app.slice/app-x.slice/a.scope/ssh.service\n",
        "user@1001.service", "a.scope"
      ),
      ("0::/user.slice/user-1001.slice/user@1001.service/init.scope\n", "user@1001.service", "init.scope"),
      ("0::/user.slice/user-1001.slice/session-3.scope\n", "session-3.scope", nil),
      ("0::/system.slice/_cgroup.service\n", "cgroup.service", nil), ("0::/init.scope\n", "init.scope", nil),
      ("0::/evil/system.slice/foo.service\n", nil, nil), ("0::/\n", nil, nil), ("0::/system.slice\n", nil, nil),
      ("0::/../system.slice/foo.service\n", nil, nil), ("", nil, nil), ("garbage\n", nil, nil),
      ("12:cpu:/x.service\n1:name=systemd:/system.slice/old.service\n0::/\n", "old.service", nil),
      ("12:name=systemd:/evil.service\n0::/system.slice/new.service\n", "new.service", nil),
      ("0::/system.slice/a\\x2db.service\n", "a\\x2db.service", nil),
    ] as [(String, String?, String?)])
  func unit(_ contents: String, _ unit: String?, _ userUnit: String?) {
    let found = CGroup(contents)
    #expect(found?.unit == unit && found?.userUnit == userUnit)
  }

  @Test(
    "A user's slice is only that of the tree's root",
    arguments: [
      ("0::/user.slice/user-1001.slice/user@1001.service/app.slice/ssh.service\n", 1001),
      ("0::/user.slice/user-1001.slice/session-3.scope\n", 1001),
      ("0::/user.slice\n", nil), ("0::/user.slice/user-x.slice/a.scope\n", nil),
      ("0::/system.slice/a.service/user.slice/user-1001.slice/b.scope\n", nil),
      ("0::/user-1001.slice/a.scope\n", nil),
    ] as [(String, UInt32?)])
  func slice(_ contents: String, _ user: UInt32?) {
    #expect(CGroup(contents)?.userSlice == user)
  }

  @Test(
    "A user's holder covers the slice and the subordinate ids; a unit of the system has its own",
    arguments: [
      (0, 1001, "x.scope", .root), (77, nil, nil, .owner),
      (1001, 1001, "user@1001.service", .user(1001)), (100_007, 1001, "session-3.scope", .user(1001)),
      (1001, nil, nil, .user(1001)), (100_007, nil, nil, .user(1001)), (165_536, nil, nil, .user(165_536)),
      (231_072, nil, nil, .user(2002)), (296_700, nil, nil, .user(296_608)),
      (33, nil, "web.service", .unit("web.service", user: 33)),
      (1_234_567, nil, "cron.service", .unit("cron.service", user: 1_234_567)),
      (61_200, nil, "dynamic.service", .unit("dynamic.service", user: nil)),
      (1001, nil, "cron.service", .unit("cron.service", user: 1001)),
      (100_007, nil, "cron.service", .unit("cron.service", user: 1001)),
    ] as [(UInt32, UInt32?, String?, Holder)])
  func holder(_ uid: UInt32, _ slice: UInt32?, _ unit: String?, _ holder: Holder) throws {
    let folder = NSTemporaryDirectory() + "grantd-subuid-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let subuid = "anna:100000:65536\n2002:231072:65536\n\nnobody-known:296608:65536\nbroken:x:1\n"
    try subuid.write(toFile: folder + "/subuid", atomically: true, encoding: .utf8)
    try "root:x:0:0::/:\nanna:x:1001:1001::/home/anna:/bin/sh\n".write(
      toFile: folder + "/passwd", atomically: true, encoding: .utf8)
    let subordinates = SubordinateUsers(file: folder + "/subuid", users: folder + "/passwd")
    #expect(Holder(uid: uid, slice: slice, unit: unit, subordinates, own: 77) == holder)
  }

  @Test("Whether the process still runs is asked after all was read: before, the number could become another's")
  func order() throws {
    let child = Process()
    child.executableURL = URL(fileURLWithPath: "/bin/sleep")
    child.arguments = ["600"]
    try child.run()
    let path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(child.processIdentifier)/exe")
    let origin = try CallerOrigin(pid: child.processIdentifier) {
      // This one cannot be blocked.
      kill(child.processIdentifier, SIGKILL)
      child.waitUntilExit()
      return true
    }
    #expect(!child.isRunning && origin.executable == path)
  }

  @Test("This process is identified, and one that may have ended is not")
  func own() throws {
    let path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    #expect(try CallerOrigin(pid: getpid()) { true }.executable == path)
    #expect(try CallerOrigin(pid: getpid()) { false } == CallerOrigin())
    #expect(try CallerOrigin(pid: getpid()) { nil } == CallerOrigin())
    #expect(try CallerOrigin(pid: 0) { true } == CallerOrigin())
    let caller = try #require(Caller(process: getpid()))
    #expect(caller.uid == geteuid() && caller.gid == getegid() && caller.executable == path)
    // Above the largest that Linux gives out.
    #expect(Caller(process: 1 << 30) == nil)
  }
}
