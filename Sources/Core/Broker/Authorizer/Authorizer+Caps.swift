import BrokerAPI
import Grants
import OAuth
import Principals

// The effect of a rule's cap on scopes.
extension Authorizer {
  /// The scopes that a release may have.
  private struct Cap {
    /// By the rules; nil: all that was granted.
    var rules: Set<String>?
    /// Permitted with approval, plus the scopes that need none; nil: all that the rules permit.
    var word: Set<String>?
  }

  private func cap(_ permission: Permission) throws(RPCError) -> Cap {
    guard let confirm = permission.confirmation else { return Cap(rules: permission.scopes) }
    if let approved = permission.approved {
      return Cap(rules: permission.scopes, word: approved.scopes?.union(confirm.exempt))
    }
    guard !confirm.exempt.isEmpty else { throw Self.unconfirmed(permission, confirm) }
    return Cap(rules: confirm.exempt)
  }

  /// What of a token's scopes lies beyond; nil: nothing does. Scopes that the provider does not say lie beyond any.
  private func excess(_ scopes: [String], over cap: Set<String>?) -> [String]? {
    guard let cap else { return nil }
    let beyond = scopes.filter { !cap.contains($0) }
    return beyond.isEmpty && !scopes.isEmpty ? nil : beyond
  }

  /// The scopes to request: the caller's, or all that it may have.
  func capped(_ scopes: [String]?, of grant: Grant, _ permission: Permission) throws(RPCError) -> [String]? {
    let account = grant.saved.account
    // The approval covers the request; otherwise the caller would not have reached this step.
    guard let cap = try cap(permission).rules else { return scopes }
    if let scopes, !scopes.isEmpty {
      let beyond = scopes.filter { !cap.contains($0) }
      guard beyond.isEmpty else { throw beyondCap(account, beyond, cap) }
      return scopes
    }
    let granted = granted(grant)
    let both = granted.filter(cap.contains)
    guard !both.isEmpty else { throw noneGranted(grant.saved, granted, cap) }
    return both
  }

  /// Whether the rules let the caller request a token for these resources (RFC 8707).
  func checkResources(_ resources: [String], of grant: Grant, _ permission: Permission) throws(RPCError) {
    let account = grant.saved.account.rawValue
    guard !resources.isEmpty,
      let allowed = policy.resources(permission.access, permission.method, account, permission.principal),
      let refused = resources.first(where: {
        ![grant.saved.resource, grant.saved.audience].contains($0) && !allowed.contains($0)
      })
    else { return }
    throw RPCError(
      .notPermitted,
      "the rule for this caller does not allow a token of account \(account) for \(refused.printable(limit: 200))",
      hint: "An administrator can add it to the rule's `resources`.")
  }

  private func granted(_ grant: Grant) -> [String] {
    grant.saved.grantedScopes.isEmpty ? grant.saved.requestedScopes : grant.saved.grantedScopes
  }

  /// The scopes of the released token, as far as known in advance; none: the provider does not report them. A token
  /// that is not narrowed has all granted scopes; one observed with more than the requested scopes has those.
  func knownScopes(of key: SavedToken.Key, _ grant: Grant) -> [String] {
    if let token = grant.token(for: key), token.expiresAt.map({ $0 > now() }) ?? true { return token.scopes }
    return key.scope.isEmpty ? granted(grant) : key.scopes
  }

  /// A token that the provider does not narrow is refused to a caller with a cap, and so is one with more scopes than
  /// were approved.
  func checkCap(of scopes: [String], _ saved: SavedGrant, _ permission: Permission) throws(RPCError) {
    let cap = try cap(permission)
    if let beyond = excess(scopes, over: cap.rules) { throw notNarrowed(saved, beyond, cap.rules ?? []) }
    if let beyond = excess(scopes, over: cap.word) { throw beyondWord(saved.account, beyond) }
  }

  /// Methods that use the full token are refused to a caller with a cap.
  func checkWhole(_ permission: Permission) throws(RPCError) {
    guard permission.scopes != nil else { return }
    let account = permission.account?.prefix(128) ?? "ACCOUNT"
    throw RPCError(
      .notPermitted,
      "\(permission.method) uses the account's whole token, and the rule for \(permission.principal.user) caps the scopes",
      hint: "Use a token of those scopes: `grantctl token \(account)`. An administrator can add a [[rule]] without "
        + "`scopes`.")
  }

