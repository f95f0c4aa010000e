public import OAuth

/// What one grant is doing: a state machine over `now`. It sends nothing, reads no clock and writes nothing; each event
/// is one method, and its outcome says what the broker does next. `saved` and `token` are what is on disk.
public struct Grant: Sendable {
  public internal(set) var saved: SavedGrant
  /// The current access token, committed; nil until the first is.
  public internal(set) var token: SavedToken?
  /// Tokens for fewer scopes or another resource, each by itself.
  public internal(set) var narrowed: [SavedToken.Key: Narrowed] = [:]
  /// Tokens that callers wait for, oldest request first.
  var wanted: [Wish] = []
  /// The asker whose token was requested last.
  var lastAsker = ""
  /// The provider refused a narrowed token in a way that may be about the whole grant. A refresh of the login's own token
  /// shows whether it is.
  var isDoubted = false
  public internal(set) var phase: Phase = .idle
  /// A request whose answer somebody did not want to wait for. Should it bring a token before a newer request has one, it
  /// is taken all the same: it may hold the only refresh token.
  var superseded: Attempt?
  /// The unanswered request that is on disk, if any.
  public internal(set) var intent: RefreshIntent?
  /// The generation that nobody gets any more: the provider no longer knows it, or it is another server's.
  public internal(set) var rejectedGeneration: Int64?
  /// Whether what is kept was stamped by the clock as this run of the broker knows it. What comes from the disk was
  /// stamped by a clock that may have been another's.
  var stamps = Stamps()
  /// Nil: the last refresh was not refused in a way that may be about the client.
  public internal(set) var refusals: Refusals?
  /// The last failure says something of the provider or the network, and nothing of this grant.
  public internal(set) var waitsForProvider: Bool
  /// A request of an earlier run had no answer, and its answer can still be asked for.
  var isUnfinished = false
  /// The refresh token of before was put in place of the current one.
  var fellBack = false
  /// The current refresh token came after a request that was never answered. Should that one arrive late, a provider that
  /// watches for reuse ends the grant.
  var followsUnanswered = false
  /// Where in its jitter window this token's refresh lies, from 0 to 1.
  var jitter: Double
  /// The number of the last attempt.
  public private(set) var attempts: UInt64 = 0

  public enum Phase: Sendable, Equatable {
    case idle
    /// The intent is being written, or the request is under way.
    case refreshing(Attempt)
    /// The request had no answer in time, which callers are told. An answer that comes late is taken still, and nothing
    /// else is sent before the exchange has ended: the refresh token may be spent.
    case overdue(Attempt, Failure)
    /// The answer is here and not yet on disk: nobody has seen it, and it must not be lost.
    case committing(Attempt, Renewal)
  }

  /// One refresh request. An answer carries it, so that a late one never overwrites newer state.
  public struct Attempt: Sendable, Hashable {
    public let number: UInt64
    /// Expiry counts from when the request was sent.
    public internal(set) var sentAt: Timestamp
    /// Empty where the grant needs none.
    public let refreshToken: Secret
    /// Which of the account's tokens it asks for.
    public let key: SavedToken.Key
    /// A token exchange (RFC 8693), which presents the access token: the refresh token is not spent.
    public let isExchange: Bool

    init(
      number: UInt64, sentAt: Timestamp, refreshToken: Secret, key: SavedToken.Key = .init(), isExchange: Bool = false
    ) {
      self.number = number
      self.sentAt = sentAt
      self.refreshToken = refreshToken
      self.key = key
      self.isExchange = isExchange
    }

    public static func == (lhs: Self, rhs: Self) -> Bool {
      lhs.number == rhs.number && lhs.refreshToken == rhs.refreshToken
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(number) }
  }

  struct Stamps: Sendable {
    var token = false
    var refreshToken = false
    /// Of the first unanswered request.
    var intent = false
  }

  /// What an answer makes of the grant, once committed.
  public struct Renewal: Sendable, Equatable {
    public var grant: SavedGrant
    /// Nil: the answer has none that can be used, but a new refresh token.
    public var token: SavedToken?
    /// Narrowed tokens that make room for it.
    public var dropped: [SavedToken.Key] = []
  }

