import BrokerAPI
import Grants
import OAuth
import Principals

/// Rights and rates of callers: the active policy, and each caller's remaining requests.
final class Authorizer: Sendable {
  let inForce: PolicyInForce
  /// How much each caller may ask.
  let rates: CallerRates
  let now: @Sendable () -> Timestamp

  /// - Parameter now: the wall clock.
  init(_ inForce: PolicyInForce, _ limits: CallerLimits, _ system: SystemDependencies) {
    self.inForce = inForce
    now = system.now
    rates = CallerRates(uptime: system.uptime)
    rates.configure(limits)
  }

  /// A reload brought another policy.
  func configure(_ policy: Policy, _ limits: CallerLimits) {
    inForce.configure(policy)
    rates.configure(limits)
  }

  var policy: Policy { inForce.policy }

  // MARK: One decision for a request

  /// Decides the principal's rights, once per request.
  ///
  /// - Parameter account: the account's name, whether it exists or not; nil: none.
  /// - Throws: `not_permitted`, with the missing rule.
  func authorize(
    _ principal: Principal, _ access: Access, _ method: String, account: String?, request: APIRequest? = nil
  ) throws(RPCError) -> Permission {
    if let permission = inForce.permission(principal, access, method, account, request: request) { return permission }
    try checkHold(access, method, account, principal)
    var refusal = Self.refusal(access, method, account, principal)
    // A rule permits other requests of this caller, but not this one.
    if let request, inForce.permission(principal, access, method, account) != nil {
      refusal.message =
        "\(principal.user) may not send \(request.method) \(request.host)\(request.path)\(request.words)"
        + (account.map { " for account \($0.prefix(128))" } ?? "")
      refusal.hint =
        !PlainPath.isPlain(request.path)
        ? "A path with steps upwards, empty steps or control characters is allowed by no `requests`."
        : request.content != nil
          ? "Its rule has `mcp`, which lists the allowed calls; \(Self.hintOfCalls(request))"
          : "An admin can add \"\(request.method) \(request.path)\" to `requests` of its rule, and reload."
    }
    throw refusal
  }

  private static func hintOfCalls(_ request: APIRequest) -> String {
    switch request.content {
    case nil, .session: "GET and DELETE must be named in `requests`."
    case .calls: "an admin can add to it, and reload."
    case .unclear: "only unambiguous messages of JSON-RPC 2.0 are sent."
    }
  }

  /// The same for a method that concerns accounts which its parameters do not name.
  func authorizeForSome(
    _ principal: Principal, _ access: Access, _ method: String
  ) throws(RPCError) -> Permission {
    guard let permission = inForce.permissionForSome(principal, access, method) else {
      try checkHold(access, method, nil, principal)
      throw Self.refusal(access, method, nil, principal)
    }
    return permission
  }

  /// The policy would permit it, and releases are held.
  private func checkHold(
    _ access: Access, _ method: String, _ account: String?, _ caller: Principal
  ) throws(RPCError) {
    let policy = policy
    guard access == .use || access == .idToken, inForce.isHeld,
      account == nil
        ? policy.allowsSome(access, method: method, caller: caller)
        : policy.allows(access, method: method, account: account, caller: caller)
    else { return }
    throw RPCError(.locked, "all releases of tokens are held", hint: Hold.hint)
  }

  /// Whether there is any account that the principal may do this to.
  func mayForSome(_ principal: Principal, _ access: Access, _ method: String) -> Bool {
    inForce.permissionForSome(principal, access, method) != nil
  }

  /// The permission as the policy of now has it. Where that has not changed since, this is the one that was given.
  func renewed(_ permission: Permission) throws(RPCError) -> Permission {
    guard !isCurrent(permission) else { return permission }
    var renewed = try authorize(
      permission.principal, permission.access, permission.method, account: permission.account,
      request: permission.request)
    renewed.approved = permission.approved
    return renewed
  }

  /// Whether the policy is still the one that decided.
  func isCurrent(_ permission: Permission) -> Bool { inForce.epoch == permission.epoch }

  /// Checks a use that carries no decision. The error is the same whether the account exists or not.
  func check(_ access: Access, method: String, account: String? = nil, caller: Principal) throws(RPCError) {
    guard !policy.allows(access, method: method, account: account, caller: caller) else { return }
    throw Self.refusal(access, method, account, caller)
  }

  /// With the rule that is missing, for an admin to add.
  static func refusal(_ access: Access, _ method: String, _ account: String?, _ caller: Principal) -> RPCError {
    RPCError(
      .notPermitted,
      "\(caller.user) may not call \(method)" + (account.map { " for account \($0.prefix(128))" } ?? ""),
      hint: "An admin can allow it by these lines in the configuration and `grantctl reload`:\n"
        + Rule.lines(for: caller, account: account, access: [access]))
  }
}
