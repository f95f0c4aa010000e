import Grants
import OAuth

/// Whether a provider can be asked.
enum ProviderCondition: Equatable {
  case ok
  /// It refuses this client: its settings must be corrected.
  case suspended(FailureRecord, until: Timestamp)
  /// It does not answer; tried again from `retryAt` on.
  case unreachable(FailureRecord, since: Timestamp, retryAt: Timestamp)
  /// It answers again, and gets more requests little by little.
  case recovering
}

extension ProviderConnection {
  var condition: ProviderCondition {
    if let failure = suspended, let suspension = history.suspension {
      return .suspended(failure, until: suspension.until)
    }
    if let rest = history.clientRefusals.rest(at: now) { return .suspended(rest.failure, until: rest.until) }
    switch gate.circuit.state {
    case .closed: return .ok
    case .recovering: return .recovering
    case .open(let outage, let retryAt, _):
      return .unreachable(outage.failure, since: wall(outage.since), retryAt: max(now, wall(retryAt)))
    case .probing(let outage, _, _): return .unreachable(outage.failure, since: wall(outage.since), retryAt: now)
    }
  }
}
