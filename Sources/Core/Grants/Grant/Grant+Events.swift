public import OAuth

extension Grant {
  public enum Reported: Sendable, Equatable {
    /// A newer token exists already.
    case stale
    /// This caller has already reported it.
    case known(SavedToken.Key)
    /// Commit the token, which carries the report.
    case new(SavedToken.Key)
  }

  /// A caller reports that a resource server refused the token of this generation. Only this caller is affected.
  public mutating func reported(generation: Int64, by reporter: Reporter, at now: Timestamp) -> Reported {
    let key = narrowed.first { $0.value.token?.generation == generation }?.key ?? SavedToken.Key()
    guard let token = token(for: key), token.generation == generation, generation != rejectedGeneration else {
      return .stale
    }
    guard !token.reports.contains(where: { $0.reporter == reporter }) else { return .known(key) }
    var reports = token.reports
    if reports.count >= TokenReport.most {
      // Prefer to remove a report of the same user.
      reports.remove(at: reports.firstIndex { $0.reporter.uid == reporter.uid } ?? 0)
    }
    reports.append(TokenReport(reporter: reporter, at: now))
    if key.isNarrowed { narrowed[key]?.token?.reports = reports } else { self.token?.reports = reports }
    return .new(key)
  }

  /// The generation of the token that this caller reported; nil: it may get the current one.
  public func reportedGeneration(by reporter: Reporter, _ key: SavedToken.Key) -> Int64? {
    guard let token = token(for: key), token.reports.contains(where: { $0.reporter == reporter }) else { return nil }
    return token.generation
  }

  /// The provider considers the token of this generation valid, so reports of it end. True: commit the token.
  public mutating func confirmed(generation: Int64) -> Bool {
    guard token?.generation == generation, token?.reports.isEmpty == false else { return false }
    token?.reports = []
    return true
  }

  public enum Rejected: Sendable, Equatable {
    /// A newer token exists already.
    case stale
    /// Begin a refresh, or wait for the one under way.
    case refresh
    /// The same for a narrowed token, which must be removed.
    case refreshNarrowed(SavedToken.Key)
    /// No new token can be obtained: commit this.
    case ended(SavedGrant)
  }

  /// The provider reports that the token of this generation is invalid, or the token is for another server. No caller
  /// gets it again. Other generations than the current one are ignored.
  public mutating func rejected(generation: Int64, at now: Timestamp) -> Rejected {
    if let key = narrowed.first(where: { $0.value.token?.generation == generation })?.key {
      narrowed[key] = nil
      return .refreshNarrowed(key)
    }
    guard generation == mainGeneration else { return .stale }
    rejectedGeneration = generation
    guard !saved.isRenewable else { return .refresh }
    saved.standing = .loginRequired(
      .noRefreshToken,
      FailureRecord(message: "the provider no longer knows the access token, and there is no refresh token", at: now))
    return .ended(saved)
  }

  /// The user signed in again: a request in progress no longer matters.
  public mutating func replaced(by saved: SavedGrant, token: SavedToken, jitter: Double) {
    let isNew = saved.refreshToken != self.saved.refreshToken
    stamps = Stamps(token: true, refreshToken: isNew, intent: stamps.intent)
    self.saved = saved
    self.token = token
    narrowed = [:]
    wanted = []
    isDoubted = false
    isUnfinished = false
    self.jitter = jitter
    if isNew {
      // The history of the previous refresh token does not apply to this one.
      intent = nil
      followsUnanswered = false
      fellBack = false
    }
    rejectedGeneration = nil
    waitsForProvider = false
    superseded = nil
    phase = .idle
  }

  /// The provider confirmed that the imported token belongs to the account's user. Commit ``saved``.
  public mutating func proved() { if isUnproven { saved.kind = .imported } }

  /// The account takes the identity of the imported token. Commit ``saved``.
  public mutating func identityReplaced() {
    guard isUnproven else { return }
    saved.identity = nil
    saved.kind = .imported
  }

  /// The imported grant belongs to another user, or its identity is unknown: the account needs a login. Commit
  /// ``saved``.
  public mutating func disproved(_ failure: FailureRecord) {
    guard isUnproven else { return }
    (phase, superseded) = (.idle, nil)
    rejectedGeneration = mainGeneration
    wanted = []
    waitsForProvider = false
    clearImport()
    saved.standing = .loginRequired(.identityChanged, failure)
  }

  /// A later login must not use the refresh token of another user.
  mutating func clearImport() {
    intent = nil
    saved.refreshToken = nil
    saved.previousRefreshToken = nil
    saved.refreshTokenExpiresAt = nil
    saved.idToken = nil
  }

  /// The user signed out at the provider: a request in progress no longer matters, and no token is issued to callers.
  public mutating func signedOut(_ failure: FailureRecord) {
    (phase, superseded) = (.idle, nil)
    intent = nil
    rejectedGeneration = mainGeneration
    narrowed = [:]
    wanted = []
    waitsForProvider = false
    saved.refreshToken = nil
    saved.previousRefreshToken = nil
    saved.refreshTokenExpiresAt = nil
    saved.standing = .loginRequired(.signedOut, failure)
  }

