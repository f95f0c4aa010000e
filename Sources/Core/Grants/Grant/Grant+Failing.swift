public import OAuth

// A refresh that failed: whether it ends the grant, and the time of the next attempt.
extension Grant {
  public enum Failed: Sendable, Equatable {
    /// Commit this and the current intent.
    case retry(SavedGrant, at: Timestamp)
    case ended(SavedGrant, LoginReason)
    case misconfigured(SavedGrant)
    /// The provider issues no token for the requested scope or resource; the grant is unaffected.
    case refused(SavedGrant)
    case discard
  }

  /// The refresh failed.
  public mutating func failed(
    _ attempt: Attempt, _ failure: ProviderFailure, at now: Timestamp, policy: RefreshPolicy, jitter: Double,
    rotation: Rotation = .strict, lastSuccessOfOthers: Timestamp? = nil
  ) -> Failed {
    guard unanswered == attempt else {
      if superseded == attempt { superseded = nil }
      return .discard
    }
    phase = .idle
    let told = FailureRecord(message: failure.message, oauth: failure.oauth, at: now)
    if attempt.isExchange { return exchangeFailed(attempt, failure, told) }
    waitsForProvider = failure.isOfProvider
    countLonely(lastSuccessOfOthers)
    if refuses(attempt.key, failure, told) {
      // A status without an error code may come from a proxy in front of the provider.
      if case .requestRefused(_, nil, _) = failure {} else { revertIntent() }
      return .refused(saved)
    }
    if !attempt.key.isNarrowed { isDoubted = false }
    // Callers that are still waiting ask again.
    wanted = []
    switch failure {
    // A login cannot repair a grant without a user.
    case .ended where saved.kind.isUnattended:
      saved.standing = .misconfigured(told)
      revertIntent()
      return .misconfigured(saved)
    case .ended(let reason, _, _):
      if reason == .refused, let retry = fallBack(told, at: now, rotation: rotation) { return retry }
      // An earlier request with this refresh token had no response: it may have caused a rotation whose response was
      // lost.
      let lost = reason == .refused && rotation != .none && ((intent?.attempts ?? 1) > 1 || followsUnanswered)
      let isOver = reason == .refused && saved.refreshTokenExpiresAt.map { $0 <= now } ?? false
      let final = lost ? LoginReason.lostRotation : isOver ? .refreshTokenExpired : reason
      saved.standing = .loginRequired(final, told)
      saved.isRefusedOnce = final == .refused && mayPass(failure)
      if isUnproven, reason == .identityChanged { clearImport() }
      // A login that returns no new refresh token keeps this one and its history.
      revertIntent()
      return .ended(saved, final)
    case .misconfigured:
      saved.standing = .misconfigured(told)
      revertIntent()
      if !saved.kind.isUnattended, failure.oauth != nil {
        countRefusal(at: now, lastSuccessOfOthers: lastSuccessOfOthers)
      }
      return .misconfigured(saved)
    case .rateLimited(_, _, let retryAfter):
      // The provider's gate holds all accounts back. An account whose requests always get 429 must not block the others.
      let delays = [.zero] + policy.retryDelays
      return retry(
        told, at: now, delays: delays, policy: policy, jitter: jitter, retryAfter: failures > 0 ? retryAfter : nil,
        acted: false, rotation: rotation)
    case .tryLater(_, _, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: false, rotation: rotation,
        callersRetry: true)
    case .unclear(_, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: true, rotation: rotation,
        callersRetry: true)
    // An OAuth error certainly changed nothing; a status without one may come from a proxy.
    case .requestRefused(_, let oauth, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: oauth == nil, rotation: rotation)
    case .lost, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      return retry(told, at: now, policy: policy, jitter: jitter, retryAfter: nil, acted: true, rotation: rotation)
    case .notSent, .blocked:
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: nil, acted: false, rotation: rotation,
        callersRetry: waitsForProvider)
    }
  }

  /// Whether the refusal is the first one and may pass: some servers refuse early refreshes, and some answer
  /// `invalid_grant` for a while. Other codes end the grant, and so does the refusal of an imported refresh token that
  /// never gave an access token.
  private func mayPass(_ failure: ProviderFailure) -> Bool {
    failure.oauth?.code == .invalidGrant && !saved.isRefusedOnce && saved.refreshToken != nil && token != nil
  }

  /// A provider with a grace period accepts the previous refresh token for that time: if it refuses the current one,
  /// the previous one is tried once.
  private mutating func fallBack(_ failure: FailureRecord, at now: Timestamp, rotation: Rotation) -> Failed? {
    guard !fellBack, let previous = saved.previousRefreshToken else { return nil }
    switch rotation {
    case .none: break
    case .grace(let grace):
      guard let rotatedAt = saved.refreshTokenIssuedAt ?? token?.issuedAt, now - rotatedAt < grace else { return nil }
    case .strict: return nil
    }
    fellBack = true
    saved.previousRefreshToken = saved.refreshToken
    saved.refreshToken = previous
    saved.standing = .failing(failure, count: 1, retryAt: now)
    // Whether a rotation was lost does not depend on which of the two tokens is tried.
    revertIntent()
    intent = intent.map {
      RefreshIntent(
        account: $0.account, refreshTokenHash: previous.fingerprint, sentAt: $0.sentAt, attempts: $0.attempts)
    }
    return .retry(saved, at: now)
  }

  /// The minimum delay between two attempts to repeat a lost rotation; longer if the grace period exceeds eight
  /// seconds.
  private static let hurry = Duration.seconds(1)

  /// No outage delays the requests of an account that fails while others of the provider succeed.
  private mutating func countLonely(_ lastSuccessOfOthers: Timestamp?) {
    guard case .failing(let last, _, _) = saved.standing else { return lonelyFailures = 0 }
    if let lastSuccessOfOthers, lastSuccessOfOthers >= last.at, lonelyFailures < 16 { lonelyFailures += 1 }
  }

  /// After so many ``lonelyFailures`` the delay of a caller's retry doubles each time.
  private static let quickRetries = 2

  /// - Parameter callersRetry: a caller's request may retry after the shortest delay, which grows with
  ///   ``Grant/lonelyFailures``.
  private mutating func retry(
    _ failure: FailureRecord, at now: Timestamp, delays: [Duration]? = nil, policy: RefreshPolicy, jitter: Double,
    retryAfter: Duration?, acted: Bool, rotation: Rotation, callersRetry: Bool = false
  ) -> Failed {
    let count = failures + 1
    let delays = delays ?? policy.retryDelays
    let planned = delays[min(count, delays.count) - 1]
    var wait = planned.scaled(by: 1 - policy.jitter * jitter)
    var asked = min(retryAfter ?? .zero, policy.longestRetryAfter)
    if !acted { revertIntent() }
    // A rotation whose response was lost, now or earlier, can be requested again while the old refresh token is
    // accepted; after that there is no hurry. This also shortens the provider's `Retry-After`: without an attempt in
    // that time the grant ends.
    if case .grace(let grace) = rotation, isInGrace(rotation, at: now), let first = intent?.sentAt {
      let rest = grace - (now - first)
      wait = min(wait, max(rest.scaled(by: 0.5), grace.scaled(by: 0.125), Self.hurry))
      asked = min(asked, rest.scaled(by: 0.8))
    }
    wait = max(wait, asked)
    let doublings = max(Int(lonelyFailures) - Self.quickRetries, 0)
    soonestRetry = callersRetry ? now + max(policy.retryDelays[0].scaled(by: Double(1 << doublings)), asked) : nil
    let retryAt = now + wait
    saved.standing = .failing(failure, count: count, retryAt: retryAt)
    return .retry(saved, at: retryAt)
  }
}
