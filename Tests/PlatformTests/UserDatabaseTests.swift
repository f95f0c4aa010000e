import Glibc
import Testing

@testable import Platform

@Suite struct UserDatabaseTests {
  @Test("Users are found by name and by number, groups by name") func found() {
    let root = UserDatabase.user(named: "root")
    #expect(root?.uid == 0 && root?.gid == 0 && root?.home?.hasPrefix("/") == true)
    #expect(UserDatabase.user(0) == root)
    #expect(UserDatabase.group(named: "root") == 0)
  }

  @Test("Unknown names have no user") func absent() {
    #expect(UserDatabase.user(named: "no such user") == nil && UserDatabase.group(named: "no such group") == nil)
  }

  @Test("An entry that needs more room gets it, up to a limit", arguments: [1, 1 << 20, 1 << 21]) func room(_ size: Int)
  {
    var sizes: [Int] = []
    let found = UserDatabase.entry(
      passwd(),
      { entry, _, room, result in
        sizes.append(room)
        guard room >= size else { return ERANGE }
        result.pointee = entry
        return 0
      }, { _ in true })
    #expect(found == (size <= UserDatabase.largestBuffer ? true : nil))
    #expect(sizes.first == UserDatabase.firstBuffer && sizes.allSatisfy { $0 <= UserDatabase.largestBuffer })
  }

  @Test("A signal is not an answer; an error is, and so are too many signals", arguments: [1, 1000])
  func interrupted(_ times: Int) {
    var calls = 0
    let found = UserDatabase.entry(
      group(),
      { entry, _, _, result in
        calls += 1
        guard calls > times else { return EINTR }
        result.pointee = entry
        return 0
      }, { _ in true })
    #expect(found == (times == 1 ? true : nil) && calls <= UserDatabase.interruptions + 1)
    #expect(UserDatabase.entry(group(), { _, _, _, _ in EIO }, { _ in true }) == nil)
  }
}
