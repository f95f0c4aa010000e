import Grants
import OAuth

/// How far this machine's clock and a provider's are apart.
struct ClockSkew: Sendable, Equatable {
  /// Positive: our clock is ahead of the provider's.
  var offset: Duration
  var at: Timestamp

  /// The header has whole seconds, and the way there and back takes its time: what is less is no skew.
  static let worthSaying = Duration.seconds(5)
}

/// Whether a provider can be asked.
enum ProviderCondition: Equatable {
  case ok
  /// It refuses this client: its settings must be mended.
  case suspended(Failure, until: Timestamp)
  /// It does not answer; tried again from `retryAt` on.
  case unreachable(Failure, since: Timestamp, retryAt: Timestamp)
  /// It answers again, and gets more requests little by little.
  case recovering
}

extension Broker {
  func condition(of line: ProviderLine) -> ProviderCondition {
    if let failure = line.suspended(at: now), let suspension = line.suspension {
      return .suspended(failure, until: suspension.until)
    }
    switch line.gate.circuit.state {
    case .closed: return .ok
    case .recovering: return .recovering
    case .open(let outage, let retryAt):
      return .unreachable(outage.failure, since: wall(outage.since), retryAt: max(now, wall(retryAt)))
    case .probing(let outage, _): return .unreachable(outage.failure, since: wall(outage.since), retryAt: now)
    }
  }

  /// A moment since the machine started, by the wall clock as it is now.
  func wall(_ moment: Duration) -> Timestamp { now + (moment - uptime) }

  /// When the account's refresh token will end, where that is known.
  func refreshTokenEnd(of grant: Grant) -> RefreshTokenEnd? {
    grant.refreshTokenEnd(learned: providers[grant.saved.provider]?.learned.lifetime)
  }
}
