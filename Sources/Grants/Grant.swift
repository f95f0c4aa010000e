public import OAuth

/// What one grant is doing: a state machine over `now`. It sends nothing, reads no clock and writes nothing; each event
/// is one method, and its outcome says what the broker does next. `saved` and `token` are what is on disk.
public struct Grant: Sendable {
  public private(set) var saved: SavedGrant
  /// The current access token, committed; nil until the first is.
  public private(set) var token: SavedToken?
  public private(set) var phase: Phase = .idle
  /// The unanswered request that is on disk, if any.
  public private(set) var intent: RefreshIntent?
  /// The generation that a resource server refused: no longer handed out.
  public private(set) var rejectedGeneration: Int64?
  /// Where in its jitter window this token's refresh lies, from 0 to 1.
  private var jitter: Double
  private var attempts: UInt64 = 0

  public enum Phase: Sendable, Equatable {
    case idle
    /// The intent is being written, or the request is under way.
    case refreshing(Attempt)
    /// The answer is here and not yet on disk: nobody has seen it, and it must not be lost.
    case committing(Attempt, Renewal)
  }

  /// One refresh request. An answer carries it, so that a late one never overwrites newer state.
  public struct Attempt: Sendable, Hashable {
    public let number: UInt64
    /// Expiry counts from when the request was sent.
    public let sentAt: Timestamp
    public let refreshToken: Secret
  }

  /// What an answer makes of the grant, once committed.
  public struct Renewal: Sendable, Equatable {
    public var grant: SavedGrant
    public var token: SavedToken
  }

  public init(saved: SavedGrant, token: SavedToken?, intent: RefreshIntent? = nil, jitter: Double) {
    self.saved = saved
    self.token = token
    self.intent = intent
    self.jitter = jitter
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
  }

  /// Answers a caller that wants a token with this much time left; nil: the policy's minimum.
  public func answer(minimumTTL: Duration?, at now: Timestamp, policy: RefreshPolicy) -> Answer {
    if let token, isUsable(token, minimumTTL: minimumTTL, at: now, policy: policy) { return .token(token) }
    switch phase {
    case .refreshing, .committing: return .wait
    case .idle: break
    }
    switch saved.standing {
    case .loginRequired(let reason, let failure): return .loginRequired(reason, failure)
    case .misconfigured(let failure): return lastResort(at: now) ?? .misconfigured(failure)
    case .failing(let failure, _, let retryAt) where retryAt > now:
      return lastResort(at: now) ?? .temporarilyUnavailable(failure, retryAt: retryAt)
    case .good, .failing: break
    }
    guard saved.refreshToken != nil else {
      return lastResort(at: now) ?? .loginRequired(.noRefreshToken, nil)
    }
    return .refresh
  }

  /// While the token is valid, a failing refresh is invisible: less time than asked for is better than none.
  public func lastResort(at now: Timestamp) -> Answer? {
    guard let token, token.generation != rejectedGeneration, token.expiresAt.map({ $0 > now }) ?? true else {
      return nil
    }
    return .token(token)
  }

  private func isUsable(
    _ token: SavedToken, minimumTTL: Duration?, at now: Timestamp, policy: RefreshPolicy
  ) -> Bool {
    guard token.generation != rejectedGeneration else { return false }
    guard let expiresAt = token.expiresAt else { return true }
    return expiresAt - policy.floor(minimumTTL, lifetime: expiresAt - token.issuedAt) > now
  }
}

extension RefreshPolicy {
  /// No caller can ask for more than this share of what a fresh token offers, or each call would refresh.
  static let largestFloorShare = 0.9

  /// The time a token must have left for a caller that asks for `minimumTTL`; nil: it does not ask.
  public func floor(_ wanted: Duration?, lifetime: Duration) -> Duration {
    guard let wanted else { return min(minimumTTL, lifetime.scaled(by: largestMarginShare)) }
    return max(.zero, min(wanted, lifetime.scaled(by: Self.largestFloorShare)))
  }

  /// When a token should be refreshed: the earliest of the provider's wish, a share of the lifetime and a margin before
  /// its end, moved earlier by the jitter.
  public func softRefresh(of token: SavedToken, jitter position: Double) -> Timestamp? {
    guard let expiresAt = token.expiresAt else { return token.refreshAt }
    let lifetime = expiresAt - token.issuedAt
    let margin = min(self.margin, lifetime.scaled(by: largestMarginShare))
    let natural = min(token.issuedAt + lifetime.scaled(by: share), expiresAt - margin)
    let moment = min(natural, token.refreshAt ?? natural)
    return max(token.issuedAt, moment - lifetime.scaled(by: jitter * position))
  }
}

// MARK: Time

