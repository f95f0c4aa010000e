public import OAuth

/// The state machine of one grant over `now`. It does no I/O and reads no clock. Each event is a method, and its
/// outcome is the broker's next step. `saved` and `token` are the stored state.
public struct Grant: Sendable {
  public internal(set) var saved: SavedGrant
  /// The current committed access token; nil before the first.
  public internal(set) var token: SavedToken?
  /// Tokens for fewer scopes or another resource, independent of each other.
  public internal(set) var narrowed: [SavedToken.Key: Narrowed] = [:]
  /// Tokens that callers are waiting for, oldest request first.
  var wanted: [Wish] = []
  /// The requester whose token was requested last.
  var lastAsker = ""
  /// The provider refused a narrowed token with an error that may concern the whole grant. A refresh of the login's own
  /// token shows whether it does.
  var isDoubted = false
  public internal(set) var phase: Phase = .idle
  /// An overdue request that a caller did not wait for. A token in its response is still accepted if no newer request
  /// has one by then: it may be the only valid refresh token.
  var superseded: Attempt?
  /// The unanswered request on disk, if any.
  public internal(set) var intent: RefreshIntent?
  /// The generation that no caller may get: the provider no longer accepts it, or it is for another server.
  public internal(set) var rejectedGeneration: Int64?
  /// Which timestamps come from the clock of this run of the broker. Stored timestamps may come from a different clock.
  var stamps = Stamps()
  /// Nil: the last refresh was not refused with an error that may concern the client.
  public internal(set) var refusals: Refusals?
  /// The last failure concerns the provider or the network, not this grant.
  public internal(set) var waitsForProvider: Bool
  /// The earliest retry that a caller can cause, before the planned one: the provider was unreachable or unavailable, and
  /// named no later time. Nil: only the planned retry, as after a request without a response.
  var soonestRetry: Timestamp?
  /// Failures in a row since which another account of the provider was refreshed.
  var lonelyFailures: UInt8 = 0
  /// A request of an earlier run had no response, which can still be requested again.
  var isUnfinished = false
  /// The previous refresh token has replaced the current one.
  var fellBack = false
  /// The current refresh token was issued after a request that was never answered. If that request arrives late, a
  /// provider that detects reuse ends the grant.
  var followsUnanswered = false
  /// The result of the last refresh for the ID token, in memory only; nil: no refresh in this run.
  public internal(set) var lastIDToken: RefreshedIDToken?
  /// Callers that reported the current ID token, in memory only. Bounded by ``TokenReport/most``.
  var idTokenReporters: [Reporter] = []
  /// The position of this token's refresh in its jitter window, from 0 to 1.
  var jitter: Double
  /// The number of the last attempt.
  public private(set) var attempts: UInt64 = 0

  public enum Phase: Sendable, Equatable {
    case idle
    /// The intent is being written, or the request is in progress.
    case refreshing(Attempt)
    /// The response is overdue, and callers get this failure. A late response is still accepted. No other request is
    /// sent before the exchange ends: the refresh token may be used up.
    case overdue(Attempt, FailureRecord)
    /// The response arrived and is not yet on disk: no caller has seen it, and it must not be lost.
    case committing(Attempt, Renewal)
  }

  /// One refresh request. Its response carries it, so that a late one never overwrites newer state.
  public struct Attempt: Sendable, Hashable {
    public let number: UInt64
    /// The send time; lifetimes count from it.
    public internal(set) var sentAt: Timestamp
    /// Empty if the grant needs none.
    public let refreshToken: Secret
    /// The token of the account that is requested.
    public let key: SavedToken.Key
    /// A token exchange (RFC 8693) presents the access token and does not use the refresh token.
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
    /// For the first unanswered request.
    var intent = false
  }

  /// The grant after a response, once committed.
  public struct Renewal: Sendable, Equatable {
    public var grant: SavedGrant
    /// Nil: the response contains no usable token, only a new refresh token.
    public var token: SavedToken?
    /// Narrowed tokens that are dropped to make room.
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
    // The grant ended because it has no refresh token: its access token has expired or was rejected.
    if case .loginRequired(.noRefreshToken, _) = saved.standing { rejectedGeneration = token?.generation }
  }
}

// MARK: Attempts

extension Grant {
  /// New attempts get numbers above this one, which another grant of the same account may have used.
  public mutating func numbersAttempts(after number: UInt64) { attempts = max(attempts, number) }

  mutating func nextAttempt() -> UInt64 {
    attempts += 1
    return attempts
  }
}

// MARK: Asking for a token

extension Grant {
  /// The answer to a caller.
  public enum Answer: Sendable, Equatable {
    case token(SavedToken)
    /// A refresh is in progress: ask again when it has ended.
    case wait
    /// Begin a refresh, then ask again.
    case refresh
    case loginRequired(LoginReason, FailureRecord?)
    case misconfigured(FailureRecord)
    /// The last refresh failed, and the retry delay has not passed.
    case temporarilyUnavailable(FailureRecord, retryAt: Timestamp)
    /// The provider issues no token for this scope or resource.
    case refused(FailureRecord)
    /// The provider must first confirm the identity of this token; no caller gets it before.
    case unproven(SavedToken)
  }

  /// The grant was imported and may belong to another user than the account's.
  public var isUnproven: Bool { saved.kind == .unprovenImport }

