import BrokerAPI
import Principals
import Testing

@testable import Broker

private func caller(_ uid: UInt32, gid: UInt32 = 100, groups: [UInt32] = []) -> Principal {
  .process(Caller(uid: uid, gid: gid, groups: groups, pid: 1))
}

private func rule(
  uid: UInt32? = nil, gid: UInt32? = nil, _ accounts: [String] = ["*"], _ access: Set<Access> = [.use]
) -> Rule {
  Rule(name: "test", uid: uid, gid: gid, accounts: accounts, access: access)
}

private func system(_ rules: Rule...) -> Policy { Policy(instance: .system, owner: 990, rules: rules) }

@Suite struct PolicyTests {
  @Test(
    "Only root may do all in a system instance, and only the owner in a user instance",
    arguments: [
      (Policy.Instance.system, 0, true), (.system, 990, false), (.system, 1000, false),
      (.user, 990, true), (.user, 0, false), (.user, 1000, false),
    ] as [(Policy.Instance, UInt32, Bool)])
  func privilege(instance: Policy.Instance, uid: UInt32, privileged: Bool) {
    let policy = Policy(instance: instance, owner: 990, rules: [])
    #expect(policy.isPrivileged(caller(uid)) == privileged)
    for access in Access.allCases {
      let expected = privileged || access == .open
      #expect(policy.allows(access, account: "work", caller: caller(uid)) == expected)
      #expect(policy.allows(access, account: nil, caller: caller(uid)) == expected)
      #expect(policy.allowsSome(access, caller: caller(uid)) == expected)
    }
  }

  @Test(
    "A rule matches every id that it names, and any where it names none",
    arguments: [
      (nil, nil, true), (1000, nil, true), (1001, nil, false), (nil, 100, true), (nil, 7, true), (nil, 8, false),
      (1000, 7, true), (1000, 8, false), (1001, 100, false), (0, nil, false), (nil, 0, false),
    ] as [(UInt32?, UInt32?, Bool)])
  func identity(uid: UInt32?, gid: UInt32?, matches: Bool) {
    let policy = system(rule(uid: uid, gid: gid))
    let asking = caller(1000, gid: 100, groups: [5, 7])
    #expect(policy.allows(.use, account: "work", caller: asking) == matches)
    #expect(policy.allowsSome(.use, caller: asking) == matches)
  }

  @Test("A rule gives the access that it names and no other", arguments: Access.allCases)
  func access(named: Access) {
    let policy = system(rule(["*"], [named]))
    for access in Access.allCases {
      #expect(policy.allows(access, account: "work", caller: caller(1000)) == (access == named || access == .open))
    }
  }

  @Test("Rules add up, but one rule's access does not reach another's accounts")
  func severalRules() {
    let policy = system(rule(["work"], [.use]), rule(["home"], [.manage]))
    #expect(policy.allows(.use, account: "work", caller: caller(1)))
    #expect(policy.allows(.manage, account: "home", caller: caller(1)))
    #expect(!policy.allows(.manage, account: "work", caller: caller(1)))
    #expect(!policy.allows(.use, account: "home", caller: caller(1)))
  }

  @Test(
    "Without an account any rule permits, except for `manage`: that needs a rule for all accounts",
    arguments: [
      (Access.use, ["work"], true), (.observe, ["work"], true), (.login, ["w*"], true),
      (.manage, ["work"], false), (.manage, ["w*"], false), (.manage, ["**"], false), (.manage, ["work", "*"], true),
    ] as [(Access, [String], Bool)])
  func noAccount(access: Access, accounts: [String], allowed: Bool) {
    let policy = system(rule(accounts, [access]))
    #expect(policy.allows(access, account: nil, caller: caller(1)) == allowed)
    #expect(policy.allowsSome(access, caller: caller(1)))
  }

  @Test("A rule without accounts allows nothing on any account")
  func noAccounts() {
    let policy = system(rule([], [.use]))
    #expect(!policy.allows(.use, account: "work", caller: caller(1)))
    #expect(!policy.allows(.use, account: nil, caller: caller(1)))
    #expect(!policy.allowsSome(.use, caller: caller(1)))
  }

  @Test(
    "A star stands for any run of characters, also none, and every other character for itself",
    arguments: [
      ("*", "", true), ("*", "work", true), ("", "", true), ("", "work", false), ("work", "work", true),
      ("work", "Work", false), ("work", "work2", false), ("work", "wor", false), ("w*", "work", true),
      ("w*", "w", true), ("w*", "awork", false), ("*k", "work", true), ("*k", "works", false), ("w*k", "wk", true),
      ("w*k", "work", true), ("w*k", "workk", true), ("w**k", "work", true), ("*o*", "work", true),
      ("*x*", "work", false), ("a*b*c", "a-b-b-c", true), ("a*b*c", "a-c-b", false), ("a.b", "aXb", false),
      ("a.b*", "a.b@c", true), ("[ab]", "a", false), ("?", "a", false), ("ab*ab", "ab", false), ("ab*ab", "abab", true),
    ] as [(String, String, Bool)])
  func wildcards(pattern: String, text: String, matches: Bool) {
    #expect(wildcard(pattern, matches: text) == matches)
  }

  @Test(
    "A pattern made to be slow is not",
    arguments: [
      String(repeating: "*", count: 1000), String(repeating: "*a", count: 500) + "b",
      String(repeating: "a*", count: 500) + "b", String(repeating: "a", count: 1000),
    ])
  func pathological(pattern: String) {
    let text = String(repeating: "a", count: 128)
    let elapsed = ContinuousClock().measure {
      #expect(wildcard(pattern, matches: text) == pattern.allSatisfy { $0 == "*" })
    }
    // Takes milliseconds; a backtracking match would take longer than the universe is old.
    #expect(elapsed < .seconds(5))
  }
}
