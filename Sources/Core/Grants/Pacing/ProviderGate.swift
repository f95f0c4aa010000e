import OAuth

/// Limits the requests to a provider: a maximum of concurrent requests, one at a time in an outage, and a rate limit
/// for the backlog after a restart, a recovery or a clock change, and within the rate that the provider allows. Its times
/// are since the machine started.
public struct ProviderGate: Sendable {
  public private(set) var circuit = Circuit()
  /// The rate that the provider's 429 responses allow.
  public var limit = RateLimit()
  /// One request at a time: refresh tokens may be of an older copy of the database. Until a refresh succeeds.
  public var isCautious = false
  /// The number of requests in progress.
  public private(set) var inFlight = 0
  /// The requests in progress that were sent before the latest outage ended, and the number of the last one: they do
  /// not use the capacity of later requests.
  private var stale = 0
  private var lastStale: UInt64 = 0
  private var tickets: UInt64 = 0
  /// The rate limits of background refreshes and of refreshes that callers are waiting for.
  private var background: RateCredit?
  private var wanted: RateCredit?

  /// A permit for one request in progress. Released once.
  public struct Ticket: Sendable, Equatable {
    let number: UInt64
    let openings: UInt64
    public let isProbe: Bool
  }

  public enum Admission: Sendable, Equatable {
    case go(Ticket)
    /// Try again when a request in progress has ended.
    case full
    case later(Duration)
  }

  public init() {}

  /// Requests a permit.
  ///
  /// - Parameters:
  ///   - isWanted: a caller is waiting.
  ///   - isUrgent: without this request the grant may end; the provider's `Retry-After` does not hold it back.
  ///   - accounts: the number of accounts of the provider.
  public mutating func admit(
    isWanted: Bool, isUrgent: Bool = false, accounts: Int, at now: Duration, policy: RefreshPolicy
  ) -> Admission {
    if !isUrgent, limit.heldUntil > now { return .later(limit.heldUntil) }
    if let next = circuit.nextProbe(isWanted: isWanted, policy: policy) {
      guard next <= now else { return .later(next) }
      // The first probe is always sent. While it is stuck, further probes may use the provider's limit, at least two.
      if case .probing = circuit.state, inFlight >= max(policy.concurrentPerProvider, 2) { return .full }
      let ticket = issueTicket(isProbe: true)
      circuit.probes(ticket.number, at: now)
      return .go(ticket)
    }
    let most = isCautious ? 1 : policy.concurrentPerProvider
    guard inFlight - stale < circuit.window(most: most),
      inFlight < 2 * max(policy.concurrentPerProvider, 2)
    else { return .full }
    let rate = isWanted ? policy.wantedRate(accounts: accounts) : policy.backgroundRate(accounts: accounts)
    var pace = (isWanted ? wanted : background) ?? RateCredit(full: rate, at: now)
    if !isUrgent, let next = limit.wait(at: now) { return .later(next) }
    if let next = pace.acquire(rate, at: now) { return .later(next) }
    if isWanted { wanted = pace } else { background = pace }
    limit.sends(at: now)
    return .go(issueTicket(isProbe: false))
  }

  private mutating func issueTicket(isProbe: Bool) -> Ticket {
    tickets += 1
    inFlight += 1
    return Ticket(number: tickets, openings: circuit.openings, isProbe: isProbe)
  }

  public enum Turn: Sendable, Equatable {
    case nothing
    /// The provider was considered reachable and no longer is.
    case unreachable
    /// The provider responds again.
    case recovered
  }

  /// The provider responded, even if only with a refusal. Without a ticket: late, after the permit was released.
  public mutating func answered(_ ticket: Ticket?, at now: Duration, policy: RefreshPolicy) -> Turn {
    if let ticket { release(ticket) }
    limit.accepts(at: now)
    return responded(policy: policy)
  }

