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
    // Ended for want of a refresh token: what is left of the token has expired or was rejected.
    if case .loginRequired(.noRefreshToken, _) = saved.standing { rejectedGeneration = token?.generation }
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
    case .loginRequired(let reason, let failure): return lastResort(at: now) ?? .loginRequired(reason, failure)
    case .misconfigured(let failure): return lastResort(at: now) ?? .misconfigured(failure)
    case .failing(let failure, _, let retryAt) where policy.retry(plannedFor: retryAt, at: now) > now:
      return lastResort(at: now) ?? .temporarilyUnavailable(failure, retryAt: retryAt)
    case .good, .failing: break
    }
    guard saved.refreshToken != nil else {
      return lastResort(at: now) ?? .loginRequired(.noRefreshToken, nil)
    }
    return stillborn(at: now) ?? .refresh
  }

  /// While the token is valid, a failing refresh is invisible: less time than asked for is better than none.
  public func lastResort(at now: Timestamp) -> Answer? {
    guard let token, token.generation != rejectedGeneration, token.expiresAt.map({ $0 > now }) ?? true else {
      return nil
    }
    return .token(token)
  }

  /// A token that was over as it came (`expires_in` of 0): the next one would be too, so callers do not each fetch one.
  private func stillborn(at now: Timestamp) -> Answer? {
    guard let token, token.generation != rejectedGeneration, let expiresAt = token.expiresAt,
      expiresAt - token.issuedAt < RefreshPolicy.shortestLifetime, token.issuedAt <= now
    else { return nil }
    let retryAt = token.issuedAt + .seconds(5)
    guard now < retryAt, expiresAt <= now else { return nil }
    let message = "the provider's access tokens have expired as they come (expires_in)"
    return .temporarilyUnavailable(Failure(message: message, at: token.issuedAt), retryAt: retryAt)
  }

  private func isUsable(
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
    case .loginRequired: return nil
    case .failing(_, _, let retryAt): return policy.retry(plannedFor: retryAt, at: now)
    case .misconfigured(let failure): return failure.at > newest ? now : failure.at + Self.misconfiguredProbe
    case .good: break
    }
    guard let token else { return saved.refreshToken == nil ? nil : min(saved.createdAt, now) }
    guard saved.refreshToken != nil else { return token.expiresAt }
    guard let moment = policy.softRefresh(of: token, jitter: jitter) else { return nil }
    return token.issuedAt > newest ? now : moment
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
    let first = before > 0 ? intent?.sentAt : nil
    let intent = RefreshIntent(
      account: saved.account, refreshTokenHash: hash, sentAt: first ?? now, attempts: before + 1)
    self.intent = intent
    return .begun(attempt, intent)
  }

  /// The request goes out now: what its answer's lifetimes count from. Nil: it is no longer wanted.
  public mutating func sends(_ attempt: Attempt, at now: Timestamp) -> Attempt? {
    guard phase == .refreshing(attempt) else { return nil }
    let sent = Attempt(number: attempt.number, sentAt: now, refreshToken: attempt.refreshToken)
    phase = .refreshing(sent)
    return sent
  }

  /// The request never went out, by our own choice: as if it had not begun.
  public mutating func withdrawn(_ attempt: Attempt) {
    guard phase == .refreshing(attempt) else { return }
    phase = .idle
    takeBackIntent()
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
    // Absent or empty: the old one stays good (RFC 6749 §6), until the end that it has.
    if let rotated = tokens.refreshToken, !rotated.isEmpty, rotated != attempt.refreshToken {
      grant.previousRefreshToken = if case .grace = rotation { attempt.refreshToken } else { nil }
      grant.refreshToken = rotated
      grant.refreshTokenExpiresAt = refreshTokenLifetime.map { attempt.sentAt + $0 }
    }
    if let lifetime = tokens.refreshTokenExpiresIn { grant.refreshTokenExpiresAt = attempt.sentAt + lifetime }
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
      takeBackIntent()
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
    // A rotation whose answer was lost can be asked for again while the old refresh token is still taken; after that
    // there is nothing to hurry for.
    if acted, case .grace(let grace) = rotation, let first = intent?.sentAt, first <= now, now - first < grace {
      wait = min(wait, grace.scaled(by: 0.5))
    }
    wait = max(wait, min(retryAfter ?? .zero, policy.longestRetryAfter))
    let retryAt = now + wait
    saved.standing = .failing(failure, count: count, retryAt: retryAt)
    if !acted { takeBackIntent() }
    return .retry(saved, at: retryAt, clear: !acted && intent == nil)
  }

  /// This request certainly changed nothing; whether an earlier one did is as open as before.
  private mutating func takeBackIntent() {
    guard var intent else { return }
    intent.attempts -= 1
    self.intent = intent.attempts > 0 ? intent : nil
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
