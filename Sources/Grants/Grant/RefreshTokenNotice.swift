public import OAuth

extension Grant {
  /// Whether the refresh token has ended or will within the notice that people are given of it.
  public func refreshTokenEndsSoon(learned: Duration?, policy: RefreshPolicy, at now: Timestamp) -> Bool {
    guard let end = refreshTokenEnd(learned: learned)?.at else { return false }
    let life = max(.zero, end - (saved.refreshTokenIssuedAt ?? saved.loggedInAt))
    return end - now < min(policy.expiryNotice, life.scaled(by: RefreshPolicy.largestNoticeShare))
  }
}