  public init(
    saved: SavedGrant, token: SavedToken?, narrowed: [SavedToken] = [], intent: RefreshIntent? = nil, jitter: Double
  ) {
    self.saved = saved
    self.token = token
    for token in narrowed.prefix(Narrowed.most) { self.narrowed[token.key] = Narrowed(token: token) }
    self.intent = intent
    self.jitter = jitter
    waitsForProvider = if case .failing = saved.standing { true } else { false }
    // Ended for want of a refresh token: what is left of the token has expired or was rejected.
    if case .loginRequired(.noRefreshToken, _) = saved.standing { rejectedGeneration = token?.generation }
  }
}

// MARK: Attempts

extension Grant {
  /// Attempts get higher numbers than this one, which another grant of the same account may have used.
  public mutating func numbersAttempts(after number: UInt64) { attempts = max(attempts, number) }

  mutating func nextAttempt() -> UInt64 {
    attempts += 1
    return attempts
  }
}

// MARK: Asking for a token

extension Grant {
  /// What a caller gets now.
  public enum Answer: Sendable, Equatable {
    case token(SavedToken)
    /// A refresh is under way: ask again when it has ended.
    case wait
    /// Begin a refresh, then ask again.
    case refresh
    case loginRequired(LoginReason, Failure?)
    case misconfigured(Failure)
    /// The last refresh failed, and it is not yet time to try again.
    case temporarilyUnavailable(Failure, retryAt: Timestamp)
    /// The provider gives no token of this scope or resource.
    case refused(Failure)
    /// First the provider has to say whose token this is; nobody gets it before that.
    case unproven(SavedToken)
  }

  /// The grant was imported, and may be another person's than the account is.
  public var isUnproven: Bool { saved.kind == .unprovenImport }

  /// Answers a caller that wants a token with this much time left; nil: the policy's minimum.
  ///
  /// - Parameter unwanted: the generation that this caller must not get again; nil: it may have any.
  public func answer(
    minimumTTL: Duration?, at now: Timestamp, policy: RefreshPolicy, key: SavedToken.Key = .init(),
    unwanted: Int64? = nil
  ) -> Answer {
    let key = isUnproven ? SavedToken.Key() : key
    let token = self.token(for: key)
    if isUnproven, let token, isUsable(token, minimumTTL: nil, at: now, policy: policy) { return .unproven(token) }
    func lastResort(at now: Timestamp) -> Answer? { self.lastResort(at: now, key: key, unwanted: unwanted) }
    if let token, token.generation != unwanted, isUsable(token, minimumTTL: minimumTTL, at: now, policy: policy) {
      return .token(token)
    }
    switch phase {
    case .refreshing, .committing: return .wait
    case .overdue(_, let failure):
      return lastResort(at: now) ?? .temporarilyUnavailable(failure, retryAt: now + policy.retryDelays[0])
    case .idle: break
    }
    switch saved.standing {
    case .loginRequired(let reason, let failure): return lastResort(at: now) ?? .loginRequired(reason, failure)
    case .misconfigured(let failure): return lastResort(at: now) ?? .misconfigured(failure)
    case .failing(let failure, _, let retryAt) where policy.retry(of: failure, plannedFor: retryAt, at: now) > now:
      return lastResort(at: now) ?? .temporarilyUnavailable(failure, retryAt: retryAt)
    case .good, .failing: break
    }
    if let refusal = refusal(of: key, at: now) {
      if let token = lastResort(at: now) { return token }
      if refusal.isTemporary { return .temporarilyUnavailable(refusal.failure, retryAt: refusal.until) }
      return isDoubted && saved.isRenewable ? .refresh : .refused(refusal.failure)
    }
    guard saved.isRenewable else {
      return lastResort(at: now) ?? .loginRequired(.noRefreshToken, nil)
    }
    // A caller that wants another token than this one has it requested in any case.
    return (unwanted == nil ? stillborn(token, at: now) : nil) ?? .refresh
  }

  /// While the token is valid, a failing refresh is invisible: less time than asked for is better than none.
  public func lastResort(
    at now: Timestamp, key: SavedToken.Key = .init(), unwanted: Int64? = nil
  ) -> Answer? {
    guard !isUnproven, let token = token(for: key), token.generation != rejectedGeneration,
      token.generation != unwanted,
      token.expiresAt.map({ $0 > now }) ?? true
    else { return nil }
    return .token(token)
  }

