public import OAuth

/// When a refresh token will end, as far as that is known.
public struct RefreshTokenEnd: Sendable, Equatable {
  public var at: Timestamp
  /// Nobody said so: grants of this provider have ended at that age before.
  public var isLearned: Bool

  public init(at: Timestamp, isLearned: Bool) {
    self.at = at
    self.isLearned = isLearned
  }
}

/// How old a provider's refresh tokens get, learned from those that it refused.
public struct LearnedLifetime: Sendable, Equatable, Codable {
  public private(set) var ends: [End] = []

  public struct End: Sendable, Equatable, Codable {
    /// In seconds.
    public var age: Int64
    public var at: Timestamp
  }

  /// The latest ones are kept.
  static let kept = 8
  /// Two ages that differ by no more than this share are the same lifetime…
  static let agreement = 0.05
  /// …unless they came within this share of it: then one event ended both.
  static let apart = 0.1
  /// A grant that ends sooner was ended by somebody.
  static let shortest: Int64 = 3600

  public init() {}

  /// A refresh token was refused at this age.
  public mutating func ended(atAge age: Duration, at now: Timestamp) {
    guard age.wholeSeconds >= Self.shortest else { return }
    ends = (ends + [End(age: age.wholeSeconds, at: now)]).suffix(Self.kept)
  }

  /// A refresh token of this age was taken. True: something that was learned is no longer so.
  public mutating func lived(toAge age: Duration) -> Bool {
    let count = ends.count
    ends.removeAll { Double($0.age) * (1 + Self.agreement) < Double(age.wholeSeconds) }
    return ends.count != count
  }

  /// The lifetime that two refresh tokens or more agree on.
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
  /// When the refresh token will end: as the provider or its settings say, or as was learned.
  public func refreshTokenEnd(learned: Duration?) -> RefreshTokenEnd? {
    guard saved.refreshToken != nil else { return nil }
    if let end = saved.refreshTokenExpiresAt { return RefreshTokenEnd(at: end, isLearned: false) }
    guard let learned else { return nil }
    return RefreshTokenEnd(at: (saved.refreshTokenIssuedAt ?? saved.loggedInAt) + learned, isLearned: true)
  }

  /// The next moment at which people are told of the refresh token's end: some time before, and once more on its last
  /// day. Nil: they have been told, or there is nothing to tell.
  public func nextAnnouncement(learned: Duration?, policy: RefreshPolicy, at now: Timestamp) -> Timestamp? {
    if case .loginRequired = saved.standing { return nil }
    guard let end = refreshTokenEnd(learned: learned)?.at, end > now else { return nil }
    let issuedAt = saved.refreshTokenIssuedAt ?? saved.loggedInAt
    let notice = min(policy.expiryNotice, max(.zero, end - issuedAt).scaled(by: RefreshPolicy.largestNoticeShare))
    guard notice > .zero else { return nil }
    var moments = [end - notice]
    if notice > RefreshPolicy.lastNotice * 2 { moments.append(end - RefreshPolicy.lastNotice) }
    // One that is kept from a time that has not come yet was kept by another clock.
    let told = saved.expiryAnnouncedAt.map { $0 > now + RefreshPolicy.clockTolerance ? nil : $0 } ?? nil
    // Whoever was late to tell the first tells the last alone.
    let passed = moments.filter { $0 <= now }
    if let latest = passed.last, told.map({ $0 < latest }) ?? true { return latest }
    return moments.first { $0 > now }
  }

  /// People were told.
  public mutating func announced(at now: Timestamp) { saved.expiryAnnouncedAt = now }
}

extension RefreshPolicy {
  /// The notice is no longer than this share of the refresh token's life.
  static let largestNoticeShare = 0.25
  static let lastNotice = Duration.seconds(86_400)
}
