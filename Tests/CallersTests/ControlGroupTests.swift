import CLinux
import Foundation
import Glibc
import Testing

@testable import Callers

/// The units of callers by the number of their control group, if the kernel provides it.
@Suite struct ControlGroupTests {
  private static let a = "0::/system.slice/a.service\n"
  private static let b = "0::/system.slice/b.service\n"

  /// The origin of this process with scripted answers, the last of which is repeated; and how often the text was read.
  private func origin(
    _ groups: ControlGroups, _ answers: [ControlGroups.PidfdInfo], _ contents: String?
  ) -> (origin: CallerOrigin?, reads: Int) {
    var (rest, reads) = (answers, 0)
    let origin = try? CallerOrigin(
      pid: getpid(), groups,
      info: { rest.count > 1 ? rest.removeFirst() : rest[0] },
      contents: {
        reads += 1
        return contents
      })
    return (origin, reads)
  }

  private func own(_ group: UInt64) -> ControlGroups.PidfdInfo { .exists(pid: getpid(), group: group) }

  @Test("a group is read once, and a process that was moved to another is found there") func moved() throws {
    let groups = ControlGroups()
    let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let first = origin(groups, [own(7)], Self.a)
    #expect(first.origin?.unit == "a.service" && first.origin?.executable == executable && first.reads == 1)
    let again = origin(groups, [own(7)], Self.b)
    #expect(again.origin == first.origin && again.reads == 0)
    let moved = origin(groups, [own(8)], Self.b)
    #expect(moved.origin?.unit == "b.service" && moved.reads == 1)
    #expect(origin(groups, [own(7)], nil).origin?.unit == "a.service")
  }

  @Test("data read during a process's move are kept for neither group") func movedMeanwhile() {
    let groups = ControlGroups()
    #expect(origin(groups, [own(7), own(8)], Self.b).origin?.unit == "b.service")
    #expect(groups[7] == nil && groups[8] == nil)
  }

  @Test("of a process that has ended, or whose number is another's, nothing counts") func ended() {
    let other = ControlGroups.PidfdInfo.exists(pid: 1, group: 7)
    for answers in [[.ended], [own(7), .ended], [other], [own(7), other]] as [[ControlGroups.PidfdInfo]] {
      let groups = ControlGroups()
      #expect(origin(groups, answers, Self.a).origin == CallerOrigin(), "\(answers)")
      #expect(groups[7] == nil)
    }
    let groups = ControlGroups()
    _ = origin(groups, [own(7)], Self.a)
    #expect(origin(groups, [.ended], Self.a).origin == CallerOrigin())
    #expect(origin(groups, [other], Self.a).origin == CallerOrigin())
  }

  @Test(
    "data that the number does not cover are read each time",
    arguments: [
      (7, "1:name=systemd:/system.slice/a.service\n0::/\n", "a.service"),
      (0, "0::/system.slice/a.service\n", "a.service"),
      (7, "0::/../x.service\n", nil), (7, nil, nil),
    ] as [(UInt64, String?, String?)])
  func readEachTime(_ group: UInt64, _ contents: String?, _ unit: String?) {
    let groups = ControlGroups()
    for _ in 0..<2 {
      let (origin, reads) = origin(groups, [own(group)], contents)
      #expect(origin?.unit == unit && reads == 1)
    }
  }

  @Test("a unit with many groups displaces only its own") func bounded() throws {
    let groups = ControlGroups()
    let (mine, others) = (try #require(CGroup(Self.a)), try #require(CGroup(Self.b)))
    groups.learn(9999, others)
    for group in 1...UInt64(ControlGroups.limitOfOwner) { groups.learn(group, mine) }
    #expect((1...UInt64(ControlGroups.limitOfOwner)).allSatisfy { groups[$0] == mine })
    groups.learn(5000, mine)
    #expect(groups[5000] == mine && groups[1] == nil && groups[9999] == others)
    // A text is parsed in the same way the second time, and beyond the limit.
    for number in Array(0..<ControlGroups.textLimit + 10) + [0, 1] {
      #expect(groups.parse("0::/system.slice/\(number).service\n")?.unit == "\(number).service")
      #expect(groups.parse("\(number)") == nil)
    }
  }

  @Test(
    "the owner of a group is the user of its slice, else its unit",
    arguments: [
      ("/user.slice/user-1000.slice/user@1000.service/a.scope", .user(1000)),
      ("/system.slice/a.service/b", .unit("a.service")), ("/a", .other),
    ] as [(String, CGroup.Owner)])
  func owner(_ path: String, _ owner: CGroup.Owner) {
    #expect(CGroup("0::\(path)\n")?.owner == owner)
  }

  @Test("a kernel that cannot say is asked once, and the older way is taken") func unknown() {
    let groups = ControlGroups()
    #expect(origin(groups, [.unsupported], Self.a).origin == nil)
    // No process: no kernel says anything of it.
    let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
    defer { close(file) }
    #expect(groups.info(of: file) == .unsupported && groups.lacksInfo)
  }

  @Test("both ways tell the same of this process, and an end is noticed") func kernel() throws {
    let groups = ControlGroups()
    let pidfd = clinux_pidfd_open(getpid())
    defer { close(pidfd) }
    let answer = groups.info(of: pidfd)
    // Before Linux 6.13 there is nothing to compare.
    guard case .exists(let pid, _) = answer else {
      #expect(answer == .unsupported)
      return
    }
    #expect(pid == getpid())
    let contents = { () throws(Peer.Failure) in try CallerOrigin.contents(of: "/proc/self/cgroup") }
    let old = try CallerOrigin(pid: getpid()) { true }
    #expect(try CallerOrigin(pid: getpid(), groups, info: { groups.info(of: pidfd) }, contents: contents) == old)
    #expect(try CallerOrigin(pid: getpid(), groups, info: { groups.info(of: pidfd) }, contents: contents) == old)
    let child = Process()
    child.executableURL = URL(fileURLWithPath: "/bin/sleep")
    child.arguments = ["600"]
    try child.run()
    let childs = clinux_pidfd_open(child.processIdentifier)
    defer { close(childs) }
    guard case .exists(child.processIdentifier, _) = groups.info(of: childs) else {
      Issue.record("it runs")
      return
    }
    kill(child.processIdentifier, SIGKILL)
    child.waitUntilExit()
    #expect(groups.info(of: childs) == .ended && !groups.lacksInfo)
  }
}
