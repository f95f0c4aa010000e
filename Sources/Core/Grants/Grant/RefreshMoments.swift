public import OAuth

// The times that follow from the policy.
extension RefreshPolicy {
  /// The maximum share of a fresh token's lifetime that a caller can require; otherwise each call would refresh.
  static let largestFloorShare = 0.9

  /// The minimum remaining lifetime for a caller that requires `minimumTTL`; nil: the caller requires none.
  public func floor(_ wanted: Duration?, lifetime: Duration) -> Duration {
    guard let wanted else { return min(minimumTTL, lifetime.scaled(by: largestMarginShare)) }
    return max(.zero, min(wanted, lifetime.scaled(by: Self.largestFloorShare)))
  }

  /// A token with less time left is not returned: its `expires_in` would be 0.
  public static let shortestRest = Duration.seconds(1)
  /// A token with a shorter lifetime is treated as expired on arrival.
  static let shortestLifetime = Duration.seconds(2)
  /// The refresh delay of a token that had expired on arrival, or that the provider wants refreshed at once without a
  /// stated expiry.
  static let slowest = Duration.seconds(60)
  /// The assumed lifetime of an access token if neither the provider nor the settings specify it.
  static let assumedLifetime = Duration.seconds(3600)
  /// No token is refreshed before this share of its lifetime, regardless of the provider and the jitter.
  static let smallestShare = 0.1
  /// A backward clock change up to this size does not affect stored times.
  public static let clockTolerance = Duration.seconds(300)

  /// The time to refresh a token: the earliest of the provider's `refresh_in`, a share of the lifetime and a margin
  /// before its end, moved earlier by the jitter, but never so early that refreshes follow each other directly.
  public func softRefresh(of token: SavedToken, jitter position: Double) -> Timestamp? {
    guard let expiresAt = token.expiresAt else {
      let wanted = token.refreshAt ?? token.issuedAt + Self.assumedLifetime.scaled(by: share - jitter * position)
      return max(wanted, token.issuedAt + Self.slowest)
    }
    let lifetime = expiresAt - token.issuedAt
    guard lifetime >= Self.shortestLifetime else { return token.issuedAt + Self.slowest }
    let margin = min(self.margin, lifetime.scaled(by: largestMarginShare))
    let natural = min(token.issuedAt + lifetime.scaled(by: share), expiresAt - margin)
    let moment = min(natural, token.refreshAt ?? natural)
    let earliest = token.issuedAt + lifetime.scaled(by: Self.smallestShare)
    return max(earliest, moment - lifetime.scaled(by: jitter * position))
  }

  /// The time to refresh a valid access token because the refresh token ends first. This keeps the grant alive at a
  /// provider that extends the end with each refresh.
  func keepAlive(of token: SavedToken, refreshTokenEnd end: Timestamp) -> Timestamp? {
    let lifetime = end - token.issuedAt
    guard lifetime > .zero else { return nil }
    return max(token.issuedAt + lifetime.scaled(by: share), token.issuedAt + Self.slowest)
  }

  /// The time of a retry that was planned for this moment. It is now if the failure lies in the future or the delay
  /// exceeds all possible delays, since then the clock was set back.
  func retry(of failure: FailureRecord, plannedFor moment: Timestamp, at now: Timestamp) -> Timestamp {
    let longest = max(longestRetryAfter, retryDelays.max() ?? .zero)
    let isOfNow = failure.at - now <= Self.clockTolerance && moment - now <= longest + Self.clockTolerance
    return isOfNow ? moment : now
  }
}

// Tokens that were saved under another clock.
extension SavedToken {
  /// The token was issued after `now`, so the clock is wrong, or was: its remaining lifetime is unknown.
  public func isFromFuture(at now: Timestamp) -> Bool { issuedAt > now + RefreshPolicy.clockTolerance }

  /// The end of the token for callers: never later than its whole lifetime from now; nil: unknown.
  public func end(at now: Timestamp) -> Timestamp? { expiresAt.map { min($0, now + max(.zero, $0 - issuedAt)) } }
}
