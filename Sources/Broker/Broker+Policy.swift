import BrokerAPI
import Grants
import OAuth

// What a rule's cap on scopes means, and why the policy says what it says.
extension Broker {
  private func cap(_ account: AccountName, _ caller: Caller) throws(RPCError) -> Set<String>? {
    switch configuration.policy.decide(.use, method: TokenGet.name, account: account.rawValue, caller: caller) {
    case .allowed(_, let scopes): return scopes
    case .refused:
      try check(.use, method: TokenGet.name, account: account.rawValue, caller: caller)
      return []
    }
  }

  /// The scopes to ask for: those that the caller named, or all that it may have.
  func capped(_ scopes: [String]?, of grant: Grant, caller: Caller) throws(RPCError) -> [String]? {
    let account = grant.saved.account
    guard let cap = try cap(account, caller) else { return scopes }
    if let scopes, !scopes.isEmpty {
      let beyond = scopes.filter { !cap.contains($0) }
      guard beyond.isEmpty else { throw beyondCap(account, beyond, cap) }
      return scopes
    }
    let granted = grant.saved.grantedScopes.isEmpty ? grant.saved.requestedScopes : grant.saved.grantedScopes
    let both = granted.filter(cap.contains)
    guard !both.isEmpty else { throw beyondCap(account, granted, cap) }
    return both
  }

  /// A token that the provider does not narrow is nothing for a caller who may not have all of it.
  func checkCap(of token: SavedToken, _ account: AccountName, caller: Caller) throws(RPCError) {
    guard let cap = try cap(account, caller) else { return }
    let beyond = token.scopes.filter { !cap.contains($0) }
    guard beyond.isEmpty, !token.scopes.isEmpty else { throw beyondCap(account, beyond, cap) }
  }

  /// Methods that use the token as it is are nothing for a caller who may have a part of it alone.
  func checkWhole(_ method: String, _ account: String, caller: Caller) throws(RPCError) {
    guard !configuration.policy.allowsWhole(method, account: account, caller: caller) else { return }
    throw RPCError(
      .notPermitted, "\(method) uses the account's whole token, and the rule for uid \(caller.uid) caps the scopes",
      hint: "Use a token of those scopes (`token.get`), or an admin can add a [[rule]] without `scopes`.")
  }

  private func beyondCap(_ account: AccountName, _ beyond: [String], _ cap: Set<String>) -> RPCError {
    let what = beyond.isEmpty ? "a token whose scopes the provider does not say" : beyond.joined(separator: " ")
    return RPCError(
      .notPermitted, "the rule for this caller does not allow \(what.prefix(200)) of account \(account)",
      hint: "It allows: \(cap.sorted().joined(separator: " ").prefix(512)). An admin can add to the rule's `scopes`; a "
        + "provider with narrow_tokens = false gives no part of them.")
  }

  /// `policy.explain`.
  func explain(_ params: PolicyExplain.Params, caller: Caller) throws(RPCError) -> PolicyExplain.Result {
    var subject = caller
    if let other = params.caller {
      // Of others an admin may know.
      try check(.manage, method: PolicyExplain.name, caller: caller)
      subject = Caller(
        uid: other.uid, gid: other.gid ?? .max, groups: other.groups ?? [], pid: 0, unit: other.unit,
        userUnit: other.user_unit, executable: other.exe)
    }
    guard let method = Methods.named(params.method ?? TokenGet.name) else {
      throw Methods.notFound(params.method ?? "")
    }
    if let account = params.account { _ = try accountName(account) }
    let policy = configuration.policy
    switch policy.decide(method.access, method: method.name, account: params.account, caller: subject) {
    case .allowed(let rule, let scopes):
      let why =
        method.access == .open
        ? "everybody may call \(method.name)"
        : rule.map { "rule \($0) allows it" }
          ?? (policy.instance == .system ? "root may do everything" : "it is the owner of this instance")
      return .init(allowed: true, rule: rule, scopes: scopes?.sorted(), why: why)
    case .refused(let why): return .init(allowed: false, why: why)
    }
  }
}
