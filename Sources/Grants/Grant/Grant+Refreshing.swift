public import OAuth

// The road of one refresh: begun, sent, answered or failed, committed.
extension Grant {
  public enum Begin: Sendable, Equatable {
    /// Commit the intent, then send. Nil: the refresh token is not spent.
    case begun(Attempt, RefreshIntent?)
    case already
    case impossible
  }

  /// Begins a refresh, unless one is under way: one at a time for each grant.
  ///
  /// It asks for the token that a caller waits for longest, else for the one that is due.
  public mutating func beginRefresh(
    at now: Timestamp, policy: RefreshPolicy = RefreshPolicy(), narrowing: NarrowingMethod = .refresh
  ) -> Begin {
    guard phase == .idle else { return .already }
    if case .loginRequired = saved.standing {
      guard let moment = secondTry, moment <= now, reopen(at: now) else { return .impossible }
    }
    guard saved.isRenewable else { return .impossible }
    let refreshToken = saved.refreshToken ?? Secret("")
    let key = nextKey(at: now, policy: policy, narrowing: narrowing)
    let attempt = Attempt(
      number: nextAttempt(), sentAt: now, refreshToken: refreshToken, key: key,
      isExchange: key.isNarrowed && narrowing == .exchange)
    phase = .refreshing(attempt)
    if attempt.isExchange { return .begun(attempt, nil) }
    let hash = refreshToken.fingerprint
    let before = intent.map { $0.refreshTokenHash == hash ? $0.attempts : 0 } ?? 0
    let first = before > 0 ? intent?.sentAt : nil
    if first == nil { stamps.intent = true }
    let intent = RefreshIntent(
      account: saved.account, refreshTokenHash: hash, sentAt: first ?? now, attempts: before + 1)
    self.intent = intent
    return .begun(attempt, intent)
  }

  /// The request goes out now: what its answer's lifetimes count from. Nil: it is no longer wanted.
  public mutating func sends(_ attempt: Attempt, at now: Timestamp) -> Attempt? {
    guard phase == .refreshing(attempt) else { return nil }
    var sent = attempt
    sent.sentAt = now
    if !attempt.isExchange { isUnfinished = false }
    phase = .refreshing(sent)
    return sent
  }

  /// The request never went out, by our own choice: as if it had not begun.
  public mutating func withdrawn(_ attempt: Attempt) {
    guard phase == .refreshing(attempt) else { return }
    phase = .idle
    if !attempt.isExchange { takeBackIntent() }
  }

  /// Another broker was quicker: what comes of the request is not kept.
  public mutating func discarded(_ attempt: Attempt) {
    switch phase {
    case .idle: break
    case .refreshing(let current), .overdue(let current, _), .committing(let current, _):
      if current == attempt { phase = .idle }
    }
  }

  /// Another broker wrote the grant while this one waited for the answer, and left the refresh token that was sent: the
  /// sign-in stays as that one wrote it, and what is committed is newer than both.
  public mutating func rebase(_ attempt: Attempt, onto stored: SavedGrant) {
    guard case .committing(attempt, var renewal) = phase else { return }
    renewal.grant.loggedInAt = stored.loggedInAt
    renewal.grant.generation = max(renewal.grant.generation, stored.generation + 1)
    renewal.token?.generation = renewal.grant.generation
    phase = .committing(attempt, renewal)
  }

  /// The attempt whose answer is taken.
  private var unanswered: Attempt? {
    switch phase {
    case .refreshing(let attempt), .overdue(let attempt, _): attempt
    case .idle, .committing: nil
    }
  }

  /// The same, or one that is taken although another was sent since.
  private func awaited(_ attempt: Attempt) -> Attempt? {
    if let sent = unanswered, sent == attempt { return sent }
    // The newer one has its answer.
    if case .committing = phase { return nil }
    return superseded == attempt ? superseded : nil
  }

  /// Another request may be sent although the answer to the one before is still awaited, which the provider may take for
  /// reuse. False: none is awaited.
  public mutating func stopsAwaiting(at now: Timestamp) -> Bool {
    guard case .overdue(let attempt, _) = phase else { return false }
    superseded = attempt
    phase = .idle
    retryNow(at: now)
    return true
  }