  /// An ID token is the result of the scope `openid`.
  func checkIDToken(_ account: AccountName, _ permission: Permission) throws(RPCError) {
    guard let cap = permission.scopes, !cap.contains("openid") else { return }
    throw beyondCap(account, ["openid"], cap)
  }

  /// A proof is for a token that the caller may have: the key would make a stolen one good.
  func checkCap(ofNamed token: Secret, _ grant: Grant, _ permission: Permission) throws(RPCError) {
    let cap = try cap(permission)
    guard cap.rules != nil || cap.word != nil else { return }
    let scopes = grant.livingTokens.first { $0.accessToken == token }?.scopes
    guard let scopes, excess(scopes, over: cap.rules) == nil, excess(scopes, over: cap.word) == nil else {
      throw RPCError(
        .notPermitted, "that is not a current token of account \(grant.saved.account) that this caller may have",
        hint: "Ask for one with `token.get` again, and for the proof with that.")
    }
  }

  private func beyondCap(_ account: AccountName, _ beyond: [String], _ cap: Set<String>) -> RPCError {
    let what = beyond.isEmpty ? "a token whose scopes the provider does not say" : beyond.joined(separator: " ")
    return RPCError(
      .notPermitted, "the rule for this caller does not allow \(what.prefix(200)) of account \(account)",
      hint: "It allows: \(Self.words(cap)). `grantctl token \(account)` returns a token of these scopes. "
        + "An administrator can add to its `scopes`.")
  }

  /// The rule allows only scopes that the user has not granted.
  private func noneGranted(_ saved: SavedGrant, _ granted: [String], _ cap: Set<String>) -> RPCError {
    var error = beyondCap(saved.account, granted, cap)
    let login = HintedCommand.login(saved, adding: cap.sorted())
    let next =
      saved.kind.isUnattended
      ? "Add them to `scopes` in [account.\(saved.account)], then run `grantctl reload`."
      : "`\(login)` requests them, too."
    error.hint =
      "It allows: \(Self.words(cap)). These were not granted. \(next) An administrator can add to the rule's `scopes`."
    return error
  }

  private static func words(_ cap: Set<String>) -> Substring {
    cap.sorted().joined(separator: " ").prefix(512)
  }

  /// The rule allows the scopes that were requested, but the token has more.
  private func notNarrowed(_ saved: SavedGrant, _ beyond: [String], _ cap: Set<String>) -> RPCError {
    let excess = beyond.isEmpty ? "unknown scopes" : "the scopes \(beyond.joined(separator: " ").prefix(200))"
    let login = HintedCommand.separateLogin(saved, scopes: cap.sorted())
    return RPCError(
      .scopeNotGranted,
      "the token of account \(saved.account) has \(excess), and the rule for this caller allows only \(Self.words(cap))",
      hint: "The provider returns no token of fewer scopes (narrow_tokens). Sign in to a separate account with only "
        + "these scopes: `\(login)`. Or add the missing ones to the rule.")
  }

  private func beyondWord(_ account: AccountName, _ beyond: [String]) -> RPCError {
    let what = beyond.isEmpty ? "scopes that the provider does not say" : beyond.joined(separator: " ")
    return RPCError(
      .notPermitted,
      "the provider's token of account \(account) has more than was approved: \(what.prefix(200))",
      hint: "Ask again, as with `grantctl token \(account)`: the approval then covers all that it has.")
  }

  /// A use without a request cannot wait for approval, and a repetition does not help.
  ///
  /// - Parameter whom: the noun for the message: `a unit that starts`.
  func checkUnasked(_ permission: Permission, _ whom: String) throws(RPCError) {
    guard let confirm = permission.confirmation, confirm.exempt.isEmpty else { return }
    let account = permission.account ?? ""
    throw RPCError(
      .notPermitted,
      "rule \(confirm.rule) requires approval of each release of account \(account), and \(whom) cannot wait",
      hint:
        "Have the service call `grantctl token \(account)`, which waits, or add a rule without `confirm` and `grantctl "
        + "reload`:\n" + Rule.lines(for: permission.principal, account: account, methods: [permission.method]))
  }

  static func unconfirmed(_ permission: Permission, _ confirmation: Policy.Confirmation) -> RPCError {
    RPCError(
      .notPermitted,
      "\(permission.method) for account \(permission.account?.prefix(128) ?? "") needs approval, and was not approved",
      hint: "Rule \(confirmation.rule) asks for that: ask again, and see `grantctl approve`.")
  }
}