  /// Answers a caller that wants a token with this much time left; nil: the policy's minimum.
  ///
  /// - Parameter unwanted: the generation that this caller must not get again; nil: any is allowed.
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
    case .loginRequired(let reason, let failure):
      if let token = lastResort(at: now) { return token }
      guard let moment = nextMoment(policy: policy, at: now) else { return .loginRequired(reason, failure) }
      if moment <= now { return .refresh }
      // A caller that cannot use the access token, such as one that reported it, does not wait for its end.
      return isSecondTrySoon ? .wait : .loginRequired(reason, failure)
    case .misconfigured(let failure): return lastResort(at: now) ?? .misconfigured(failure)
    case .failing(let failure, _, let planned) where policy.retry(of: failure, plannedFor: planned, at: now) > now:
      if let token = lastResort(at: now) { return token }
      let retryAt = soonestRetry.map { min($0, planned) } ?? planned
      guard retryAt <= now else { return .temporarilyUnavailable(failure, retryAt: retryAt) }
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
    // A caller that wants a different token always causes a request.
    return (unwanted == nil ? stillborn(token, at: now) : nil) ?? .refresh
  }

  /// A failed refresh is hidden while the token is valid: a shorter remaining lifetime than requested is better than an
  /// error.
  public func lastResort(
    at now: Timestamp, key: SavedToken.Key = .init(), unwanted: Int64? = nil
  ) -> Answer? {
    guard !isUnproven, let token = token(for: key), token.generation != rejectedGeneration,
      token.generation != unwanted,
      token.expiresAt.map({ $0 - now >= RefreshPolicy.shortestRest }) ?? true
    else { return nil }
    return .token(token)
  }

  /// A token that had expired on arrival (`expires_in` of 0). The next one would have too, so a request per caller is
  /// useless.
  private func stillborn(_ token: SavedToken?, at now: Timestamp) -> Answer? {
    guard let token, token.generation != rejectedGeneration, let expiresAt = token.expiresAt,
      expiresAt - token.issuedAt < RefreshPolicy.shortestLifetime, token.issuedAt <= now,
      // A login's token may be an exception: one refresh shows it.
      token.issuedAt > saved.loggedInAt
    else { return nil }
    let retryAt = token.issuedAt + .seconds(5)
    guard now < retryAt, expiresAt <= now else { return nil }
    let message = "the provider's access tokens have expired as they come (expires_in)"
    return .temporarilyUnavailable(FailureRecord(message: message, at: token.issuedAt), retryAt: retryAt)
  }

  func isUsable(
    _ token: SavedToken, minimumTTL: Duration?, at now: Timestamp, policy: RefreshPolicy
  ) -> Bool {
    guard token.generation != rejectedGeneration else { return false }
    guard let expiresAt = token.expiresAt else { return true }
    guard !token.isFromFuture(at: now), expiresAt - now >= RefreshPolicy.shortestRest else { return false }
    return expiresAt - policy.floor(minimumTTL, lifetime: expiresAt - token.issuedAt) > now
  }
}

// MARK: Time

extension Grant {
  /// The next time at which something is due; nil: nothing until an event. Stored times in the future are from before
  /// the clock was set back and are ignored.
  public func nextMoment(policy: RefreshPolicy, at now: Timestamp) -> Timestamp? {
    guard phase == .idle else { return nil }
    let newest = now + RefreshPolicy.clockTolerance
    switch saved.standing {
    // A failure of the future is from before the clock was set back.
    case .loginRequired(_, let failure): return failure.at > newest ? secondTry.map { min($0, now) } : secondTry
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

  /// The delay between the first refusal of a refresh token and the second attempt with it.
  static let secondTryDelay = Duration.seconds(2)

  /// The time of the second attempt with a refresh token that was refused once: after a delay, and not before the access
  /// token's end. Nil: no second attempt is due.
  var secondTry: Timestamp? {
    guard case .loginRequired(_, let failure) = saved.standing, saved.isRefusedOnce, let token else { return nil }
    let soonest = failure.at + Self.secondTryDelay
    guard token.generation != rejectedGeneration, let end = token.expiresAt else { return soonest }
    return max(end, soonest)
  }

  /// The refresh token was refused once, and is tried again after the access token's end. Only a second refusal ends the
  /// grant.
  public var awaitsSecondTry: Bool { secondTry != nil }

  /// The second attempt follows the first within seconds, so that callers wait for it.
  public var isSecondTrySoon: Bool {
    guard let secondTry, case .loginRequired(_, let failure) = saved.standing else { return false }
    return secondTry <= failure.at + Self.secondTryDelay
  }

  /// The time to refresh the login's own token if the grant is good.
  func mainMoment(_ token: SavedToken, policy: RefreshPolicy, at now: Timestamp) -> Timestamp? {
    let moments = [
      policy.softRefresh(of: token, jitter: jitter),
      saved.refreshTokenExpiresAt.flatMap { policy.keepAlive(of: token, refreshTokenEnd: $0) },
    ]
    guard let moment = moments.compactMap(\.self).min() else { return nil }
    return token.isFromFuture(at: now) ? now : moment
  }

  /// The retry interval if the provider refuses the client: its operator may have fixed the registration.
  static let misconfiguredProbe = Duration.seconds(900)

  public enum Due: Sendable, Equatable {
    case nothing
    case refresh
    /// The last token has expired and no new one can be obtained: commit this.
    case ended(SavedGrant)
  }

  /// The action that is due at this time.
  public mutating func due(at now: Timestamp, policy: RefreshPolicy) -> Due {
    guard let moment = nextMoment(policy: policy, at: now), moment <= now else { return .nothing }
    guard !saved.isRenewable else { return .refresh }
    saved.standing = .loginRequired(
      .noRefreshToken, FailureRecord(message: "the access token has expired and there is no refresh token", at: now))
    return .ended(saved)
  }
}
