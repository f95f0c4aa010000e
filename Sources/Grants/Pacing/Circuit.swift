import OAuth

/// Whether a provider answers: a circuit breaker. Its times are since the machine started, which no one can set.
///
/// While the circuit is open one request at a time tries the provider; all others rest. Once it answers, more and more are
/// let through.
public struct Circuit: Sendable, Equatable {
  public private(set) var state: State = .closed(failures: 0)
  /// Counts the times it opened: what was sent before says nothing new after.
  public private(set) var openings: UInt64 = 0

  public enum State: Sendable, Equatable {
    /// So many requests failed in a row.
    case closed(failures: Int)
    /// From `retryAt` on one request may try, from `wantedAt` on one that a caller waits for.
    case open(Outage, retryAt: Duration, wantedAt: Duration)
    /// That one is under way, and was sent or half answered then.
    case probing(Outage, ticket: UInt64, since: Duration)
    /// It answers again: so many requests may be under way at once.
    case recovering(Outage, window: Int)
  }

  public struct Outage: Sendable, Equatable {
    public var failure: Failure
    public var since: Duration
    /// How many probes failed, or had no answer for so long that others followed.
    public var probes: Int
  }

  public init() {}

  /// The outage that there is; nil: the provider answers, or has begun to.
  public var outage: Outage? {
    switch state {
    case .open(let outage, _, _), .probing(let outage, _, _): outage
    case .closed, .recovering: nil
    }
  }

  /// When the next request may try the provider; nil: there is no outage. One that is stuck leaves its place, to others
  /// at longer and longer intervals: each may cost a grant.
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

  /// Until when the probe under way may be expected to be answered; nil: there is none.
  public func probeEnd(policy: RefreshPolicy) -> Duration? {
    guard case .probing(_, _, let since) = state else { return nil }
    return since + policy.probePatience
  }

  /// How many requests may be under way at once, of the `most` that the provider gets.
  func window(most: Int) -> Int {
    switch state {
    case .closed: most
    case .recovering(_, let window): min(window, most)
    case .open, .probing: 1
    }
  }

  /// The provider answered, if only to refuse something. True: an outage ends here.
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

  /// A request that was let through since the circuit last opened had no answer. True: an outage begins here.
  ///
  /// - Parameter ticket: the request's. A probe that others followed says nothing new.
  mutating func failed(
    _ failure: Failure, ticket: UInt64, at now: Duration, retryAfter: Duration?, policy: RefreshPolicy, jitter: Double
  ) -> Bool {
    switch state {
    case .closed(let failures) where failures + 1 < policy.outageThreshold:
      state = .closed(failures: failures + 1)
      return false
    case .closed:
      open(Outage(failure: failure, since: now, probes: 0), at: now, retryAfter, policy, jitter)
      return true
    case .recovering(let outage, _):
      // It fell back: not so soon again.
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

  /// - Parameter sentAt: when the probe was sent that failed. A caller's question probes so long after that, not after
  ///   the end of one that was stuck: an account alone at its provider would wait for both.
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

  /// The probe that this ticket names goes out.
  mutating func probes(_ ticket: UInt64, at now: Duration) {
    switch state {
    case .open(let outage, _, _): state = .probing(outage, ticket: ticket, since: now)
    case .probing(var outage, _, _):
      outage.probes += 1
      state = .probing(outage, ticket: ticket, since: now)
    case .closed, .recovering: break
    }
  }

  /// The probe's first question, for the provider's metadata, was answered: the provider may be slow, but is there.
  mutating func goesOn(_ ticket: UInt64, at now: Duration) {
    guard case .probing(let outage, ticket, _) = state else { return }
    state = .probing(outage, ticket: ticket, since: now)
  }

  /// The probe never went out: the next may, but whatever kept this one must not be asked again without end.
  mutating func withdrawn(_ ticket: UInt64, at now: Duration) {
    guard case .probing(let outage, ticket, _) = state else { return }
    state = .open(outage, retryAt: now + Self.withdrawnPause, wantedAt: now + Self.withdrawnPause)
  }

  static let withdrawnPause = Duration.seconds(1)

  /// The network is back, or the settings changed: what was learned of the provider may be over.
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
