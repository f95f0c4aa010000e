public import OAuth

// The moments that follow from the policy.
extension RefreshPolicy {
  /// No caller can ask for more than this share of what a fresh token offers, or each call would refresh.
  static let largestFloorShare = 0.9

  /// The time a token must have left for a caller that asks for `minimumTTL`; nil: it does not ask.
  public func floor(_ wanted: Duration?, lifetime: Duration) -> Duration {
    guard let wanted else { return min(minimumTTL, lifetime.scaled(by: largestMarginShare)) }
    return max(.zero, min(wanted, lifetime.scaled(by: Self.largestFloorShare)))
  }

  /// A token that lives for less is over as it comes.
  static let shortestLifetime = Duration.seconds(2)
  /// When a token is refreshed that is over as it comes, or whose provider wants it refreshed at once and says no end.
  static let slowest = Duration.seconds(60)
  /// The lifetime of an access token if neither the provider nor the settings tell it.
  static let assumedLifetime = Duration.seconds(3600)
  /// No token is refreshed before this share of its lifetime, whatever the provider and the jitter ask for.
  static let smallestShare = 0.1
  /// What the clock may step back without a doubt about the times on disk.
  static let clockTolerance = Duration.seconds(300)

  /// When a token should be refreshed: the earliest of the provider's wish, a share of the lifetime and a margin before
  /// its end, moved earlier by the jitter; but never so early that refreshes would follow each other.
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

  /// When to refresh a token that is still good because the refresh token beside it ends first: at a provider that
  /// gives a new end with each refresh, that keeps the grant alive.
  func keepAlive(of token: SavedToken, refreshTokenEnd end: Timestamp) -> Timestamp? {
    let lifetime = end - token.issuedAt
    guard lifetime > .zero else { return nil }
    return max(token.issuedAt + lifetime.scaled(by: share), token.issuedAt + Self.slowest)
  }

  /// When to try again what failed and was planned for this moment: at once where it failed in the future, or where no
  /// wait is that long, since then the clock has stepped back.
  func retry(of failure: Failure, plannedFor moment: Timestamp, at now: Timestamp) -> Timestamp {
    let longest = max(longestRetryAfter, retryDelays.max() ?? .zero)
    let isOfNow = failure.at - now <= Self.clockTolerance && moment - now <= longest + Self.clockTolerance
    return isOfNow ? moment : now
  }
}
