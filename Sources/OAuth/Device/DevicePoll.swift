/// What a refusal at the token endpoint means while a person has not yet answered (RFC 8628 §3.5).
public enum DevicePoll: Sendable, Equatable {
  /// The person has not decided: ask again after the interval.
  case pending(Duration)
  /// Asked too often: the interval is longer from now on, for good.
  case slowDown(Duration)
  /// The person said no.
  case denied(OAuthError)
  /// The code's time is over: another one is needed.
  case expired
  /// Nothing that time would mend.
  case failed(ResponseError)
  /// The server is out of order: ask again after this long. The interval stays as it was.
  case backOff(Duration)

  /// What `slow_down` adds to the interval (RFC 8628 §3.5).
  public static let slowDownStep = Duration.seconds(5)
  /// The longest interval, however often a server says `slow_down` and whatever `Retry-After` stands beside it; and the
  /// longest wait in an outage without a `Retry-After`.
  public static let longestInterval = Duration.seconds(300)
  public static let longestBackOff = Duration.seconds(60)

  /// - Parameter interval: the one that the last poll had.
  public static func next(_ error: ResponseError, interval: Duration) -> DevicePoll {
    switch error {
    case .oauth(let refusal, _, let wait): return next(refusal, error, interval: interval, wait: wait)
    case .nonConforming(let status, let mediaType, _, let wait):
      if status == 408 || status == 429 || status >= 500 || mediaType == "text/html" && status != 404 {
        return .backOff(longer(interval, wait))
      }
      // Some servers no longer know a code whose time is over, and say so in HTTP's words.
      return status == 404 || status == 410 ? .expired : .failed(error)
    case .redirect: return .backOff(longer(interval, nil))
    case .issuerMismatch, .subjectMismatch: return .failed(error)
    }
  }

  /// How long to wait where no answer came (RFC 8628 §3.5: exponentially longer).
  ///
  /// - Parameter failures: how many polls have failed in a row, this one included.
  public static func afterSilence(interval: Duration, failures: Int) -> Duration {
    var wait = interval
    for _ in 0..<min(max(failures, 1), 8) where wait < longestBackOff { wait = wait * 2 }
    return max(min(wait, longestBackOff), interval)
  }

  private static func next(
    _ refusal: OAuthError, _ error: ResponseError, interval: Duration, wait: Duration?
  ) -> DevicePoll {
    switch refusal.code {
    case .authorizationPending: .pending(max(interval, min(wait ?? .zero, longestInterval)))
    case .slowDown: .slowDown(max(interval, min(max(interval + slowDownStep, wait ?? .zero), longestInterval)))
    case .accessDenied: .denied(refusal)
    // Some servers know no `expired_token`.
    case .expiredToken, .invalidGrant: .expired
    case .temporarilyUnavailable, .serverError: .backOff(longer(interval, wait))
    default: error.status == 429 ? .backOff(longer(interval, wait)) : .failed(error)
    }
  }

  private static func longer(_ interval: Duration, _ wait: Duration?) -> Duration {
    max(wait ?? min(interval * 2, longestBackOff), interval)
  }
}