extension Grant {
  /// When something is due; nil: nothing, until an event.
  public func nextMoment(policy: RefreshPolicy) -> Timestamp? {
    guard phase == .idle else { return nil }
    switch saved.standing {
    case .loginRequired: return nil
    case .failing(_, _, let retryAt): return retryAt
    case .misconfigured(let failure): return failure.at + Self.misconfiguredProbe
    case .good: break
    }
    guard let token else { return saved.refreshToken == nil ? nil : saved.createdAt }
    guard saved.refreshToken != nil else { return token.expiresAt }
    return policy.softRefresh(of: token, jitter: jitter)
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
    guard let moment = nextMoment(policy: policy), moment <= now else { return .nothing }
    guard saved.refreshToken == nil else { return .refresh }
    saved.standing = .loginRequired(
      .noRefreshToken, Failure(message: "the access token has expired and there is no refresh token", at: now))
    return .ended(saved)
  }
}

// MARK: Refreshing

extension Grant {
  public enum Begin: Sendable, Equatable {
    /// Commit the intent, then send.
    case begun(Attempt, RefreshIntent)
    case already
    case impossible
  }

  /// Begins a refresh, unless one is under way: one at a time for each grant.
  public mutating func beginRefresh(at now: Timestamp) -> Begin {
    guard phase == .idle else { return .already }
    if case .loginRequired = saved.standing { return .impossible }
    guard let refreshToken = saved.refreshToken else { return .impossible }
    attempts += 1
    let attempt = Attempt(number: attempts, sentAt: now, refreshToken: refreshToken)
    phase = .refreshing(attempt)
    let hash = refreshToken.fingerprint
    let before = intent.map { $0.refreshTokenHash == hash ? $0.attempts : 0 } ?? 0
    let intent = RefreshIntent(
      account: saved.account, refreshTokenHash: hash, sentAt: now, attempts: before + 1)
    self.intent = intent
    return .begun(attempt, intent)
  }

  public enum Answered: Sendable, Equatable {
    /// Commit this, then call ``committed(_:jitter:)``; until then nobody sees it.
    case commit(Renewal)
    /// A newer login took its place, or the account is gone.
    case discard
  }

  /// The provider granted a new token.
  public mutating func answered(
    _ attempt: Attempt, _ issued: Issued, rotation: Rotation, refreshTokenLifetime: Duration?
  ) -> Answered {
    guard phase == .refreshing(attempt) else { return .discard }
    let tokens = issued.tokens
    var grant = saved
    // Absent or empty: the old one stays good (RFC 6749 §6).
    if let rotated = tokens.refreshToken, !rotated.isEmpty, rotated != attempt.refreshToken {
      grant.previousRefreshToken = if case .grace = rotation { attempt.refreshToken } else { nil }
      grant.refreshToken = rotated
    }
    if let lifetime = tokens.refreshTokenExpiresIn ?? refreshTokenLifetime {
      grant.refreshTokenExpiresAt = attempt.sentAt + lifetime
    }
    if let scope = tokens.scope { grant.grantedScopes = scope }
    if let idToken = issued.idToken { grant.idToken = idToken }
    if let identity = issued.identity { grant.identity = identity }
    if !tokens.extra.isEmpty { grant.extra = tokens.extra }
    grant.generation += 1
    grant.standing = .good
    let renewal = Renewal(
      grant: grant, token: SavedToken(tokens, grant: grant, issuedAt: attempt.sentAt))
    phase = .committing(attempt, renewal)
    return .commit(renewal)
  }

  /// The renewal is on disk. False: it was discarded meanwhile.
  public mutating func committed(_ attempt: Attempt, jitter: Double) -> Bool {
    guard case .committing(let current, let renewal) = phase, current == attempt else { return false }
    saved = renewal.grant
    token = renewal.token
    intent = nil
    rejectedGeneration = nil
    self.jitter = jitter
    phase = .idle
    return true
  }

  public enum Failed: Sendable, Equatable {
    /// Commit this; `clear`: the provider certainly did not act, so the intent goes as well.
    case retry(SavedGrant, at: Timestamp, clear: Bool)
    case ended(SavedGrant, LoginReason)
    case misconfigured(SavedGrant)
    case discard
  }

