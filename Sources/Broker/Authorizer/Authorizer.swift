import BrokerAPI
import Grants
import OAuth

/// Who may do what: the policy in force, and what each caller may still ask for.
@BrokerActor
final class Authorizer {
  private(set) var policy: Policy
  let clock: BrokerClock
  /// How much each caller may ask, also for those that are not on the broker's actor.
  nonisolated let rates: CallerRates

  init(_ policy: Policy, _ limits: CallerLimits, _ clock: BrokerClock) {
    self.policy = policy
    self.clock = clock
    rates = CallerRates(uptime: clock.surroundings.uptime)
    rates.configure(limits)
  }

  /// A reload brought another policy.
  func configure(_ policy: Policy, _ limits: CallerLimits) {
    self.policy = policy
    rates.configure(limits)
  }

  /// Whether the policy lets the caller do it; the error is the same whether the account exists or not. `anyAccount`: it
  /// is about some account, and which one is not yet known.
  func check(
    _ access: Access, method: String, account: String? = nil, caller: Caller, anyAccount: Bool = false
  ) throws(RPCError) {
    let isAllowed =
      anyAccount
      ? policy.allowsSome(access, method: method, caller: caller)
      : policy.allows(access, method: method, account: account, caller: caller)
    guard !isAllowed else { return }
    throw Self.refusal(access, method, account, caller)
  }

  /// With the rule that is missing, for an admin to take over.
  nonisolated static func refusal(_ access: Access, _ method: String, _ account: String?, _ caller: Caller) -> RPCError
  {
    RPCError(
      .notPermitted,
      "uid \(caller.uid) may not call \(method)" + (account.map { " for account \($0.prefix(128))" } ?? ""),
      hint: "An admin can allow it by these lines in the configuration and `grantctl reload`:\n"
        + Rule.lines(for: caller, account: account, access: [access]))
  }
}