  /// Adds the source's fingerprint to a declared account's grant that was stored without one. True: commit ``saved``.
  public mutating func recordSource(_ fingerprint: String) -> Bool {
    guard saved.sourceFingerprint == nil else { return false }
    saved.sourceFingerprint = fingerprint
    return true
  }

  /// The previous process ended during a request. If the provider has a grace period for used refresh tokens, a
  /// rotation whose response was lost is requested again at once, even if the access token is still valid. Without a
  /// grace period an immediate request has no advantage.
  public mutating func takeUp(rotation: Rotation) {
    if case .grace = rotation, intent != nil { isUnfinished = true }
  }

  /// Tries an ended grant once more with its stored refresh token: another refusal is final. False: it has none.
  public mutating func reopen(at now: Timestamp) -> Bool {
    guard case .loginRequired(let reason, let failure) = saved.standing, saved.refreshToken != nil, phase == .idle,
      [.refused, .lostRotation, .refreshTokenExpired].contains(reason)
    else { return false }
    saved.standing = .failing(failure, count: 0, retryAt: now)
    saved.isRefusedOnce = true
    return true
  }

  /// The provider's settings changed, or its network is back: retry waiting requests now.
  ///
  /// - Parameter resetsDelays: after another failure the delays start with the shortest one.
  public mutating func retryNow(at now: Timestamp, resetsDelays: Bool = false) {
    switch saved.standing {
    case .failing(let failure, let count, _):
      saved.standing = .failing(failure, count: resetsDelays ? 0 : count, retryAt: now)
    case .misconfigured(let failure): saved.standing = .failing(failure, count: 0, retryAt: now)
    case .good, .loginRequired: break
    }
  }
}

// MARK: The clock

extension Grant {
  /// The login or refresh happened in this run.
  public mutating func isOfThisRun(refreshToken: Bool = true) {
    stamps = Stamps(token: true, refreshToken: refreshToken)
  }

  /// The wall clock was changed. Timestamps of this run move with it, so that the remaining lifetimes stay the same. A
  /// stored token may have a timestamp of either clock and gets the shorter of the two lifetimes. True: commit
  /// ``saved`` and ``token``.
  public mutating func clockStepped(by step: Duration) -> Bool {
    var isChanged = false
    if stamps.token || step < .zero {
      token?.moves(by: step)
      isChanged = token != nil
    }
    if moveNarrowed(by: step) { isChanged = true }
    if stamps.refreshToken {
      saved.refreshTokenIssuedAt = saved.refreshTokenIssuedAt.map { $0 + step }
      saved.refreshTokenExpiresAt = saved.refreshTokenExpiresAt.map { $0 + step }
      isChanged = true
    }
    if stamps.intent, let sentAt = intent?.sentAt {
      intent?.sentAt = sentAt + step
      isChanged = true
    }
    if let attempt = superseded { superseded?.sentAt = attempt.sentAt + step }
    switch phase {
    case .idle: break
    case .refreshing(var attempt):
      attempt.sentAt = attempt.sentAt + step
      phase = .refreshing(attempt)
    case .overdue(var attempt, let failure):
      attempt.sentAt = attempt.sentAt + step
      phase = .overdue(attempt, failure)
    case .committing(let attempt, var renewal):
      renewal.token?.moves(by: step)
      if renewal.grant.refreshToken != saved.refreshToken || stamps.refreshToken {
        renewal.grant.refreshTokenIssuedAt = renewal.grant.refreshTokenIssuedAt.map { $0 + step }
        renewal.grant.refreshTokenExpiresAt = renewal.grant.refreshTokenExpiresAt.map { $0 + step }
      }
      phase = .committing(attempt, renewal)
    }
    return isChanged
  }
}

extension SavedToken {
  mutating func moves(by step: Duration) {
    issuedAt = issuedAt + step
    expiresAt = expiresAt.map { $0 + step }
    refreshAt = refreshAt.map { $0 + step }
  }

  /// The token of a response, as part of a grant.
  ///
  /// - Parameters:
  ///   - lastScopes: of the token before it; used if the response does not tell the scopes (RFC 6749 §6).
  ///   - lastLifetime: of the token before it; used if the response does not tell the lifetime.
  public init(
    _ tokens: TokenResponse, grant: SavedGrant, key: Key = Key(), issuedAt: Timestamp, lastScopes: [String]? = nil,
    lastLifetime: Duration? = nil
  ) {
    let lifetime = tokens.expiresIn ?? (tokens.claimedExpiry == nil ? lastLifetime ?? tokens.configuredLifetime : nil)
    let known = key.scope.isEmpty ? lastScopes ?? grant.grantedScopes : key.scopes
    let scopes = tokens.scope ?? known
    self.init(
      account: grant.account, key: key, accessToken: tokens.accessToken, type: tokens.tokenType,
      scopes: scopes,
      generation: grant.generation, issuedAt: issuedAt,
      expiresAt: lifetime.map { issuedAt + $0 } ?? tokens.claimedExpiry,
      refreshAt: tokens.refreshIn.map { issuedAt + $0 })
  }
}