  /// The refresh failed.
  public mutating func failed(
    _ attempt: Attempt, _ failure: ProviderFailure, at now: Timestamp, policy: RefreshPolicy, jitter: Double,
    rotation: Rotation = .strict
  ) -> Failed {
    guard phase == .refreshing(attempt) else { return .discard }
    phase = .idle
    let told = Failure(message: failure.message, oauth: failure.oauth, at: now)
    switch failure {
    case .ended(let reason, _, _):
      if reason == .refused, let retry = fallBack(told, at: now, rotation: rotation) { return retry }
      // An earlier request with this refresh token had no answer: it may have been the rotation that we never saw.
      let lost = reason == .refused && rotation != .none && (intent?.attempts ?? 1) > 1
      let final = lost ? LoginReason.lostRotation : reason
      saved.standing = .loginRequired(final, told)
      intent = nil
      return .ended(saved, final)
    case .misconfigured:
      saved.standing = .misconfigured(told)
      intent = nil
      return .misconfigured(saved)
    case .tryLater(_, _, let retryAfter):
      return retry(told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: false)
    case .unclear(_, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: true, rotation: rotation)
    case .lost, .invalid:
      return retry(told, at: now, policy: policy, jitter: jitter, retryAfter: nil, acted: true, rotation: rotation)
    case .notSent:
      return retry(told, at: now, policy: policy, jitter: jitter, retryAfter: nil, acted: false)
    }
  }

  /// A provider with a grace still takes the refresh token before the current one, for that long: where it refuses the
  /// current one, that one is tried once.
  private mutating func fallBack(_ failure: Failure, at now: Timestamp, rotation: Rotation) -> Failed? {
    guard case .grace(let grace) = rotation, let previous = saved.previousRefreshToken,
      let rotatedAt = token?.issuedAt, now - rotatedAt < grace
    else { return nil }
    saved.refreshToken = previous
    saved.previousRefreshToken = nil
    saved.standing = .failing(failure, count: 1, retryAt: now)
    intent = nil
    return .retry(saved, at: now, clear: true)
  }

  private mutating func retry(
    _ failure: Failure, at now: Timestamp, policy: RefreshPolicy, jitter: Double, retryAfter: Duration?, acted: Bool,
    rotation: Rotation = .strict
  ) -> Failed {
    let count = if case .failing(_, let count, _) = saved.standing { count + 1 } else { 1 }
    let planned = policy.retryDelays[min(count, policy.retryDelays.count) - 1]
    var wait = planned.scaled(by: 1 - policy.jitter * jitter)
    // A rotation whose answer was lost can be asked for again while the old refresh token is still taken.
    if acted, case .grace(let grace) = rotation { wait = min(wait, grace.scaled(by: 0.5)) }
    wait = max(wait, min(retryAfter ?? .zero, policy.longestRetryAfter))
    let retryAt = now + wait
    saved.standing = .failing(failure, count: count, retryAt: retryAt)
    var clear = false
    if !acted, var intent {
      // This request certainly changed nothing; whether an earlier one did is as open as before.
      intent.attempts -= 1
      self.intent = intent.attempts > 0 ? intent : nil
      clear = intent.attempts == 0
    }
    return .retry(saved, at: retryAt, clear: clear)
  }
}

// MARK: Other events

extension Grant {
  public enum Rejected: Sendable, Equatable {
    /// A newer token is there already.
    case stale
    /// Begin a refresh, or wait for the one under way.
    case refresh
    /// There is no way to get another: commit this.
    case ended(SavedGrant)
  }

  /// A resource server refused the token of this generation. Only the current one matters.
  public mutating func rejected(generation: Int64, at now: Timestamp) -> Rejected {
    guard generation == saved.generation else { return .stale }
    rejectedGeneration = generation
    guard saved.refreshToken == nil else { return .refresh }
    saved.standing = .loginRequired(
      .noRefreshToken, Failure(message: "the access token was refused and there is no refresh token", at: now))
    return .ended(saved)
  }

  /// A person signed in again: what was under way no longer matters.
  public mutating func replaced(by saved: SavedGrant, token: SavedToken, jitter: Double) {
    self.saved = saved
    self.token = token
    self.jitter = jitter
    intent = nil
    rejectedGeneration = nil
    phase = .idle
  }

  /// The provider's settings changed, or its network is back: try now what waits.
  public mutating func retryNow(at now: Timestamp) {
    switch saved.standing {
    case .failing(let failure, let count, _): saved.standing = .failing(failure, count: count, retryAt: now)
    case .misconfigured(let failure): saved.standing = .failing(failure, count: 0, retryAt: now)
    case .good, .loginRequired: break
    }
  }
}

extension SavedToken {
  /// The token of a response, as part of a grant.
  public init(_ tokens: TokenResponse, grant: SavedGrant, issuedAt: Timestamp) {
    self.init(
      account: grant.account, accessToken: tokens.accessToken, type: tokens.tokenType, scopes: grant.grantedScopes,
      generation: grant.generation, issuedAt: issuedAt, expiresAt: tokens.expiresIn.map { issuedAt + $0 },
      refreshAt: tokens.refreshIn.map { issuedAt + $0 })
  }
}
