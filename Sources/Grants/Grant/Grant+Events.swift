public import OAuth

extension Grant {
  public enum Reported: Sendable, Equatable {
    /// A newer token is there already.
    case stale
    /// The reporter has said so before.
    case known(SavedToken.Key)
    /// Commit the token, which carries the report.
    case new(SavedToken.Key)
  }

  /// A caller says that a resource server refused the token of this generation. It binds that caller alone.
  public mutating func reported(generation: Int64, by reporter: Reporter, at now: Timestamp) -> Reported {
    let key = narrowed.first { $0.value.token?.generation == generation }?.key ?? SavedToken.Key()
    guard let token = token(for: key), token.generation == generation, generation != rejectedGeneration else {
      return .stale
    }
    guard !token.reports.contains(where: { $0.reporter == reporter }) else { return .known(key) }
    var reports = token.reports
    if reports.count >= TokenReport.most {
      // Its user's own before another's.
      reports.remove(at: reports.firstIndex { $0.reporter.uid == reporter.uid } ?? 0)
    }
    reports.append(TokenReport(reporter: reporter, at: now))
    if key.isNarrowed { narrowed[key]?.token?.reports = reports } else { self.token?.reports = reports }
    return .new(key)
  }

  /// The generation of the token that this caller reported; nil: it may have the one that is there.
  public func reportedGeneration(by reporter: Reporter, _ key: SavedToken.Key) -> Int64? {
    guard let token = token(for: key), token.reports.contains(where: { $0.reporter == reporter }) else { return nil }
    return token.generation
  }

  public enum Rejected: Sendable, Equatable {
    /// A newer token is there already.
    case stale
    /// Begin a refresh, or wait for the one under way.
    case refresh
    /// The same, of a narrowed token, which is to be removed.
    case refreshNarrowed(SavedToken.Key)
    /// There is no way to get another: commit this.
    case ended(SavedGrant)
  }

  /// The provider says that the token of this generation is dead, or it is another server's: nobody gets it any more. Only
  /// the current one matters.
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
      Failure(message: "the provider no longer knows the access token, and there is no refresh token", at: now))
    return .ended(saved)
  }

  /// A person signed in again: what was under way no longer matters.
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
      // What happened to the one before says nothing of this one.
      intent = nil
      followsUnanswered = false
      fellBack = false
    }
    rejectedGeneration = nil
    waitsForProvider = false
    superseded = nil
    phase = .idle
  }

  /// The provider named the account's person as the one whose token was imported. Commit ``saved``.
  public mutating func proved() { if isUnproven { saved.kind = .imported } }

  /// The account becomes that of whoever the imported token is of. Commit ``saved``.
  public mutating func identityReplaced() {
    guard isUnproven else { return }
    saved.identity = nil
    saved.kind = .imported
  }

  /// What was imported is another person's, or nothing says whose it is: the account needs a login. Commit ``saved``.
  public mutating func disproved(_ failure: Failure) {
    guard isUnproven else { return }
    (phase, superseded) = (.idle, nil)
    rejectedGeneration = mainGeneration
    wanted = []
    waitsForProvider = false
    forgetImport()
    saved.standing = .loginRequired(.identityChanged, failure)
  }

  /// A later login must not go on with another person's refresh token.
  mutating func forgetImport() {
    intent = nil
    saved.refreshToken = nil
    saved.previousRefreshToken = nil
    saved.refreshTokenExpiresAt = nil
    saved.idToken = nil
  }

  /// The person signed out at the provider: whatever was under way no longer matters, and no token is handed out.
  public mutating func signedOut(_ failure: Failure) {
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

  /// A declared account's grant of before fingerprints were kept gets that of its source. True: commit ``saved``.
  public mutating func recordSource(_ fingerprint: String) -> Bool {
    guard saved.sourceFingerprint == nil else { return false }
    saved.sourceFingerprint = fingerprint
    return true
  }

  /// The process ended while a request was under way. Where the provider still takes the refresh token for a while after
  /// its use, a rotation whose answer was lost is asked for again at once, however good the access token is; elsewhere
  /// nothing is won by hurrying.
  public mutating func takeUp(rotation: Rotation) {
    if case .grace = rotation, intent != nil { isUnfinished = true }
  }

  /// An ended grant is tried once more with the refresh token that was kept of it. False: it has none.
  public mutating func reopen(at now: Timestamp) -> Bool {
    guard case .loginRequired(let reason, let failure) = saved.standing, saved.refreshToken != nil, phase == .idle,
      [.refused, .lostRotation, .refreshTokenExpired].contains(reason)
    else { return false }
    saved.standing = .failing(failure, count: 0, retryAt: now)
    return true
  }

  /// The provider's settings changed, or its network is back: try now what waits.
  ///
  /// - Parameter anew: should it fail again, the waits begin with the shortest one.
  public mutating func retryNow(at now: Timestamp, anew: Bool = false) {
    switch saved.standing {
    case .failing(let failure, let count, _):
      saved.standing = .failing(failure, count: anew ? 0 : count, retryAt: now)
    case .misconfigured(let failure): saved.standing = .failing(failure, count: 0, retryAt: now)
    case .good, .loginRequired: break
    }
  }
}

// MARK: The clock

extension Grant {
  /// Whoever signed in, or refreshed, did so in this run.
  public mutating func isOfThisRun(refreshToken: Bool = true) {
    stamps = Stamps(token: true, refreshToken: refreshToken)
  }

  /// Somebody set the wall clock: what this run stamped moves with it, and keeps the life that it has. A token from the
  /// disk may have been stamped by either clock, and gets the shorter life of the two. True: commit ``saved`` and
  /// ``token``.
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
