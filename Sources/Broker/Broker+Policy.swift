import BrokerAPI
import Grants
import OAuth

// What a rule's cap on scopes means, and why the policy says what it says.
extension Broker {
  /// The scopes that a release may have; nil: all that was granted.
  private func cap(_ method: String, _ account: AccountName, _ clearance: Clearance) throws(RPCError) -> Set<String>? {
    let caller = clearance.caller
    switch configuration.policy.decide(.use, method: method, account: account.rawValue, caller: caller) {
    case .allowed(_, let scopes, nil): return scopes
    case .allowed(_, let scopes, .some) where clearance.isConfirmed: return scopes
    case .allowed(_, _, .some(let confirm)):
      guard !confirm.exempt.isEmpty else { throw unconfirmed(method, account.rawValue, confirm) }
      return confirm.exempt
    case .refused:
      try check(.use, method: method, account: account.rawValue, caller: caller)
      return []
    }
  }

  /// The scopes to ask for: those that the caller named, or all that it may have.
  func capped(_ scopes: [String]?, of grant: Grant, _ clearance: Clearance) throws(RPCError) -> [String]? {
    let account = grant.saved.account
    guard let cap = try cap(TokenGet.name, account, clearance) else { return scopes }
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
  func checkCap(of token: SavedToken, _ account: AccountName, _ clearance: Clearance) throws(RPCError) {
    guard let cap = try cap(TokenGet.name, account, clearance) else { return }
    let beyond = token.scopes.filter { !cap.contains($0) }
    guard beyond.isEmpty, !token.scopes.isEmpty else { throw beyondCap(account, beyond, cap) }
  }

  /// Methods that use the token as it is are nothing for a caller who may have a part of it alone.
  func checkWhole(_ access: Access, _ method: String, _ account: String, caller: Caller) throws(RPCError) {
    switch configuration.policy.decide(access, method: method, account: account, caller: caller) {
    case .allowed(_, nil, _): return
    case .allowed(_, .some, _): break
    case .refused: return try check(access, method: method, account: account, caller: caller)
    }
    throw RPCError(
      .notPermitted, "\(method) uses the account's whole token, and the rule for uid \(caller.uid) caps the scopes",
      hint: "Use a token of those scopes (`token.get`), or an admin can add a [[rule]] without `scopes`.")
  }

  /// A proof is for a token that the caller may have: the key would make a stolen one good.
  func checkCap(ofNamed token: Secret, _ grant: Grant, _ clearance: Clearance) throws(RPCError) {
    guard let cap = try cap(DPoPProof.name, grant.saved.account, clearance) else { return }
    let scopes = grant.livingTokens.first { $0.accessToken == token }?.scopes
    guard let scopes, !scopes.isEmpty, scopes.allSatisfy(cap.contains) else {
      throw RPCError(
        .notPermitted, "that is no current token of account \(grant.saved.account) that this caller may have",
        hint: "Ask for one with `token.get` again, and for the proof with that.")
    }
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
    case .allowed(let rule, let scopes, let confirm): return explanation(method, rule, scopes, confirm)
    case .refused(let why): return .init(allowed: false, why: why)
    }
  }

  private func explanation(
    _ method: any RPCMethod.Type, _ rule: String?, _ scopes: Set<String>?, _ confirm: Policy.Confirmation?
  ) -> PolicyExplain.Result {
    let privilege =
      configuration.policy.instance == .system ? "root may do everything" : "it is the owner of this instance"
    let basis =
      method.access == .open ? "everybody may call \(method.name)" : rule.map { "rule \($0) allows it" } ?? privilege
    let release = method as? any TokenRelease.Type
    if let release, let scopes, !release.takesPart {
      let part = scopes.sorted().joined(separator: " ").prefix(512)
      return .init(
        allowed: false, why: "\(method.name) uses the account's whole token, and \(basis) for \(part) alone")
    }
    guard let confirm, release != nil else {
      return .init(allowed: true, rule: rule, scopes: scopes?.sorted(), why: basis)
    }
    let asking = "rule \(confirm.rule) has a person allow each release"
    let asked = rule == confirm.rule ? asking : "\(basis); \(asking)"
    let exempt = confirm.exempt.isEmpty ? nil : confirm.exempt.sorted()
    return .init(
      allowed: true, rule: rule, scopes: scopes?.sorted(),
      confirm: .init(
        rule: confirm.rule, timeout: Double(confirm.within.milliseconds) / 1000, exempt_scopes: exempt),
      why: asked + (exempt.map { ", except of \($0.joined(separator: " ")) alone" } ?? ""))
  }
}
