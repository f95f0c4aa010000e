import OAuth

/// A circuit breaker for a provider. Its times are since the machine started, which cannot be changed.
///
/// While the circuit is open only one request at a time is sent, as a probe; all others wait. After a response the
/// limit grows step by step.
public struct Circuit: Sendable, Equatable {
  public private(set) var state: State = .closed(failures: 0)
  /// The number of times it opened: results of requests sent before the last opening are ignored.
  public private(set) var openings: UInt64 = 0

  public enum State: Sendable, Equatable {
    /// The number of consecutive failed requests.
    case closed(failures: Int)
    /// A probe may be sent from `retryAt` on, or from `wantedAt` on if a caller is waiting.
    case open(Outage, retryAt: Duration, wantedAt: Duration)
    /// A probe is in progress; `since`: when it was sent or partly answered.
    case probing(Outage, ticket: UInt64, since: Duration)
    /// The provider responds again; `window`: the maximum number of concurrent requests.
    case recovering(Outage, window: Int)
  }

  public struct Outage: Sendable, Equatable {
    public var failure: FailureRecord
    public var since: Duration
    /// The number of probes that failed or were overdue.
    public var probes: Int
  }

  public init() {}

  /// The current outage; nil: the provider responds, or has begun to.
  public var outage: Outage? {
    switch state {
    case .open(let outage, _, _), .probing(let outage, _, _): outage
    case .closed, .recovering: nil
    }
  }

  /// The earliest time of the next probe; nil: no outage. After a stuck probe others follow at increasing intervals:
  /// each may cost a grant.
  public func nextProbe(isWanted: Bool, policy: RefreshPolicy) -> Duration? {
    switch state {
    case .open(_, let retryAt, let wantedAt): isWanted ? min(wantedAt, retryAt) : retryAt
    case .probing(let outage, _, let since):
      since
        + max(
          policy.probePatience,
          isWanted ? policy.stuckProbeDelay(outage.probes) : policy.probeDelay(outage.probes))
    case .closed, .recovering: nil
    }
  }

  /// The time limit of the current probe; nil: no probe is in progress.
  public func probeEnd(policy: RefreshPolicy) -> Duration? {
    guard case .probing(_, _, let since) = state else { return nil }
    return since + policy.probePatience
  }

  /// The maximum number of concurrent requests; `most`: the provider's limit.
  func window(most: Int) -> Int {
    switch state {
    case .closed: most
    case .recovering(_, let window): min(window, most)
    case .open, .probing: 1
    }
  }

  /// The provider responded, even if only with a refusal. True: an outage ends here.
  mutating func answered(most: Int) -> Bool {
    switch state {
    case .closed:
      state = .closed(failures: 0)
      return false
    case .open(let outage, _, _), .probing(let outage, _, _):
      state = .recovering(outage, window: min(2, most))
      return true
    case .recovering(let outage, let window):
      state = window * 2 >= most ? .closed(failures: 0) : .recovering(outage, window: window * 2)
      return false
    }
  }

  /// A request that was sent since the circuit last opened had no response. True: an outage begins here.
  ///
  /// - Parameter ticket: of the request. The result of a superseded probe is ignored.
  mutating func failed(
    _ failure: FailureRecord, ticket: UInt64, at now: Duration, retryAfter: Duration?, policy: RefreshPolicy,
    jitter: Double
  ) -> Bool {
    switch state {
    case .closed(let failures) where failures + 1 < policy.outageThreshold:
      state = .closed(failures: failures + 1)
      return false
    case .closed:
      open(Outage(failure: failure, since: now, probes: 0), at: now, retryAfter, policy, jitter)
      return true
    case .recovering(let outage, _):
      // It failed again during the recovery: increase the delay.
      open(
        Outage(failure: failure, since: outage.since, probes: outage.probes + 1), at: now, retryAfter, policy, jitter)
      return true
    case .open: return false
    case .probing(let outage, let current, let sentAt):
      guard ticket == current else { return false }
      open(
        Outage(failure: failure, since: outage.since, probes: outage.probes + 1), at: now, sentAt: sentAt, retryAfter,
        policy, jitter)
      return false
    }
  }

  /// - Parameter sentAt: when the failed probe was sent. The delay for waiting callers counts from then, not from the
  /// end of a stuck probe: otherwise the only account of a provider would wait for both.
  private mutating func open(
    _ outage: Outage, at now: Duration, sentAt: Duration? = nil, _ retryAfter: Duration?, _ policy: RefreshPolicy,
    _ jitter: Double
  ) {
    func wait(_ planned: Duration) -> Duration { planned.scaled(by: 1 - policy.jitter * jitter) }
    let earliest = now + min(retryAfter ?? .zero, policy.longestRetryAfter)
    openings += 1
    state = .open(
      outage, retryAt: max(now + wait(policy.probeDelay(outage.probes)), earliest),
      wantedAt: max((sentAt ?? now) + wait(policy.wantedProbeDelay), earliest))
  }

  /// The probe with this ticket is sent.
  mutating func probes(_ ticket: UInt64, at now: Duration) {
    switch state {
    case .open(let outage, _, _): state = .probing(outage, ticket: ticket, since: now)
    case .probing(var outage, _, _):
      outage.probes += 1
      state = .probing(outage, ticket: ticket, since: now)
    case .closed, .recovering: break
    }
  }

  /// The probe's first request, for the provider's metadata, was answered: the provider may be slow, but is reachable.
  mutating func goesOn(_ ticket: UInt64, at now: Duration) {
    guard case .probing(let outage, ticket, _) = state else { return }
    state = .probing(outage, ticket: ticket, since: now)
  }

  /// The probe was not sent. The next one may be, after a pause, since the same cause could withdraw it in an endless
  /// loop.
  mutating func withdrawn(_ ticket: UInt64, at now: Duration) {
    guard case .probing(let outage, ticket, _) = state else { return }
    state = .open(outage, retryAt: now + Self.withdrawnPause, wantedAt: now + Self.withdrawnPause)
  }

  static let withdrawnPause = Duration.seconds(1)

  /// The network is back, or the settings changed: the outage may be over.
  mutating func recheck(at now: Duration) {
    switch state {
    case .open(var outage, _, _), .probing(var outage, _, _):
      outage.probes = 0
      state = .open(outage, retryAt: now, wantedAt: now)
    case .closed: state = .closed(failures: 0)
    case .recovering: break
    }
  }
}