  /// The request has had no answer in time; one that comes late is taken as ever. Nil: it is no longer waited for.
  public mutating func overdue(_ attempt: Attempt, _ failure: Failure, policy: RefreshPolicy) -> SavedGrant? {
    // The clock may have been set since: what counts is when it was sent by the clock of now.
    guard case .refreshing(let sent) = phase, sent == attempt else { return nil }
    phase = .overdue(sent, failure)
    waitsForProvider = true
    // What a restart finds, which ends the exchange.
    saved.standing = .failing(failure, count: failures + 1, retryAt: failure.at + policy.retryDelays[0])
    return saved
  }

  public enum Answered: Sendable, Equatable {
    /// Commit this, then call ``committed(_:jitter:)``; until then nobody sees it.
    case commit(Renewal)
    /// A newer login took its place, or the account is gone.
    case discard
  }

  /// The provider granted a new token.
  ///
  /// - Parameter isProlonged: the refresh token's lifetime begins anew at each use, also where it stays the same.
  public mutating func answered(
    _ attempt: Attempt, _ issued: Issued, rotation: Rotation, refreshTokenLifetime: Duration?,
    isProlonged: Bool = false
  ) -> Answered {
    // The clock may have been set since: what counts is when it was sent by the clock of now.
    guard let attempt = awaited(attempt) else { return .discard }
    let tokens = issued.tokens
    if attempt.isExchange {
      var grant = saved
      grant.generation += 1
      return commit(attempt, tokens, grant)
    }
    var grant = renewed(
      attempt, isBound(attempt, rotation) ? nil : tokens.refreshToken, expiresIn: tokens.refreshTokenExpiresIn,
      rotation: rotation,
      lifetime: refreshTokenLifetime, isProlonged: isProlonged)
    if let new = tokens.refreshToken { grant = keeping(new, of: attempt, rotation, in: grant) }
    grant.standing = .good
    // What comes with a narrowed token says nothing of what was granted, and less of who signed in.
    if !attempt.key.isNarrowed {
      if let idToken = issued.idToken { grant.idToken = idToken }
      if let identity = issued.identity {
        if isUnproven, identity.subject == saved.identity?.subject { grant.kind = .imported }
        grant.identity = identity
      }
      if let scope = tokens.scope {
        // The scopes of an imported refresh token are known from its first answer.
        let isFirst = [.imported, .unprovenImport].contains(saved.kind) && self.token == nil
        grant.grantedScopes = isFirst ? scope : Self.granted(scope, before: grant.grantedScopes)
      }
      grant.extra = tokens.extra(over: grant.extra)
    }
    return commit(attempt, tokens, grant)
  }

  /// Without rotation the refresh token that was sent stays valid, and a new one may be bound to the narrowed scope.
  private func isBound(_ attempt: Attempt, _ rotation: Rotation) -> Bool {
    attempt.key.isNarrowed && rotation == .none
  }

  /// The grant with the new refresh token as the previous one, in case the old one became invalid after all.
  private func keeping(
    _ new: Secret, of attempt: Attempt, _ rotation: Rotation, in grant: SavedGrant
  ) -> SavedGrant {
    guard isBound(attempt, rotation), !new.isEmpty, new != attempt.refreshToken, !saved.kind.isUnattended else {
      return grant
    }
    var grant = grant
    grant.previousRefreshToken = new
    return grant
  }

  /// What the user granted: a token of fewer scopes does not change that, and the next refresh may return them again.
  static func granted(_ scopes: [String], before: [String]) -> [String] {
    Set(scopes).isSuperset(of: before) ? scopes : before + scopes.filter { !before.contains($0) }
  }

  private mutating func commit(_ attempt: Attempt, _ tokens: TokenResponse, _ grant: SavedGrant) -> Answered {
    let last = self.token(for: attempt.key).flatMap { token in token.expiresAt.map { $0 - token.issuedAt } }
    let token = SavedToken(
      tokens, grant: grant, key: attempt.key, issuedAt: attempt.sentAt,
      lastScopes: attempt.key.isNarrowed ? nil : self.token?.scopes,
      lastLifetime: last.flatMap { $0 >= RefreshPolicy.shortestLifetime ? $0 : nil })
    let renewal = Renewal(grant: grant, token: token, dropped: room(for: attempt.key, at: attempt.sentAt))
    phase = .committing(attempt, renewal)
    return .commit(renewal)
  }

