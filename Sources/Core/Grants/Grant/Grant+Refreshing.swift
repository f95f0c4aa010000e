public import OAuth

// One refresh: begin, send, answer, commit.
extension Grant {
  public enum Begin: Sendable, Equatable {
    /// Commit the intent, then send. Nil: the request does not use the refresh token.
    case begun(Attempt, RefreshIntent?)
    case already
    case impossible
  }

  /// Begins a refresh unless one is in progress: each grant has at most one.
  ///
  /// Requests the token that a caller has waited for longest, else the one that is due.
  public mutating func beginRefresh(
    at now: Timestamp, policy: RefreshPolicy = RefreshPolicy(), narrowing: NarrowingMethod = .refresh
  ) -> Begin {
    guard phase == .idle else { return .already }
    if case .loginRequired = saved.standing {
      guard let moment = nextMoment(policy: policy, at: now), moment <= now, reopen(at: now) else { return .impossible }
    }
    guard saved.isRenewable else { return .impossible }
    let refreshToken = saved.refreshToken ?? Secret("")
    let key = nextKey(at: now, policy: policy, narrowing: narrowing)
    let attempt = Attempt(
      number: nextAttempt(), sentAt: now, refreshToken: refreshToken, key: key,
      isExchange: key.isNarrowed && narrowing == .exchange || key.needsExchange)
    phase = .refreshing(attempt)
    if attempt.isExchange { return .begun(attempt, nil) }
    soonestRetry = nil
    let hash = refreshToken.fingerprint
    let before = intent.map { $0.refreshTokenHash == hash ? $0.attempts : 0 } ?? 0
    let first = before > 0 ? intent?.sentAt : nil
    if first == nil { stamps.intent = true }
    let intent = RefreshIntent(
      account: saved.account, refreshTokenHash: hash, sentAt: first ?? now, attempts: before + 1)
    self.intent = intent
    return .begun(attempt, intent)
  }

  /// The intent is on disk. Other brokers may have sent the same refresh token before.
  public mutating func leased(_ attempt: Attempt, _ intent: RefreshIntent) {
    guard phase == .refreshing(attempt), intent.refreshTokenHash == attempt.refreshToken.fingerprint else { return }
    self.intent = intent
  }

  /// The request is sent now; lifetimes in its response count from this time. Nil: it is no longer wanted.
  public mutating func sends(_ attempt: Attempt, at now: Timestamp) -> Attempt? {
    guard phase == .refreshing(attempt) else { return nil }
    var sent = attempt
    sent.sentAt = now
    if !attempt.isExchange { isUnfinished = false }
    phase = .refreshing(sent)
    return sent
  }

  /// The broker decided not to send the request: the state is as before.
  public mutating func withdrawn(_ attempt: Attempt) {
    guard phase == .refreshing(attempt) else { return }
    phase = .idle
    if !attempt.isExchange { revertIntent() }
  }

  /// Another broker refreshed first: the result of this request is discarded.
  public mutating func discarded(_ attempt: Attempt) {
    switch phase {
    case .idle: break
    case .refreshing(let current), .overdue(let current, _), .committing(let current, _):
      if current == attempt { phase = .idle }
    }
  }

  /// Another broker wrote the grant during the request and kept the refresh token that was sent. Keeps the other
  /// broker's login and commits a generation newer than both.
  public mutating func rebase(_ attempt: Attempt, onto stored: SavedGrant) {
    guard case .committing(attempt, var renewal) = phase else { return }
    // The row of an older copy of the database may be of an earlier login.
    renewal.grant.loggedInAt = max(renewal.grant.loggedInAt, stored.loggedInAt)
    renewal.grant.generation = max(renewal.grant.generation, stored.generation + 1)
    renewal.token?.generation = renewal.grant.generation
    phase = .committing(attempt, renewal)
  }

  /// The attempt whose response is accepted.
  var unanswered: Attempt? {
    switch phase {
    case .refreshing(let attempt), .overdue(let attempt, _): attempt
    case .idle, .committing: nil
    }
  }

  /// The same, or a superseded attempt whose response is still accepted.
  private func awaited(_ attempt: Attempt) -> Attempt? {
    if let sent = unanswered, sent == attempt { return sent }
    // The newer attempt has its response.
    if case .committing = phase { return nil }
    return superseded == attempt ? superseded : nil
  }

  /// Allows another request although a response is overdue. The provider may treat that as token reuse. False: no
  /// response is overdue.
  public mutating func stopsAwaiting(at now: Timestamp) -> Bool {
    guard case .overdue(let attempt, _) = phase else { return false }
    superseded = attempt
    phase = .idle
    retryNow(at: now)
    return true
  }