  /// A token that was over as it came (`expires_in` of 0): the next one would be too, so callers do not each fetch one.
  private func stillborn(_ token: SavedToken?, at now: Timestamp) -> Answer? {
    guard let token, token.generation != rejectedGeneration, let expiresAt = token.expiresAt,
      expiresAt - token.issuedAt < RefreshPolicy.shortestLifetime, token.issuedAt <= now,
      // That of a login may be an exception: one refresh shows.
      token.issuedAt > saved.loggedInAt
    else { return nil }
    let retryAt = token.issuedAt + .seconds(5)
    guard now < retryAt, expiresAt <= now else { return nil }
    let message = "the provider's access tokens have expired as they come (expires_in)"
    return .temporarilyUnavailable(Failure(message: message, at: token.issuedAt), retryAt: retryAt)
  }

  func isUsable(
    _ token: SavedToken, minimumTTL: Duration?, at now: Timestamp, policy: RefreshPolicy
  ) -> Bool {
    guard token.generation != rejectedGeneration else { return false }
    guard let expiresAt = token.expiresAt else { return true }
    return expiresAt - policy.floor(minimumTTL, lifetime: expiresAt - token.issuedAt) > now
  }
}

// MARK: Time

extension Grant {
  /// When something is due; nil: nothing, until an event. Times on disk that lie in the future are from before the clock
  /// was set back, and do not count.
  public func nextMoment(policy: RefreshPolicy, at now: Timestamp) -> Timestamp? {
    guard phase == .idle else { return nil }
    let newest = now + RefreshPolicy.clockTolerance
    switch saved.standing {
    case .loginRequired: return secondTry
    case .failing(let failure, _, let retryAt): return policy.retry(of: failure, plannedFor: retryAt, at: now)
    case .misconfigured(let failure): return failure.at > newest ? now : failure.at + refusedPause
    case .good: break
    }
    if isUnfinished || isDoubted, saved.isRenewable { return now }
    guard let token else { return saved.isRenewable ? min(saved.createdAt, now) : nil }
    guard saved.isRenewable else { return token.expiresAt }
    return [mainMoment(token, policy: policy, at: now), narrowedMoment(policy: policy, at: now)?.moment]
      .compactMap(\.self).min()
  }

  /// When a refresh that was refused before the access token's end is tried once more: some servers refuse early refreshes,
  /// and some refuse a refresh token only for a while. Nil: no second try.
  var secondTry: Timestamp? {
    guard case .loginRequired(.refused, let failure) = saved.standing, saved.refreshToken != nil,
      !saved.kind.isUnattended, let end = token?.expiresAt, failure.at < end
    else { return nil }
    return end
  }

  /// When the login's own token should be refreshed, while the grant is good.
  func mainMoment(_ token: SavedToken, policy: RefreshPolicy, at now: Timestamp) -> Timestamp? {
    let moments = [
      policy.softRefresh(of: token, jitter: jitter),
      saved.refreshTokenExpiresAt.flatMap { policy.keepAlive(of: token, refreshTokenEnd: $0) },
    ]
    guard let moment = moments.compactMap(\.self).min() else { return nil }
    return token.issuedAt > now + RefreshPolicy.clockTolerance ? now : moment
  }

  /// How often a grant is tried whose provider refuses the client: somebody may have mended it over there.
  static let misconfiguredProbe = Duration.seconds(900)

  public enum Due: Sendable, Equatable {
    case nothing
    case refresh
    /// The last token ended and there is no way to get another: commit this.
    case ended(SavedGrant)
  }

  /// What the time asks for.
  public mutating func due(at now: Timestamp, policy: RefreshPolicy) -> Due {
    guard let moment = nextMoment(policy: policy, at: now), moment <= now else { return .nothing }
    guard !saved.isRenewable else { return .refresh }
    saved.standing = .loginRequired(
      .noRefreshToken, Failure(message: "the access token has expired and there is no refresh token", at: now))
    return .ended(saved)
  }
}
