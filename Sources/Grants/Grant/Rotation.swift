import OAuth

/// What a provider does with the old refresh token when it hands out a new one.
public enum Rotation: Sendable, Equatable {
  /// The same refresh token stays good, or the old one stays good beside the new.
  case none
  /// The old one is good for this long after its use.
  case grace(Duration)
  /// The old one is dead at once; its reuse may kill the grant.
  case strict

  /// As the configuration writes it.
  public var rule: String {
    switch self {
    case .none: "none"
    case .grace(let grace): "grace \(grace.wholeSeconds)s"
    case .strict: "strict"
    }
  }
}

/// When tokens are refreshed. Every rule of it is here, so that it can be read aloud.
public struct RefreshPolicy: Sendable, Equatable {
  /// A token is refreshed at this share of its lifetime…
  public var share: Double = 0.8
  /// …or this long before its end, whichever comes first…
  public var margin: Duration = .seconds(300)
  /// …but the margin takes at most this share of a short lifetime.
  public var largestMarginShare: Double = 0.5
  /// Each moment moves earlier by a random part of this share of the lifetime, so that accounts do not move in step.
  public var jitter: Double = 0.1
  /// What a caller's token has left at least, unless it asks for more.
  public var minimumTTL: Duration = .seconds(30)
  /// The waits after failed refreshes; the last one repeats.
  public var retryDelays: [Duration] = [.seconds(5), .seconds(15), .seconds(60), .seconds(300), .seconds(900)]
  /// No `Retry-After` is obeyed beyond this: callers wait for it, and the provider may be back sooner than it said.
  public var longestRetryAfter: Duration = .seconds(300)
  /// How many refreshes may be in flight at one provider.
  public var concurrentPerProvider: Int = 8
  /// So many requests in a row without an answer make an outage…
  public var outageThreshold: Int = 5
  /// …in which one request at a time is let through, after these waits; the last one repeats.
  public var probeDelays: [Duration] = [.seconds(5), .seconds(10), .seconds(20), .seconds(30)]
  /// One that has had no answer for so long leaves its place to another; its answer still counts.
  public var probePatience: Duration = .seconds(5)
  /// How long before its end people are told that a refresh token will end.
  public var expiryNotice: Duration = .seconds(7 * 86_400)

  public init() {}

  /// The wait after so many probes that failed.
  func probeDelay(_ probes: Int) -> Duration { probeDelays[min(probes, probeDelays.count - 1)] }
  /// The same if a caller waits: the shortest wait repeats, so a provider that answers again is found within it, and gets no
  /// more than twelve requests a minute until then.
  var wantedProbeDelay: Duration { probeDelay(0) }
  /// The wait if a caller waits and the last probe has no answer yet: each request that is stuck may cost a grant.
  func stuckProbeDelay(_ probes: Int) -> Duration { probeDelay(min(probes, 1)) }
}
