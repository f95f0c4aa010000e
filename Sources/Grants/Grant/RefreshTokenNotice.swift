public import OAuth

extension Grant {
  /// After this moment the refresh token has ended or will within the notice that people are given of it; nil: no end of it
  /// is known.
  public func refreshTokenEndsSoonAfter(learned: Duration?, policy: RefreshPolicy) -> Timestamp? {
    guard let end = refreshTokenEnd(learned: learned)?.at else { return nil }
    let life = max(.zero, end - (saved.refreshTokenIssuedAt ?? saved.loggedInAt))
    return end - min(policy.expiryNotice, life.scaled(by: RefreshPolicy.largestNoticeShare))
  }
}