  /// The provider responded that it gets too many requests. True: the first such response of a burst.
  public mutating func limited(
    _ ticket: Ticket?, retryAfter: Duration?, at now: Duration, policy: RefreshPolicy
  ) -> (Turn, isNew: Bool) {
    if let ticket { release(ticket) }
    let isNew = limit.limits(
      ticket?.number ?? tickets, last: tickets, retryAfter: retryAfter, at: now, policy: policy)
    return (responded(policy: policy), isNew)
  }

  private mutating func responded(policy: RefreshPolicy) -> Turn {
    guard circuit.answered(most: policy.concurrentPerProvider) else { return .nothing }
    stale = inFlight
    lastStale = tickets
    return .recovered
  }

  /// The provider did not respond, or reported that it is unavailable.
  public mutating func failed(
    _ ticket: Ticket, _ failure: FailureRecord, retryAfter: Duration?, at now: Duration, policy: RefreshPolicy,
    jitter: Double
  ) -> Turn {
    release(ticket)
    // Sent before the circuit opened: already known. Sent before it closed: another request was answered since.
    guard ticket.openings == circuit.openings, !hasRecovered(since: ticket) else { return .nothing }
    let isNew = circuit.failed(
      failure, ticket: ticket.number, at: now, retryAfter: retryAfter, policy: policy, jitter: jitter)
    if isNew {
      // The recovery starts without credit.
      background = RateCredit(at: now)
      wanted = RateCredit(at: now)
    }
    return isNew ? .unreachable : .nothing
  }

  /// Whether the request was sent before or during an outage that has ended: its failure does not describe the current
  /// state.
  public func hasRecovered(since ticket: Ticket) -> Bool {
    circuit.outage == nil && (ticket.isProbe || ticket.openings < circuit.openings)
  }

  /// A request that precedes the actual one was answered.
  public mutating func goesOn(_ ticket: Ticket, at now: Duration) {
    if ticket.isProbe { circuit.goesOn(ticket.number, at: now) }
  }

  /// The broker decided not to send it.
  public mutating func withdrawn(_ ticket: Ticket, at now: Duration) {
    release(ticket)
    if !ticket.isProbe { limit.withdraws(at: now) }
    if ticket.isProbe { circuit.withdrawn(ticket.number, at: now) }
  }

  private mutating func release(_ ticket: Ticket) {
    inFlight = max(0, inFlight - 1)
    if ticket.number <= lastStale { stale = max(0, stale - 1) }
  }

  /// The network is back, the machine woke up, or the settings changed: probe now.
  public mutating func recheck(at now: Duration) { circuit.recheck(at: now) }
}

extension RefreshPolicy {
  /// Background refreshes: all accounts of a provider within a minute, and never slower than this.
  static let slowestBackgroundRate = 5.0
  /// The same for waiting callers: within ten seconds.
  static let slowestWantedRate = 50.0
  static let rateBurst = 2.0

  func backgroundRate(accounts: Int) -> Double { max(Self.slowestBackgroundRate, Double(accounts) / 60) }
  func wantedRate(accounts: Int) -> Double { max(Self.slowestWantedRate, Double(accounts) / 10) }
}

/// A rate limit: credit grows with time, and each request uses one.
struct RateCredit: Sendable {
  private var credit: Double
  private var at: Duration

  init(at now: Duration) {
    credit = 0
    at = now
  }

  init(full rate: Double, at now: Duration) {
    credit = rate * RefreshPolicy.rateBurst
    at = now
  }

  /// Uses one credit; without credit, returns the time until the next.
  mutating func acquire(_ rate: Double, at now: Duration) -> Duration? {
    let passed = max(.zero, now - at)
    credit = min(rate * RefreshPolicy.rateBurst, credit + rate * Double(passed.milliseconds) / 1000)
    at = now
    guard credit < 1 else {
      credit -= 1
      return nil
    }
    return now + .milliseconds(Int64(((1 - credit) / rate * 1000).rounded(.up)))
  }
}