  /// The answer cannot be used but for its new refresh token: commit that before ``failed(_:_:at:policy:jitter:rotation:)``
  /// says what else it means.
  public mutating func rotated(
    _ attempt: Attempt, to new: RotatedToken, rotation: Rotation, refreshTokenLifetime: Duration?
  ) -> Answered {
    guard let sent = awaited(attempt) else { return .discard }
    let grant = renewed(
      sent, isBound(sent, rotation) ? nil : new.token, expiresIn: new.expiresIn, rotation: rotation,
      lifetime: refreshTokenLifetime, isProlonged: false)
    let renewal = Renewal(grant: keeping(new.token, of: sent, rotation, in: grant), token: nil)
    phase = .committing(sent, renewal)
    return .commit(renewal)
  }

  /// The grant with the refresh token of an answer, and of another generation: whoever shares the store sees that it was
  /// changed.
  private func renewed(
    _ attempt: Attempt, _ rotated: Secret?, expiresIn: Duration?, rotation: Rotation, lifetime: Duration?,
    isProlonged: Bool
  ) -> SavedGrant {
    var grant = saved
    // Absent or empty: the old one stays good (RFC 6749 §6), until the end that it has.
    // What needs no refresh token is given none (RFC 6749 §4.4.3).
    if let rotated, !rotated.isEmpty, rotated != attempt.refreshToken, !saved.kind.isUnattended {
      grant.previousRefreshToken = if case .grace = rotation { attempt.refreshToken } else { nil }
      grant.refreshToken = rotated
      grant.refreshTokenExpiresAt = lifetime.map { attempt.sentAt + $0 }
      grant.refreshTokenIssuedAt = attempt.sentAt
    } else if isProlonged, grant.refreshToken != nil, let lifetime {
      grant.refreshTokenExpiresAt = attempt.sentAt + lifetime
    }
    if let expiresIn { grant.refreshTokenExpiresAt = attempt.sentAt + expiresIn }
    // What was announced was another end.
    if let end = grant.refreshTokenExpiresAt, end > (saved.refreshTokenExpiresAt ?? end) + Self.sameEnd {
      grant.expiryAnnouncedAt = nil
    }
    if grant.refreshToken != saved.refreshToken { grant.expiryAnnouncedAt = nil }
    grant.generation += 1
    return grant
  }

  /// Ends of a refresh token that lie so near to each other are one.
  static let sameEnd = Duration.seconds(60)

  /// Whether the renewal brings nothing that a crash before its commit would lose: the refresh token stays the same.
  public var isCommittingSameRefreshToken: Bool {
    if case .committing(_, let renewal) = phase { renewal.grant.refreshToken == saved.refreshToken } else { false }
  }

  /// The renewal is on disk, or can be kept in memory alone without harm. One without a token leaves its attempt to fail.
  /// False: it was discarded meanwhile.
  public mutating func committed(_ attempt: Attempt, jitter: Double) -> Bool {
    guard case .committing(let current, let renewal) = phase, current == attempt else { return false }
    if renewal.grant.refreshToken != saved.refreshToken { stamps.refreshToken = true }
    if !attempt.isExchange { refusals = nil }
    followsUnanswered =
      renewal.grant.refreshToken == saved.refreshToken ? followsUnanswered : (intent?.attempts ?? 1) > 1
    saved = renewal.grant
    if !attempt.isExchange { refreshEnded() }
    guard let renewed = renewal.token else {
      phase = .refreshing(current)
      return true
    }
    phase = .idle
    guard !attempt.key.isNarrowed else {
      for key in renewal.dropped { narrowed[key] = nil }
      let asker = narrowed[attempt.key]?.asker ?? lastAsker
      narrowed[attempt.key] = Narrowed(token: renewed, isOfThisRun: true, asker: asker)
      return true
    }
    stamps.token = true
    token = renewed
    rejectedGeneration = nil
    isDoubted = false
    self.jitter = jitter
    return true
  }

  /// The provider answered a refresh, so no earlier request is open any more.
  private mutating func refreshEnded() {
    superseded = nil
    intent = nil
    isUnfinished = false
    fellBack = false
    waitsForProvider = false
  }

