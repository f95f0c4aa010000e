import Glibc
import Principals
import Testing

@testable import Callers

/// A caller over TCP on this machine: its user and the id of its control group are known, no process.
@Suite struct LoopbackCallersTests {
  private let groups = ControlGroups()
  private var callers: LoopbackCallers { LoopbackCallers(groups: groups) }

  private func peer(_ uid: UInt32, group: UInt64) -> LoopbackPeer { LoopbackPeer(uid: uid, group: group, cookie: 1) }

  @Test("its unit is that of a known group; neither a program nor a group of users is known")
  func unit() throws {
    groups.learn(7, try #require(CGroup("0::/system.slice/web.service\n")))
    let web = try #require(callers.known(peer(33, group: 7), at: .zero))
    #expect(
      web.uid == 33 && web.unit == "web.service" && web.userUnit == nil && web.holder == .unit("web.service", user: 33))
    #expect(web.pid == 0 && web.executable == nil && web.groups.isEmpty && web.gid == .max && !web.isSubordinate)
    groups.learn(8, try #require(CGroup("0::/user.slice/user-4321.slice/user@4321.service/app.slice/mail.service\n")))
    let mail = try #require(callers.known(peer(4321, group: 8), at: .zero))
    #expect(mail.unit == "user@4321.service" && mail.userUnit == "mail.service" && mail.holder == .user(4321))
    // The process of another user in the same slice is charged to the slice's user.
    #expect(callers.known(peer(60_000, group: 8), at: .zero)?.holder == .user(4321))
  }

  @Test("a caller of a kernel without ids of groups is known by its user, one of a new group is looked for")
  func unknown() {
    let other = callers.known(peer(33, group: 0), at: .zero)
    #expect(other?.unit == nil && other?.uid == 33)
    #expect(callers.known(peer(33, group: 9), at: .zero) == nil)
    groups.lose(9, of: 33)
    #expect(callers.known(peer(33, group: 9), at: .zero)?.holder == .user(33))
    #expect(callers.withoutUnit(peer(33, group: 7)).unit == nil)
    #expect(callers.holder(of: peer(33, group: 9)) == .user(33) && callers.holder(of: peer(0, group: 9)) == .root)
    #expect(callers.holder(of: peer(geteuid(), group: 9)) == (geteuid() == 0 ? .root : .owner))
  }

  @Test("a group that was not found is remembered, and no more of a user than the limit")
  func lost() {
    groups.lose(9999, of: 34)
    for group in 1...UInt64(ControlGroups.limitOfOwner) { groups.lose(group, of: 33) }
    let areLost = [1, UInt64(ControlGroups.limitOfOwner), 5000].map { groups.isLost($0, at: .zero) }
    #expect(areLost == [true, true, false])
    groups.lose(5000, of: 33)
    #expect(groups.isLost(5000, at: .zero) && !groups.isLost(1, at: .zero) && groups.isLost(9999, at: .zero))
  }

  @Test("group 0 is none: it is neither kept nor found")
  func none() throws {
    groups.learn(0, try #require(CGroup("0::/system.slice/web.service\n")))
    #expect(groups[0] == nil && groups.find(0, of: 33, at: .zero) == nil && !groups.isLost(0, at: .zero))
  }
}
