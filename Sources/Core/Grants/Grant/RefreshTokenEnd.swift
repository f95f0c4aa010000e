public import OAuth

/// The expected end of a refresh token.
public struct RefreshTokenEnd: Sendable, Equatable {
  public var at: Timestamp
  /// The provider did not announce it: earlier grants of this provider ended at that age.
  public var isLearned: Bool

  public init(at: Timestamp, isLearned: Bool) {
    self.at = at
    self.isLearned = isLearned
  }
}

/// The lifetime of a provider's refresh tokens, learned from refused ones.
public struct LearnedLifetime: Sendable, Equatable, Codable {
  public private(set) var ends: [End] = []

  public struct End: Sendable, Equatable, Codable {
    /// In seconds.
    public var age: Int64
    public var at: Timestamp
  }

  /// The number of latest ends to keep.
  static let kept = 8
  /// Two ages that differ by at most this share are the same lifetime…
  static let agreement = 0.05
  /// …unless they ended within this share of it: then one event ended both.
  static let apart = 0.1
  /// A grant that ends sooner was ended deliberately.
  static let shortest: Int64 = 3600

  public init() {}

  /// A refresh token was refused at this age.
  public mutating func ended(atAge age: Duration, at now: Timestamp) {
    guard age.wholeSeconds >= Self.shortest else { return }
    ends = (ends + [End(age: age.wholeSeconds, at: now)]).suffix(Self.kept)
  }

  /// A refresh token of this age was accepted. True: a learned lifetime was wrong.
  public mutating func lived(toAge age: Duration) -> Bool {
    let count = ends.count
    ends.removeAll { Double($0.age) * (1 + Self.agreement) < Double(age.wholeSeconds) }
    return ends.count != count
  }

  /// The lifetime that at least two refresh tokens agree on.
  public var lifetime: Duration? {
    let sorted = ends.sorted { $0.age < $1.age }
    for (index, shorter) in sorted.enumerated() {
      let agrees = sorted[(index + 1)...].contains { longer in
        let between = max(longer.at - shorter.at, shorter.at - longer.at)
        return Double(longer.age - shorter.age) <= Double(longer.age) * Self.agreement
          && Double(between.wholeSeconds) >= Double(shorter.age) * Self.apart
      }
      if agrees { return .seconds(shorter.age) }
    }
    return nil
  }
}

extension Grant {
  /// The end of the refresh token: from the provider or its settings, or learned.
  public func refreshTokenEnd(learned: Duration?) -> RefreshTokenEnd? {
    guard saved.refreshToken != nil else { return nil }
    if let end = saved.refreshTokenExpiresAt { return RefreshTokenEnd(at: end, isLearned: false) }
    guard let learned else { return nil }
    return RefreshTokenEnd(at: (saved.refreshTokenIssuedAt ?? saved.loggedInAt) + learned, isLearned: true)
  }

  /// The time of the next notice to users about the refresh token's end: some time before it, and again on the last
  /// day. Nil: the notices were given, or no end is known.
  public func nextAnnouncement(learned: Duration?, policy: RefreshPolicy, at now: Timestamp) -> Timestamp? {
    if case .loginRequired = saved.standing { return nil }
    guard let end = refreshTokenEnd(learned: learned)?.at, end > now else { return nil }
    let issuedAt = saved.refreshTokenIssuedAt ?? saved.loggedInAt
    let notice = min(policy.expiryNotice, max(.zero, end - issuedAt).scaled(by: RefreshPolicy.largestNoticeShare))
    guard notice > .zero else { return nil }
    var moments = [end - notice]
    if notice > RefreshPolicy.lastNotice * 2 { moments.append(end - RefreshPolicy.lastNotice) }
    // A stored time in the future comes from a different clock.
    let told = saved.expiryAnnouncedAt.map { $0 > now + RefreshPolicy.clockTolerance ? nil : $0 } ?? nil
    // If the first notice is late, only the last one is given.
    let passed = moments.filter { $0 <= now }
    if let latest = passed.last, told.map({ $0 < latest }) ?? true { return latest }
    return moments.first { $0 > now }
  }

  /// The notice was given to users.
  public mutating func announced(at now: Timestamp) { saved.expiryAnnouncedAt = now }
}

extension RefreshPolicy {
  /// The notice period is at most this share of the refresh token's lifetime.
  static let largestNoticeShare = 0.25
  static let lastNotice = Duration.seconds(86_400)
}
