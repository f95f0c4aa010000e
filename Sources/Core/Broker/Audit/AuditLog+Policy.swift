import BrokerAPI
import Logging
import Principals

// The audit records of the policy: what became active, when, and by which caller.
extension AuditLog {
  /// Its name in the trail that the broker starts.
  static let startMethod = "broker.start"

  /// The policy at a start may differ from that of the run before.
  func started(_ configuration: BrokerConfiguration) {
    guard configuration.audit.isEnabled else {
      return logger.notice("[audit] is turned off: nothing is recorded of who gets what")
    }
    record(
      AuditEntry(
        action: .policy, method: Self.startMethod, who: .init(uid: nil), detail: Self.words(configuration)))
  }

  func reloadFailed(for caller: Principal?, _ error: RPCError) {
    let who = caller.map { AuditCaller($0) } ?? .init(uid: nil)
    record(
      AuditEntry(
        action: .policy, method: BrokerReload.name, who: who,
        result: (error.reason ?? .invalidConfiguration).rawValue), by: caller)
  }

  /// What of the policy is another after a reload.
  func reloaded(from old: BrokerConfiguration, to new: BrokerConfiguration, for caller: Principal?) -> AuditEntry {
    let changes = Self.changes(from: old, to: new)
    let change = changes.isEmpty ? "the policy is unchanged" : "changed: \(changes.joined(separator: ", "))"
    return AuditEntry(
      action: .policy, method: BrokerReload.name, who: caller.map { AuditCaller($0) } ?? .init(uid: nil),
      detail: "\(change); \(Self.words(new))")
  }

  /// `12 rules, policy 8c1f20d6a94be377`.
  private static func words(_ configuration: BrokerConfiguration) -> String {
    let count = configuration.policy.rules.count
    return "\(count) \(count == 1 ? "rule" : "rules"), policy \(configuration.policyDigest)"
  }

  /// The changed parts of the policy; for rules, the added and removed names.
  private static func changes(from old: BrokerConfiguration, to new: BrokerConfiguration) -> [String] {
    var changes: [String] = []
    let (before, after) = (old.policy.rules.map(\.meaning), new.policy.rules.map(\.meaning))
    if before != after {
      let (known, kept) = (Set(before), Set(after))
      let come = zip(new.policy.rules, after).filter { !known.contains($0.1) }.map { "+\($0.0.name)" }
      let gone = zip(old.policy.rules, before).filter { !kept.contains($0.1) }.map { "-\($0.0.name)" }
      let names = (come + gone).joined(separator: " ").prefix(350)
      changes.append(names.isEmpty ? "the rules' order" : "rules (\(names))")
    }
    if old.credentials != new.credentials { changes.append("credentials") }
    if old.callerLimits != new.callerLimits { changes.append("limits") }
    if old.audit.isEnabled != new.audit.isEnabled {
      changes.append("audit (turned \(new.audit.isEnabled ? "on" : "off"))")
    } else if old.audit != new.audit {
      changes.append("audit")
    }
    return changes
  }
}
