import OAuth

/// The provider's treatment of the old refresh token after it issues a new one.
public enum Rotation: Sendable, Equatable {
  /// The refresh token stays the same, or both the old and the new one stay valid.
  case none
  /// The old token is valid for this long after its use.
  case grace(Duration)
  /// The old token is invalid at once; its reuse may end the grant.
  case strict

  /// In the format of the configuration.
  public var rule: String {
    switch self {
    case .none: "none"
    case .grace(let grace): "grace \(grace.wholeSeconds)s"
    case .strict: "strict"
    }
  }
}

/// When tokens are refreshed. All rules are here.
public struct RefreshPolicy: Sendable, Equatable {
  /// A token is refreshed at this share of its lifetime…
  public var share: Double = 0.8
  /// …or this long before its end if that is earlier…
  public var margin: Duration = .seconds(300)
  /// …but the margin takes at most this share of a short lifetime.
  public var largestMarginShare: Double = 0.5
  /// Each refresh moves earlier by a random part of this share of the lifetime, so that accounts do not refresh
  /// simultaneously.
  public var jitter: Double = 0.1
  /// The minimum remaining lifetime of a caller's token, unless it requires more.
  public var minimumTTL: Duration = .seconds(30)
  /// The delays after failed refreshes; the last one repeats.
  public var retryDelays: [Duration] = [.seconds(5), .seconds(15), .seconds(60), .seconds(300), .seconds(900)]
  /// The maximum `Retry-After` that is respected: callers wait for it, and the provider may recover earlier.
  public var longestRetryAfter: Duration = .seconds(300)
  /// The maximum number of concurrent refreshes at one provider.
  public var concurrentPerProvider: Int = 8
  /// This number of consecutive requests without a response is an outage…
  public var outageThreshold: Int = 5
  /// …in which one request at a time is sent, after these delays; the last one repeats.
  public var probeDelays: [Duration] = [.seconds(5), .seconds(10), .seconds(20), .seconds(30)]
  /// After this time without a response another probe may be sent; a response to the first one is still accepted.
  public var probePatience: Duration = .seconds(5)
  /// The notice period before a refresh token ends.
  public var expiryNotice: Duration = .seconds(7 * 86_400)

  public init() {}

  /// The delay after this number of failed probes.
  func probeDelay(_ probes: Int) -> Duration { probeDelays[min(probes, probeDelays.count - 1)] }
  /// The same if a caller is waiting: the shortest delay repeats, so that a recovered provider is detected within it
  /// and gets at most twelve requests a minute until then.
  var wantedProbeDelay: Duration { probeDelay(0) }
  /// The delay if a caller is waiting and the last probe has no response yet: each stuck request may cost a grant.
  func stuckProbeDelay(_ probes: Int) -> Duration { probeDelay(min(probes, 1)) }
}
