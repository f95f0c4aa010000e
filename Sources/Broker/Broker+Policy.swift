import BrokerAPI
import Grants
import OAuth

// What a rule's cap on scopes means, and why the policy says what it says.
extension Broker {
  /// The scopes that a release may have.
  private struct Cap {
    /// By the rules; nil: all that was granted.
    var rules: Set<String>?
    /// By a person's word, with those that need none; nil: all that the rules leave.
    var word: Set<String>?
  }

  private func cap(_ method: String, _ account: AccountName, _ clearance: Clearance) throws(RPCError) -> Cap {
    let caller = clearance.caller
    switch configuration.policy.decide(.use, method: method, account: account.rawValue, caller: caller) {
    case .allowed(_, let scopes, nil): return Cap(rules: scopes)
    case .allowed(_, let scopes, .some(let confirm)):
      if let allowed = clearance.allowed { return Cap(rules: scopes, word: allowed.scopes?.union(confirm.exempt)) }
      guard !confirm.exempt.isEmpty else { throw unconfirmed(method, account.rawValue, confirm) }
      return Cap(rules: confirm.exempt)
    case .refused:
      try check(.use, method: method, account: account.rawValue, caller: caller)
      return Cap(rules: [])
    }
  }

  /// What of a token's scopes lies beyond; nil: nothing does. Scopes that the provider does not say lie beyond any.
  private func excess(_ scopes: [String], over cap: Set<String>?) -> [String]? {
    guard let cap else { return nil }
    let beyond = scopes.filter { !cap.contains($0) }
    return beyond.isEmpty && !scopes.isEmpty ? nil : beyond
  }

  /// The scopes to ask for: those that the caller named, or all that it may have.
  func capped(_ scopes: [String]?, of grant: Grant, _ clearance: Clearance) throws(RPCError) -> [String]? {
    let account = grant.saved.account
    // A person's word covers what was asked for, or the caller would not have come so far.
    guard let cap = try cap(TokenGet.name, account, clearance).rules else { return scopes }
    if let scopes, !scopes.isEmpty {
      let beyond = scopes.filter { !cap.contains($0) }
      guard beyond.isEmpty else { throw beyondCap(account, beyond, cap) }
      return scopes
    }
    let granted = granted(grant)
    let both = granted.filter(cap.contains)
    guard !both.isEmpty else { throw beyondCap(account, granted, cap) }
    return both
  }

  private func granted(_ grant: Grant) -> [String] {
    grant.saved.grantedScopes.isEmpty ? grant.saved.requestedScopes : grant.saved.grantedScopes
  }

  /// The scopes of the token that would be handed out, as far as is known before; none: the provider does not say. One
  /// that is not narrowed has all that was granted, and one that was seen to have more than was asked for has that.
  func knownScopes(of key: SavedToken.Key, _ grant: Grant) -> [String] {
    if let token = grant.token(for: key), token.expiresAt.map({ $0 > now }) ?? true { return token.scopes }
    return key.scope.isEmpty ? granted(grant) : key.scopes
  }

  /// A token that the provider does not narrow is nothing for a caller who may not have all of it, nor is one with more
  /// scopes than a person allowed.
  func checkCap(of scopes: [String], _ account: AccountName, _ clearance: Clearance) throws(RPCError) {
    let cap = try cap(TokenGet.name, account, clearance)
    if let beyond = excess(scopes, over: cap.rules) { throw beyondCap(account, beyond, cap.rules ?? []) }
    if let beyond = excess(scopes, over: cap.word) { throw beyondWord(account, beyond) }
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
    let cap = try cap(DPoPProof.name, grant.saved.account, clearance)
    guard cap.rules != nil || cap.word != nil else { return }
    let scopes = grant.livingTokens.first { $0.accessToken == token }?.scopes
    guard let scopes, excess(scopes, over: cap.rules) == nil, excess(scopes, over: cap.word) == nil else {
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

  private func beyondWord(_ account: AccountName, _ beyond: [String]) -> RPCError {
    let what = beyond.isEmpty ? "scopes that the provider does not say" : beyond.joined(separator: " ")
    return RPCError(
      .notPermitted,
      "the provider's token of account \(account) has more than a person allowed: \(what.prefix(200))",
      hint: "Ask again: a person is then asked about all that it has.")
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
    case .refused(let why):
      let isDetailed = policy.allows(.manage, method: PolicyExplain.name, account: params.account, caller: caller)
      return .init(allowed: false, why: isDetailed ? why : Self.refusal(method.name, params.account, caller))
    }
  }

  /// For who may not manage the account: what other rules say would tell which accounts there are, and whose they are.
  private static func refusal(_ method: String, _ account: String?, _ caller: Caller) -> String {
    let command: [String?] = [
      "grantctl explain \(account ?? "ACCOUNT") --uid \(caller.uid)", caller.unit.map { "--unit \($0.prefix(256))" },
      method == TokenGet.name ? nil : "--method \(method)",
    ]
    return "no rule allows this caller \(method)" + (account.map { " for account \($0)" } ?? "")
      + "; `\(command.compactMap(\.self).joined(separator: " "))`, run by an admin, says what is missing"
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
