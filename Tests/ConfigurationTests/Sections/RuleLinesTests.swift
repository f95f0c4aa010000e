import Broker
import BrokerAPI
import Foundation
import Principals
import Testing

@testable import GrantdConfiguration

/// What a hint tells an admin to write is taken as it is, and allows what was asked for.
@Suite struct RuleLinesTests {
  private static func caller(_ unit: String? = nil, user: String? = nil, uid: UInt32 = 1001) -> Principal {
    .process(Caller(uid: uid, gid: uid, groups: [], pid: 100, unit: unit, userUnit: user))
  }

  @Test(
    "The lines name what of the caller will be so again",
    arguments: [
      (caller(), "uid = 1001"), (caller("session-3.scope"), "uid = 1001"), (caller("run-u7.service"), "uid = 1001"),
      (caller("mail.service"), "uid = 1001\nunit = \"mail.service\""),
      (caller("a-\\x2db@1.service"), "uid = 1001\nunit = \"a-\\\\x2db@1.service\""),
      (caller("mail.service", uid: 61_184), "unit = \"mail.service\""), (caller(uid: 61_184), "uid = 61184"),
      (caller("mail.service", uid: 65_520), "uid = 65520\nunit = \"mail.service\""),
      (caller("user@1001.service"), "uid = 1001"),
      (caller("user@1001.service", user: "sync.service"), "uid = 1001\nuser_unit = \"sync.service\""),
      (caller("user@1001.service", user: "app-gnome-3.scope"), "uid = 1001"),
      (caller("*.service"), "uid = 1001"), (caller("a\"\nanyone = true\n.service"), "uid = 1001"),
    ] as [(Principal, String)])
  func identity(_ caller: Principal, _ lines: String) throws {
    let text = Rule.lines(for: caller, account: "bank", access: [.use])
    #expect(text == "[[rule]]\n\(lines)\naccounts = [\"bank\"]\naccess = [\"use\"]")
    let policy = Policy(instance: .system, owner: 990, rules: try Fixture().load(text).rules)
    #expect(policy.rules.count == 1)
    #expect(policy.decide(.use, method: TokenGet.name, account: "bank", caller: caller).isAllowed)
    #expect(!policy.decide(.use, method: TokenGet.name, account: "other", caller: caller).isAllowed)
    #expect(!policy.decide(.observe, method: AccountGet.name, account: "bank", caller: caller).isAllowed)
    #expect(!policy.decide(.use, method: TokenGet.name, account: "bank", caller: Self.caller(uid: 5)).isAllowed)
  }

  @Test("Each kind of access can be had by them, of one account and where none is named", arguments: Access.allCases)
  func access(_ access: Access) throws {
    guard access != .open else { return }
    for account in ["bank", nil] {
      let text = Rule.lines(for: Self.caller(), account: account, access: [access])
      let policy = Policy(instance: .system, owner: 990, rules: try Fixture().load(text).rules)
      #expect(policy.decide(access, method: nil, account: account, caller: Self.caller()).isAllowed)
      #expect(policy.allows(access, account: "other", caller: Self.caller()) == (account == nil))
    }
  }

  @Test("Methods are named where they are the whole")
  func methods() throws {
    let text = Rule.lines(for: Self.caller("b.service", uid: 0), account: nil, methods: [StoreBackup.name])
    let rules = try Fixture().load(text).rules
    #expect(rules.map(\.methods) == [[StoreBackup.name]] && rules.map(\.access) == [[]])
    #expect(rules.map(\.accounts) == [["*"]] && rules.map(\.who) == [.init(uid: 0, unit: "b.service")])
  }

  @Test("A text that is no account's name is not repeated")
  func names() throws {
    for name in ["", "*", "a b", "a\"]\nanyone = true", String(repeating: "a", count: 129)] {
      let text = Rule.lines(for: Self.caller(), account: name, access: [.use])
      #expect(try Fixture().load(text).rules.map(\.accounts) == [["ACCOUNT"]])
    }
  }
}