  public enum Failed: Sendable, Equatable {
    /// Commit this, and the intent as it is now.
    case retry(SavedGrant, at: Timestamp)
    case ended(SavedGrant, LoginReason)
    case misconfigured(SavedGrant)
    /// The provider gives no token of the scope or resource that was asked for; the grant is as good as before.
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
    let told = Failure(message: failure.message, oauth: failure.oauth, at: now)
    if attempt.isExchange { return exchangeFailed(attempt, failure, told) }
    waitsForProvider = failure.isOfProvider
    if refuses(attempt.key, failure, told) {
      // A bare status may be that of a proxy behind the provider.
      if case .requestRefused(_, nil, _) = failure {} else { takeBackIntent() }
      return .refused(saved)
    }
    if !attempt.key.isNarrowed { isDoubted = false }
    // Callers that still wait ask again.
    wanted = []
    switch failure {
    // No person can help a grant that nobody signed in to.
    case .ended where saved.kind.isUnattended:
      saved.standing = .misconfigured(told)
      takeBackIntent()
      return .misconfigured(saved)
    case .ended(let reason, _, _):
      if reason == .refused, let retry = fallBack(told, at: now, rotation: rotation) { return retry }
      // An earlier request with this refresh token had no answer: it may have been the rotation that we never saw.
      let lost = reason == .refused && rotation != .none && ((intent?.attempts ?? 1) > 1 || followsUnanswered)
      let isOver = reason == .refused && saved.refreshTokenExpiresAt.map { $0 <= now } ?? false
      let final = lost ? LoginReason.lostRotation : isOver ? .refreshTokenExpired : reason
      saved.standing = .loginRequired(final, told)
      if isUnproven, reason == .identityChanged { forgetImport() }
      // A login that brings no other refresh token goes on with this one, and with what is known of it.
      takeBackIntent()
      return .ended(saved, final)
    case .misconfigured:
      saved.standing = .misconfigured(told)
      takeBackIntent()
      if !saved.kind.isUnattended, failure.oauth != nil {
        countRefusal(at: now, lastSuccessOfOthers: lastSuccessOfOthers)
      }
      return .misconfigured(saved)
    case .tryLater(_, _, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: false, rotation: rotation)
    case .unclear(_, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: true, rotation: rotation)
    // In OAuth's words it certainly changed nothing; a bare status may be that of a proxy.
    case .requestRefused(_, let oauth, let retryAfter):
      return retry(
        told, at: now, policy: policy, jitter: jitter, retryAfter: retryAfter, acted: oauth == nil, rotation: rotation)
    case .lost, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      return retry(told, at: now, policy: policy, jitter: jitter, retryAfter: nil, acted: true, rotation: rotation)
    case .notSent, .blocked:
      return retry(told, at: now, policy: policy, jitter: jitter, retryAfter: nil, acted: false, rotation: rotation)
    }
  }

  /// A provider with a grace still takes the refresh token before the current one, for that long: where it refuses the
  /// current one, that one is tried once.
  private mutating func fallBack(_ failure: Failure, at now: Timestamp, rotation: Rotation) -> Failed? {
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
    // Whether a rotation was lost does not depend on which of the two is tried.
    takeBackIntent()
    intent = intent.map {
      RefreshIntent(
        account: $0.account, refreshTokenHash: previous.fingerprint, sentAt: $0.sentAt, attempts: $0.attempts)
    }
    return .retry(saved, at: now)
  }

  /// Between two tries to get a lost rotation again, at least; longer where the grace is longer than eight seconds.
  private static let hurry = Duration.seconds(1)

  private mutating func retry(
    _ failure: Failure, at now: Timestamp, policy: RefreshPolicy, jitter: Double, retryAfter: Duration?, acted: Bool,
    rotation: Rotation
  ) -> Failed {
    let count = failures + 1
    let planned = policy.retryDelays[min(count, policy.retryDelays.count) - 1]
    var wait = planned.scaled(by: 1 - policy.jitter * jitter)
    var asked = min(retryAfter ?? .zero, policy.longestRetryAfter)
    if !acted { takeBackIntent() }
    // A rotation whose answer was lost, now or by an earlier request, can be asked for again while the old refresh token
    // is still taken; after that there is nothing to hurry for. The provider's own wish is cut short for it, too: without
    // a try in that time the grant is over.
    if case .grace(let grace) = rotation, let first = intent?.sentAt, first <= now, now - first < grace {
      let rest = grace - (now - first)
      wait = min(wait, max(rest.scaled(by: 0.5), grace.scaled(by: 0.125), Self.hurry))
      asked = min(asked, rest.scaled(by: 0.8))
    }
    wait = max(wait, asked)
    let retryAt = now + wait
    saved.standing = .failing(failure, count: count, retryAt: retryAt)
    return .retry(saved, at: retryAt)
  }

  /// How often in a row it has failed.
  private var failures: Int { if case .failing(_, let count, _) = saved.standing { count } else { 0 } }

  /// This request certainly changed nothing; whether an earlier one did is as open as before.
  private mutating func takeBackIntent() {
    guard var intent else { return }
    intent.attempts -= 1
    self.intent = intent.attempts > 0 ? intent : nil
  }
}
