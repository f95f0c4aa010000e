import Broker
import Foundation
import Testing

@testable import GrantdConfiguration

/// `confirm` in `[[rule]]`.
@Suite struct ConfirmRuleTests {
  private static func rule(_ keys: String, access: String = "access = [\"use\"]") -> String {
    "[[rule]]\nuid = 1\naccounts = [\"*\"]\n\(access)\n\(keys)"
  }

  @Test(
    "A rule asks nobody unless it says so, and then gives a person a minute unless it says how long",
    arguments: [
      ("", nil), ("confirm = false", nil), ("confirm = true", .seconds(60)),
      ("confirm = true\nconfirm_timeout = \"5s\"", .seconds(5)),
      ("confirm = true\nconfirm_timeout = \"5m\"", .seconds(300)),
    ] as [(String, Duration?)])
  func confirm(_ keys: String, _ within: Duration?) throws {
    #expect(try Fixture().load(Self.rule(keys)).rules.map(\.confirm) == [within])
  }

  @Test(
    "What would ask nobody, or for too long, is refused",
    arguments: [
      (rule("confirm_timeout = \"30s\""), "and nothing to confirm: add confirm = true"),
      (rule("confirm = true\nconfirm_timeout = \"6m\""), "a duration from 5s to 5m"),
      (rule("confirm = true\nconfirm_timeout = \"1s\""), "a duration from 5s to 5m"),
      (rule("confirm = true", access: "access = [\"login\"]"), "allows nothing that releases a token"),
      (rule("confirm = true", access: "methods = [\"account.list\"]"), "allows nothing that releases a token"),
    ])
  func refused(_ text: String, _ words: String) throws {
    #expect(try Fixture().complaint(text).contains(words))
  }

  @Test("Single methods that release a token can be asked about")
  func methods() throws {
    let rule = Self.rule("confirm = true", access: "methods = [\"account.sessions\"]")
    #expect(try Fixture().load(rule).rules[0].confirm == .seconds(60))
  }
}
