import BrokerAPI
import Grants
import OAuth
import Principals

// The reason for a decision.
extension Authorizer {
  /// `policy.explain`.
  func explain(_ params: PolicyExplain.Params, caller: Principal) throws(RPCError) -> PolicyExplain.Result {
    var subject = caller
    if let other = params.caller {
      // A caller with `manage` may learn about other callers.
      try check(.manage, method: PolicyExplain.name, caller: caller)
      subject = .process(
        Caller(
          uid: other.uid, gid: other.gid ?? .max, groups: other.groups ?? [], pid: 0, unit: other.unit,
          userUnit: other.user_unit, executable: other.exe))
    }
    guard let method = Methods.named(params.method ?? TokenGet.name) else {
      throw Methods.notFound(params.method ?? "")
    }
    let isIDToken = params.kind == .idToken
    guard !isIDToken || [TokenGet.name, TokenReportRejected.name].contains(method.name) else {
      throw .invalidParams("params.kind: \(method.name) releases no ID token")
    }
    let access = isIDToken ? Access.idToken : method.access
    if let account = params.account { _ = try accountName(account) }
    switch policy.decide(access, method: method.name, account: params.account, caller: subject) {
    case .allowed(let rule, let scopes, let confirm): return explanation(method, rule, scopes, confirm)
    case .refused(let why):
      let isDetailed = policy.allows(.manage, method: PolicyExplain.name, account: params.account, caller: caller)
      return .init(
        allowed: false,
        why: isDetailed ? why : Self.refusal(method.name, params.account, caller, isIDToken: isIDToken))
    }
  }

  /// For callers without `manage`: other rules would reveal which accounts exist, and their users.
  private static func refusal(
    _ method: String, _ account: String?, _ caller: Principal, isIDToken: Bool
  ) -> String {
    let who = AuditCaller(caller)
    let command: [String?] = [
      "grantctl explain \(account ?? "ACCOUNT")", who.uid.map { "--uid \($0)" },
      who.unit.map { "--unit \($0.prefix(256))" },
      method == TokenGet.name ? nil : "--method \(method)", isIDToken ? "--id-token" : nil,
    ]
    return "no rule allows this caller \(method)" + (account.map { " for account \($0)" } ?? "")
      + "; `\(command.compactMap(\.self).joined(separator: " "))`, run by an admin, says what is missing"
  }

  /// The requests that a rule allows, if it does not allow all.
  private func limits(of name: String, _ method: any RPCMethod.Type) -> String {
    guard method == RequestSend.self, let rule = policy.rules.first(where: { $0.name == name }),
      let requests = rule.requests
    else { return "" }
    let places = requests.map(\.description).joined(separator: ", ")
    let calls = rule.mcp.map { " with the MCP calls " + $0.map(\.description).joined(separator: ", ") } ?? ""
    return " for " + "\(places)\(calls)".prefix(512)
  }

  private func explanation(
    _ method: any RPCMethod.Type, _ rule: String?, _ scopes: Set<String>?, _ confirm: Policy.Confirmation?
  ) -> PolicyExplain.Result {
    let privilege =
      policy.instance == .system ? "root may do everything" : "it is the owner of this instance"
    let allowed =
      method.access == .open ? "any caller may call \(method.name)" : rule.map { "rule \($0) allows it" } ?? privilege
    let basis = allowed + (rule.map { limits(of: $0, method) } ?? "")
    let release = method as? any TokenRelease.Type
    if let release, let scopes, !release.takesPart {
      let part = scopes.sorted().joined(separator: " ").prefix(512)
      return .init(
        allowed: false, why: "\(method.name) uses the account's whole token, and \(basis) for \(part) alone")
    }
    guard let confirm, release != nil else {
      return .init(allowed: true, rule: rule, scopes: scopes?.sorted(), why: basis)
    }
    let asking = "rule \(confirm.rule) requires approval of each release"
    let asked = rule == confirm.rule ? asking : "\(basis); \(asking)"
    let exempt = confirm.exempt.isEmpty ? nil : confirm.exempt.sorted()
    return .init(
      allowed: true, rule: rule, scopes: scopes?.sorted(),
      confirm: .init(
        rule: confirm.rule, timeout: Double(confirm.within.milliseconds) / 1000, exempt_scopes: exempt),
      why: asked + (exempt.map { ", except of \($0.joined(separator: " ")) alone" } ?? ""))
  }
}

extension PolicyExplain: RPCHandler {
  nonisolated static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try broker.door.authorizer.explain(call.params, caller: call.caller)
  }
}
