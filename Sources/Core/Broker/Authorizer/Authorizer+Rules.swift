import BrokerAPI
import Grants
import OAuth

extension Authorizer {
  /// `policy.rules`.
  func rules(of account: AccountName) -> PolicyRules.Result {
    let policy = policy
    return .init(
      instance: policy.instance.rawValue,
      rules: policy.rules.filter { $0.covers(account.rawValue, .use) }.map(PolicyRules.Rule.init))
  }
}

extension PolicyRules.Rule {
  init(_ rule: Rule) {
    func sorted(_ set: Set<String>?) -> [String]? { set?.sorted() }
    self.init(
      rule: rule.name, uid: rule.who.uid, gid: rule.who.gid, unit: rule.who.unit, user_unit: rule.who.userUnit,
      exe: rule.who.executable, accounts: rule.accounts.sorted(),
      access: Access.allCases.filter(rule.access.contains), methods: rule.methods.isEmpty ? nil : sorted(rule.methods),
      scopes: sorted(rule.scopes), resources: sorted(rule.resources),
      requests: rule.requests?.map(\.description).sorted(), mcp: rule.mcp?.map(\.description).sorted(),
      confirm_timeout: rule.confirm.map { Double($0.milliseconds) / 1000 },
      source: rule.source)
  }
}

extension PolicyRules: RPCHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }
  // Long rules and documents delay no other caller.
  nonisolated static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    broker.door.authorizer.rules(of: call.account)
  }
}