  /// The request timed out; a late response is still accepted. Nil: it is no longer awaited.
  public mutating func overdue(_ attempt: Attempt, _ failure: FailureRecord, policy: RefreshPolicy) -> SavedGrant? {
    // The clock may have been changed since: use the send time according to the current clock.
    guard case .refreshing(let sent) = phase, sent == attempt else { return nil }
    phase = .overdue(sent, failure)
    waitsForProvider = true
    // The state that a restart finds; the restart ends the exchange.
    saved.standing = .failing(failure, count: failures + 1, retryAt: failure.at + policy.retryDelays[0])
    return saved
  }

  public enum Answered: Sendable, Equatable {
    /// Commit this, then call ``committed(_:jitter:)``; until then no caller sees it.
    case commit(Renewal)
    /// A newer login replaced the grant, or the account was removed.
    case discard
  }

  /// The provider granted a new token.
  ///
  /// - Parameter isProlonged: the refresh token's lifetime restarts at each use, even if the token stays the same.
  public mutating func answered(
    _ attempt: Attempt, _ issued: Issued, rotation: Rotation, refreshTokenLifetime: Duration?,
    isProlonged: Bool = false
  ) -> Answered {
    // The clock may have been changed since: use the send time according to the current clock.
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
    grant.isRefusedOnce = false
    // A narrowed response must not change the granted scopes or the identity.
    if !attempt.key.isNarrowed {
      recordIDToken(of: issued, at: attempt.sentAt)
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

  /// Without rotation the sent refresh token stays valid, and a new one may be bound to the narrowed scope.
  private func isBound(_ attempt: Attempt, _ rotation: Rotation) -> Bool {
    attempt.key.isNarrowed && rotation == .none
  }

  /// The grant with the new refresh token as the previous one, in case the old one did become invalid.
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

  /// The user's granted scopes: a token with fewer scopes does not change them, and the next refresh may return them
  /// again.
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

  /// Only the new refresh token of the response can be used: commit it before
  /// ``failed(_:_:at:policy:jitter:rotation:)`` handles the failure.
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

  /// The grant with the refresh token of a response and a new generation, so that other brokers on the store detect the
  /// change.
  private func renewed(
    _ attempt: Attempt, _ rotated: Secret?, expiresIn: Duration?, rotation: Rotation, lifetime: Duration?,
    isProlonged: Bool
  ) -> SavedGrant {
    var grant = saved
    // Absent or empty: the old token stays valid until its known end (RFC 6749 §6). Unattended grants need no refresh
    // token and store none (RFC 6749 §4.4.3).
    if let rotated, !rotated.isEmpty, rotated != attempt.refreshToken, !saved.kind.isUnattended {
      grant.previousRefreshToken = if case .grace = rotation { attempt.refreshToken } else { nil }
      grant.refreshToken = rotated
      grant.refreshTokenExpiresAt = lifetime.map { attempt.sentAt + $0 }
      grant.refreshTokenIssuedAt = attempt.sentAt
    } else if isProlonged, grant.refreshToken != nil, let lifetime {
      grant.refreshTokenExpiresAt = attempt.sentAt + lifetime
    }
    if let expiresIn { grant.refreshTokenExpiresAt = attempt.sentAt + expiresIn }
    // The earlier announcement was for another end.
    if let end = grant.refreshTokenExpiresAt, end > (saved.refreshTokenExpiresAt ?? end) + Self.sameEnd {
      grant.expiryAnnouncedAt = nil
    }
    if grant.refreshToken != saved.refreshToken { grant.expiryAnnouncedAt = nil }
    grant.generation += 1
    return grant
  }

  /// Refresh token ends within this difference are treated as equal.
  static let sameEnd = Duration.seconds(60)

  /// Whether a crash before the commit would lose no refresh token: it stays the same.
  public var isCommittingSameRefreshToken: Bool {
    if case .committing(_, let renewal) = phase { renewal.grant.refreshToken == saved.refreshToken } else { false }
  }

  /// The renewal is on disk, or can safely stay only in memory. A renewal without a token leaves its attempt to fail.
  /// False: it was discarded in the interim.
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

  /// The provider answered a refresh, so no earlier request is pending.
  private mutating func refreshEnded() {
    superseded = nil
    intent = nil
    isUnfinished = false
    fellBack = false
    waitsForProvider = false
  }

  /// The number of consecutive failures.
  var failures: Int { if case .failing(_, let count, _) = saved.standing { count } else { 0 } }

  /// A request with this refresh token had no response, and may be repeated only until the grace period ends.
  public func isInGrace(_ rotation: Rotation, at now: Timestamp) -> Bool {
    guard case .grace(let grace) = rotation, let first = intent?.sentAt else { return false }
    return first <= now && now - first < grace
  }

  /// This request certainly changed nothing; whether an earlier one did is still unknown.
  mutating func revertIntent() {
    guard var intent else { return }
    intent.attempts -= 1
    self.intent = intent.attempts > 0 ? intent : nil
  }
}
