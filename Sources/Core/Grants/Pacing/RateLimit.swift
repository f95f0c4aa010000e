import OAuth

/// The request rate that a provider allows, learned from its 429 responses (RFC 6585 §4). Unlimited until the first one.
///
/// Each burst of 429s lowers the rate by a twentieth, or to that of the requests that were accepted since the last burst if
/// the rate was far too high. Then it grows until the next burst: slowly near the rate of the last one, faster above it.
/// Its times are since the machine started.
public struct RateLimit: Sendable, Equatable {
  /// Requests per second; nil: no limit is known.
  public private(set) var rate: Double?
  /// No request is sent before: the provider's `Retry-After`.
  public private(set) var heldUntil: Duration = .zero
  /// The time of the last 429 that was not caused by the same burst as the one before.
  public private(set) var limitedAt: Duration?
  /// The rate just before the last burst.
  private var ceiling = 0.0
  /// The rate is that of the accepted requests, which may be lower than what the provider allows.
  private var isGuess = false
  /// The time of the next request.
  private var next: Duration = .zero
  /// The requests that were accepted since the time of `since`, without a pause for lack of requests.
  private var accepted = 0
  private var since: Duration?
  private var lastAccepted: Duration = .zero
  /// The last request that was sent before the last 429: a 429 to it or an earlier one belongs to the same burst.
  private var burst: UInt64 = 0
  /// Consecutive bursts without an accepted request in between.
  private var misses = 0

  /// The end of the hold that a user ended early.
  private var released: Duration = .zero

  /// After this time without a 429 the limit is forgotten.
  public static let memory = Duration.seconds(3600)
  static let decrease = 0.95
  /// The growth per second, and at most per accepted request: below `slowBelow` times the rate of the last burst, and above;
  /// and from a rate that was measured.
  static let slowGrowth = (perSecond: 0.001, perRequest: 0.0002)
  static let fastGrowth = (perSecond: 0.05, perRequest: 0.05)
  static let guessGrowth = (perSecond: 0.02, perRequest: 0.02)
  static let slowBelow = 1.05
  /// The lowest rate, in requests per second.
  static let lowest = 1.0 / 60
  /// The hold after a 429 without `Retry-After`; it doubles if the next request gets one too.
  static let shortestHold = Duration.seconds(1)
  static let mostDoublings = 6
  /// Requests are sent at once if the scheduler was late for them by at most this time.
  static let catchUp = Duration.milliseconds(250)
  /// The measurement begins again after this time without a request.
  static let idle = Duration.seconds(1)

  public init() {}

  /// A limit that an earlier run learned.
  ///
  /// - Parameter age: the time since its last 429.
  public init(rate: Double, age: Duration, at now: Duration) {
    guard rate > 0, rate.isFinite, age >= .zero, age < Self.memory else { return }
    self.rate = max(rate, Self.lowest)
    ceiling = rate
    limitedAt = now - age
  }

  /// The earliest time of the next request; nil: now.
  mutating func wait(at now: Duration) -> Duration? {
    if heldUntil > now { return heldUntil }
    if let limitedAt, now - limitedAt >= Self.memory { self = RateLimit() }
    guard rate != nil else { return nil }
    return next > now ? next : nil
  }

  /// A request is sent.
  mutating func sends(at now: Duration) {
    if since == nil || now - max(next, heldUntil, lastAccepted) > Self.idle { (since, accepted) = (now, 0) }
    guard let rate else { return next = now }
    next = max(next, now - Self.catchUp) + .milliseconds(Int64((1000 / rate).rounded(.up)))
  }

  /// The provider accepted or refused a request for another reason than its rate.
  mutating func accepts(at now: Duration) {
    let passed = Double(max(.zero, now - lastAccepted).milliseconds) / 1000
    lastAccepted = now
    accepted += 1
    misses = 0
    guard let rate else { return }
    let growth = isGuess ? Self.guessGrowth : rate < ceiling * Self.slowBelow ? Self.slowGrowth : Self.fastGrowth
    self.rate = rate * (1 + min(growth.perSecond * passed, growth.perRequest))
  }

  /// The broker decided not to send the request after all.
  mutating func withdraws(at now: Duration) {
    guard let rate else { return }
    next = max(heldUntil, next - .milliseconds(Int64((1000 / rate).rounded(.up))))
  }

  /// The provider answered with 429. True: the first answer of a burst. The answer to a request that was sent during a hold,
  /// for a user or since a grant could end, does not show the rate.
  ///
  /// - Parameters:
  ///   - request: the number of the request that it answers.
  ///   - last: the number of the last request that was sent.
  mutating func limits(
    _ request: UInt64, last: UInt64, retryAfter: Duration?, at now: Duration, policy: RefreshPolicy
  ) -> Bool {
    let isNew = request > burst && now >= max(heldUntil, released)
    if isNew {
      (burst, limitedAt) = (last, now)
      let before = rate
      let elapsed = max(now - (since ?? now), .seconds(1))
      // More than twice the allowed rate uses up what was saved during the hold in less time than the hold.
      isGuess = before == nil || accepted > 0 && now - heldUntil < heldUntil - (since ?? now)
      let measured = Double(max(accepted, 1)) * 1000 / Double(elapsed.milliseconds)
      ceiling = isGuess ? min(measured, before ?? measured) : before ?? measured
      rate = max(isGuess ? ceiling : ceiling * Self.decrease, Self.lowest)
      (since, accepted) = (now, 0)
      misses += 1
    }
    let doubled = Self.shortestHold * (1 << min(max(misses - 1, 0), Self.mostDoublings))
    heldUntil = max(heldUntil, now + min(max(retryAfter ?? .zero, doubled), policy.longestRetryAfter))
    next = max(next, heldUntil)
    return isNew
  }

  /// A user requests an attempt now.
  public mutating func release(at now: Duration) {
    released = max(released, heldUntil)
    heldUntil = min(heldUntil, now)
    next = min(next, now)
  }
}
