public import OAuth

extension Grant {
  /// After this time the refresh token has ended or is within its notice period; nil: no end is known.
  public func refreshTokenEndsSoonAfter(learned: Duration?, policy: RefreshPolicy) -> Timestamp? {
    guard let end = refreshTokenEnd(learned: learned)?.at else { return nil }
    let life = max(.zero, end - (saved.refreshTokenIssuedAt ?? saved.loggedInAt))
    return end - min(policy.expiryNotice, life.scaled(by: RefreshPolicy.largestNoticeShare))
  }
}
