import BrokerAPI
import Principals
import Testing

@testable import Broker

@Suite struct AuthorizerTests {
  @Test("A permission lasts while the policy is unchanged; afterwards it is decided again or refused")
  @BrokerActor func renewed() throws {
    let rule = Rule(name: "use", who: .init(uid: 1000), accounts: ["a"], access: [.use])
    let parts = Parts(rules: [rule])
    let authorizer = parts.authorizer
    let principal = Principal.process(.user(1000))
    let given = try authorizer.authorize(principal, .use, TokenGet.name, account: "a")
    #expect(given.rule == "use" && given.account == "a" && authorizer.isCurrent(given))
    #expect(try authorizer.renewed(given).epoch == given.epoch)
    var other = rule
    other.name = "other"
    authorizer.configure(Policy(instance: .system, owner: 990, rules: [other]), CallerLimits())
    #expect(!authorizer.isCurrent(given))
    #expect(try authorizer.renewed(given).rule == "other")
    authorizer.configure(Policy(instance: .system, owner: 990, rules: []), CallerLimits())
    #expect(throws: RPCError.self) { try authorizer.renewed(given) }
    do {
      _ = try authorizer.authorize(principal, .use, TokenGet.name, account: "a")
      Issue.record("it is allowed")
    } catch {
      #expect(error.reason == .notPermitted && error.hint?.contains("uid = 1000") == true)
    }
  }
}
