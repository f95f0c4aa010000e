/// The meaning of an error at the token endpoint while the user has not answered (RFC 8628 §3.5).
public enum DevicePoll: Sendable, Equatable {
  /// The user has not decided: poll again after the interval.
  case pending(Duration)
  /// Polled too often: the interval is permanently longer from now on.
  case slowDown(Duration)
  /// The user denied the request.
  case denied(OAuthError)
  /// The code has expired: a new one is needed.
  case expired
  /// A permanent error.
  case failed(ResponseError)
  /// The server is unavailable: poll again after this delay. The interval does not change.
  case backOff(Duration, ResponseError)

  /// The increase of the interval after `slow_down` (RFC 8628 §3.5).
  public static let slowDownStep = Duration.seconds(5)
  /// The longest interval, regardless of the number of `slow_down` errors and of `Retry-After`; and the longest delay
  /// in an outage without a `Retry-After`.
  public static let longestInterval = Duration.seconds(300)
  public static let longestBackOff = Duration.seconds(60)

  /// - Parameter interval: of the last poll.
  public static func next(_ error: ResponseError, interval: Duration) -> DevicePoll {
    switch error {
    case .oauth(let refusal, _, let wait): return next(refusal, error, interval: interval, wait: wait)
    case .nonConforming(let status, let mediaType, _, let wait):
      if status == 408 || status == 429 || status >= 500 || mediaType == "text/html" && status != 404 {
        return .backOff(longer(interval, wait), error)
      }
      // Some servers return only an HTTP status for an expired code.
      return status == 404 || status == 410 ? .expired : .failed(error)
    case .redirect: return .backOff(longer(interval, nil), error)
    case .issuerMismatch, .subjectMismatch: return .failed(error)
    }
  }

  /// The delay after a poll without a response (RFC 8628 §3.5: exponential backoff).
  ///
  /// - Parameter failures: the number of consecutive failed polls, including this one.
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
    // Some servers do not use `expired_token`.
    case .expiredToken, .invalidGrant: .expired
    case .temporarilyUnavailable, .serverError: .backOff(longer(interval, wait), error)
    default: error.status == 429 ? .backOff(longer(interval, wait), error) : .failed(error)
    }
  }

  private static func longer(_ interval: Duration, _ wait: Duration?) -> Duration {
    max(wait ?? min(interval * 2, longestBackOff), interval)
  }
}
