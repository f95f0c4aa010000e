import OAuth

/// Which requests a provider gets, and how fast: so many at once, one at a time in an outage, and the backlog of a
/// restart, a recovery or a clock that leapt is spread over time. Its times are since the machine started.
public struct ProviderGate: Sendable {
  public private(set) var circuit = Circuit()
  /// Requests under way.
  public private(set) var inFlight = 0
  /// Those of them that were sent before the latest outage ended, and the last one's number: they take no place of what
  /// is sent since.
  private var stale = 0
  private var lastStale: UInt64 = 0
  private var tickets: UInt64 = 0
  /// What refreshes by themselves may spend, and what callers that wait may.
  private var background: Pace?
  private var wanted: Pace?

  /// A place among the requests under way. Given back once.
  public struct Ticket: Sendable, Equatable {
    let number: UInt64
    let openings: UInt64
    public let isProbe: Bool
  }

  public enum Admission: Sendable, Equatable {
    case go(Ticket)
    /// When one of those under way has ended.
    case full
    case later(Duration)
  }

  public init() {}

  /// Asks for a place. `isWanted`: a caller waits for it. `accounts`: how many the provider has.
  public mutating func admit(
    isWanted: Bool, accounts: Int, at now: Duration, policy: RefreshPolicy
  ) -> Admission {
    if let next = circuit.nextProbe(isWanted: isWanted, policy: policy) {
      guard next <= now else { return .later(next) }
      // The first probe goes whatever is under way. The next ones, while that one is stuck, have the provider's places,
      // and two at least.
      if case .probing = circuit.state, inFlight >= max(policy.concurrentPerProvider, 2) { return .full }
      let ticket = place(isProbe: true)
      circuit.probes(ticket.number, at: now)
      return .go(ticket)
    }
    guard inFlight - stale < circuit.window(most: policy.concurrentPerProvider),
      inFlight < 2 * max(policy.concurrentPerProvider, 2)
    else { return .full }
    let rate = isWanted ? policy.wantedRate(accounts: accounts) : policy.backgroundRate(accounts: accounts)
    var pace = (isWanted ? wanted : background) ?? Pace(full: rate, at: now)
    if let next = pace.take(rate, at: now) { return .later(next) }
    if isWanted { wanted = pace } else { background = pace }
    return .go(place(isProbe: false))
  }

  private mutating func place(isProbe: Bool) -> Ticket {
    tickets += 1
    inFlight += 1
    return Ticket(number: tickets, openings: circuit.openings, isProbe: isProbe)
  }

  public enum Turn: Sendable, Equatable {
    case nothing
    /// The provider was counted as answering, and is no longer.
    case unreachable
    /// It answers again.
    case recovered
  }

  /// The provider answered, if only to refuse something. Without a ticket: late, after the place was given back.
  public mutating func answered(_ ticket: Ticket?, policy: RefreshPolicy) -> Turn {
    if let ticket { leave(ticket) }
    guard circuit.answered(most: policy.concurrentPerProvider) else { return .nothing }
    stale = inFlight
    lastStale = tickets
    return .recovered
  }

  /// The provider did not answer, or said that it cannot.
  public mutating func failed(
    _ ticket: Ticket, _ failure: Failure, retryAfter: Duration?, at now: Duration, policy: RefreshPolicy,
    jitter: Double
  ) -> Turn {
    leave(ticket)
    // Sent before the circuit opened: that is known already. Sent before it closed: another one was answered since.
    guard ticket.openings == circuit.openings, !hasRecovered(since: ticket) else { return .nothing }
    let isNew = circuit.failed(
      failure, ticket: ticket.number, at: now, retryAfter: retryAfter, policy: policy, jitter: jitter)
    if isNew {
      // The recovery starts from nothing.
      background = Pace(at: now)
      wanted = Pace(at: now)
    }
    return isNew ? .unreachable : .nothing
  }

  /// Whether the request went out before or in an outage that is over: its failure says nothing of now.
  public func hasRecovered(since ticket: Ticket) -> Bool {
    circuit.outage == nil && (ticket.isProbe || ticket.openings < circuit.openings)
  }

  /// What comes before the request itself was answered.
  public mutating func goesOn(_ ticket: Ticket, at now: Duration) {
    if ticket.isProbe { circuit.goesOn(ticket.number, at: now) }
  }

  /// It was not sent, by our own choice.
  public mutating func withdrawn(_ ticket: Ticket, at now: Duration) {
    leave(ticket)
    if ticket.isProbe { circuit.withdrawn(ticket.number, at: now) }
  }

  private mutating func leave(_ ticket: Ticket) {
    inFlight = max(0, inFlight - 1)
    if ticket.number <= lastStale { stale = max(0, stale - 1) }
  }

  /// The network is back, the machine woke up, or the settings changed: ask now.
  public mutating func recheck(at now: Duration) { circuit.recheck(at: now) }
}

extension RefreshPolicy {
  /// Refreshes that nobody waits for: all accounts of a provider spread over a minute, and never slower than this.
  static let slowestBackgroundRate = 5.0
  /// The same for callers that wait: ten seconds.
  static let slowestWantedRate = 50.0
  static let rateBurst = 2.0

  func backgroundRate(accounts: Int) -> Double { max(Self.slowestBackgroundRate, Double(accounts) / 60) }
  func wantedRate(accounts: Int) -> Double { max(Self.slowestWantedRate, Double(accounts) / 10) }
}

/// A rate: credit grows with time, and each request spends one.
struct Pace: Sendable {
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

  /// Spends one; where there is none, says when there will be.
  mutating func take(_ rate: Double, at now: Duration) -> Duration? {
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
