public import OAuth

// Tokens of one grant for fewer scopes or another resource (RFC 6749 §6, RFC 8707 §2.2). Each is requested, refreshed
// and expired independently, and none replaces another.
extension Grant {
  public struct Narrowed: Sendable, Equatable {
    public internal(set) var token: SavedToken?
    /// A caller used this token: it is refreshed before it expires.
    var isAsked = false
    var isOfThisRun = false
    /// The requester that it was first requested for; empty: unknown.
    var asker = ""
    /// The provider issues no such token, as far as is known until then.
    var refusal: Refusal?

    struct Refusal: Sendable, Equatable {
      var failure: FailureRecord
      var until: Timestamp
      /// The request failed for a temporary reason, such as an outage.
      var isTemporary = false
    }

    /// The maximum number of narrowed tokens per account.
    public static let most = 32
    /// The maximum number of tokens per requester before its next one replaces one of them. Also the maximum number of
    /// its pending requests.
    static let mostOfAsker = 8
    /// The time before a refused scope or resource is requested again.
    static let refusalLife = Duration.seconds(900)
    /// The same if the provider did not name the scope or the resource as the reason.
    static let unclearRefusalLife = Duration.seconds(60)
    /// The pause after an exchange that failed for a temporary reason.
    static let retryPause = Duration.seconds(5)
  }

  /// A token that a caller is waiting for.
  struct Wish: Sendable, Equatable {
    let key: SavedToken.Key
    /// Requesters are served in rotation; empty: the broker itself.
    let asker: String
    /// The end of the caller's wait.
    var until: Timestamp
  }

  public func token(for key: SavedToken.Key) -> SavedToken? { key.isNarrowed ? narrowed[key]?.token : token }

  /// All tokens that should be stored.
  public var livingTokens: [SavedToken] {
    let main = token.flatMap { $0.generation == rejectedGeneration ? nil : $0 }
    return (main.map { [$0] } ?? []) + narrowed.values.compactMap(\.token)
  }

  /// Whether this run of the broker obtained the token; otherwise it was loaded from disk.
  public func isOfThisRun(_ key: SavedToken.Key) -> Bool {
    key.isNarrowed ? narrowed[key]?.isOfThisRun ?? false : stamps.token
  }

  /// Reports of callers that a token was refused, oldest first.
  public var reports: [(generation: Int64, report: TokenReport)] {
    livingTokens.flatMap { token in token.reports.map { (token.generation, $0) } }.sorted { $0.1.at < $1.1.at }
  }

  /// Keeps the report of a caller about the same token, which is only in memory.
  public mutating func keepRejection(of earlier: Grant) {
    guard earlier.isTokenRejected, earlier.saved.loggedInAt == saved.loggedInAt,
      earlier.mainGeneration == mainGeneration
    else { return }
    rejectedGeneration = earlier.rejectedGeneration
  }

  /// No caller may get the login's own token any more.
  public var isTokenRejected: Bool { rejectedGeneration.map { $0 == mainGeneration } ?? false }

  /// The generation of the login's own token. It equals the grant's generation until a narrowed token is issued.
  public var mainGeneration: Int64 {
    if let token { return token.generation }
    return rejectedGeneration ?? saved.generation
  }

  /// A caller is waiting for this token, which is requested before tokens that are due.
  ///
  /// - Parameters:
  ///   - asker: the requester, which has one share in the rotation for all its callers.
  ///   - until: the end of the caller's wait.
  public mutating func wants(
    _ key: SavedToken.Key, by asker: String = "", until: Timestamp = Timestamp(milliseconds: .max)
  ) {
    if isBeingRequested(key) { return }
    // The login's own token is the same for all.
    let asker = key.isNarrowed ? asker : ""
    if let index = wanted.firstIndex(where: { $0.key == key && $0.asker == asker }) {
      wanted[index].until = max(wanted[index].until, until)
      return
    }
    if key.isNarrowed {
      guard wanted.count <= Narrowed.most else { return }
      guard asker.isEmpty || wanted.count(where: { $0.asker == asker }) < Narrowed.mostOfAsker else { return }
    }
    wanted.append(Wish(key: key, asker: asker, until: until))
  }

  /// The caller stopped waiting.
  public mutating func unwants(_ key: SavedToken.Key, by asker: String) {
    wanted.removeAll { $0.key == key && $0.asker == asker }
  }

  /// Whether a caller of this requester is waiting for the token.
  public func isWanted(_ key: SavedToken.Key, by asker: String) -> Bool {
    wanted.contains { $0.key == key && $0.asker == asker }
  }

  /// Whether the token needs no further request: it is being requested, or this requester is already waiting for it.
  public func isRequested(_ key: SavedToken.Key, by asker: String) -> Bool {
    isBeingRequested(key) || isWanted(key, by: asker)
  }

  private func isBeingRequested(_ key: SavedToken.Key) -> Bool {
    switch phase {
    case .refreshing(let attempt), .overdue(let attempt, _), .committing(let attempt, _): attempt.key == key
    case .idle: false
    }
  }

  /// A caller got the token, so it will be refreshed before it expires. True: this is its first use.
  public mutating func served(_ key: SavedToken.Key) -> Bool {
    guard narrowed[key]?.isAsked == false else { return false }
    narrowed[key]?.isAsked = true
    return true
  }

  /// Whether a request has a reason: a caller waits for a token, or one is due. The last callers may have stopped waiting.
  public mutating func hasReason(at now: Timestamp, policy: RefreshPolicy, narrowing: NarrowingMethod) -> Bool {
    dropVainWishes(at: now, narrowing: narrowing)
    return !wanted.isEmpty || nextMoment(policy: policy, at: now).map { $0 <= now } ?? false
  }

  private mutating func dropVainWishes(at now: Timestamp, narrowing: NarrowingMethod) {
    wanted = wanted.filter { $0.until >= now && refusal(of: $0.key, at: now) == nil }
    if narrowing == .unavailable { clearNarrowedWishes() }
  }

  /// The token to request now: the login's own first, since most callers need it; then those of the requesters in
  /// rotation.
  mutating func nextKey(at now: Timestamp, policy: RefreshPolicy, narrowing: NarrowingMethod) -> SavedToken.Key {
    dropVainWishes(at: now, narrowing: narrowing)
    let last = lastAsker
    lastAsker = ""
    guard !isDoubted else { return SavedToken.Key() }
    // An exchange presents the account's own token; the pending requests are kept until that token exists.
    let hasUsable = token.map { isUsable($0, minimumTTL: nil, at: now, policy: policy) } ?? false
    let canNarrow = narrowing == .refresh || hasUsable
    if let wish = nextWish(after: last) {
      guard canNarrow && !wish.key.needsExchange || hasUsable || !wish.key.isNarrowed else { return SavedToken.Key() }
      wanted.removeAll { $0.key == wish.key }
      lastAsker = wish.asker
      return wish.key
    }
    guard case .good = saved.standing, let token, token.generation != rejectedGeneration,
      mainMoment(token, policy: policy, at: now).map({ $0 > now }) ?? true,
      let due = narrowedMoment(policy: policy, at: now), due.moment <= now
    else { return SavedToken.Key() }
    return due.key
  }

  /// Stops requesting narrowed tokens, even if callers used them.
  private mutating func clearNarrowedWishes() {
    wanted.removeAll(where: \.key.isNarrowed)
    for key in narrowed.keys { narrowed[key]?.isAsked = false }
  }

  private func nextWish(after last: String) -> Wish? {
    wanted.first { !$0.key.isNarrowed } ?? wanted.first { $0.asker != last } ?? wanted.first
  }

  /// The first narrowed token that should be refreshed, and the time.
  func narrowedMoment(policy: RefreshPolicy, at now: Timestamp) -> (key: SavedToken.Key, moment: Timestamp)? {
    guard !narrowed.isEmpty else { return nil }
    let moments = narrowed.compactMap { key, narrowed -> (key: SavedToken.Key, moment: Timestamp)? in
      guard narrowed.isAsked, narrowed.refusal.map({ $0.until <= now }) ?? true, let token = narrowed.token,
        let moment = policy.softRefresh(of: token, jitter: jitter)
      else { return nil }
      return (key, token.issuedAt > now + RefreshPolicy.clockTolerance ? now : moment)
    }
    return moments.min { $0.moment < $1.moment }
  }

  func refusal(of key: SavedToken.Key, at now: Timestamp) -> Narrowed.Refusal? {
    guard let refusal = narrowed[key]?.refusal, refusal.until > now,
      refusal.until - now <= Narrowed.refusalLife
    else { return nil }
    return refusal
  }

  /// Whether the provider refused this narrowed token for a reason that is not temporary.
  public func isRefused(_ key: SavedToken.Key, at now: Timestamp) -> Bool {
    refusal(of: key, at: now).map { !$0.isTemporary } ?? false
  }

  /// Remembers that the provider refused a narrowed token. Such a refusal never ends the grant: otherwise a caller that
  /// may request any resource could end it. False: the failure is not a refusal.
  mutating func refuses(_ key: SavedToken.Key, _ failure: ProviderFailure, _ told: FailureRecord) -> Bool {
    guard key.isNarrowed else { return false }
    var life = Narrowed.refusalLife
    switch failure {
    case .misconfigured(_, let oauth?):
      // These codes concern only the scope or the resource; others may concern the client.
      isDoubted = oauth.code != .invalidScope && oauth.code != .invalidTarget
    case .ended(.refused, _, _): isDoubted = true
    case .requestRefused: life = Narrowed.unclearRefusalLife
    default: return false
    }
    remember(Narrowed.Refusal(failure: told, until: told.at + life), of: key, at: told.at)
    return true
  }

  private mutating func remember(_ refusal: Narrowed.Refusal, of key: SavedToken.Key, at now: Timestamp) {
    for dropped in room(for: key, at: now) where narrowed[dropped]?.token == nil { narrowed[dropped] = nil }
    narrowed[key, default: Narrowed(asker: lastAsker)].refusal = refusal
  }

  /// A token exchange failed. The refresh token was not presented, so the grant is unaffected.
  mutating func exchangeFailed(_ attempt: Attempt, _ failure: ProviderFailure, _ told: FailureRecord) -> Failed {
    let refusal: Narrowed.Refusal
    switch failure {
    case .rateLimited(_, _, let retryAfter), .tryLater(_, _, let retryAfter), .unclear(_, let retryAfter):
      let pause = min(max(retryAfter ?? .zero, Narrowed.retryPause), Narrowed.refusalLife)
      refusal = .init(failure: told, until: told.at + pause, isTemporary: true)
    case .lost, .notSent, .blocked:
      refusal = .init(failure: told, until: told.at + Narrowed.retryPause, isTemporary: true)
    case .requestRefused(_, nil, _):
      refusal = .init(failure: told, until: told.at + Narrowed.unclearRefusalLife)
    case .misconfigured, .ended, .requestRefused, .invalid, .rejected, .tokenRefused, .denied, .unsupported:
      refusal = .init(failure: told, until: told.at + Narrowed.refusalLife)
    }
    remember(refusal, of: attempt.key, at: told.at)
    return .refused(saved)
  }

  /// The tokens to drop to make room for one more: first those without a token, then the earliest expiry. A requester
  /// at its limit loses one of its own.
  func room(for key: SavedToken.Key, at now: Timestamp) -> [SavedToken.Key] {
    guard key.isNarrowed, narrowed[key] == nil, narrowed.count >= Narrowed.most else { return [] }
    func end(_ narrowed: Narrowed) -> Timestamp {
      narrowed.token.map { $0.expiresAt ?? now + .seconds(1_000_000_000) } ?? Timestamp(milliseconds: .min)
    }
    let inOrder = narrowed.sorted { one, other in
      (end(one.value), one.key.scope, one.key.target) < (end(other.value), other.key.scope, other.key.target)
    }
    let own = lastAsker.isEmpty ? [] : inOrder.filter { $0.value.asker == lastAsker }
    return (own.count < Narrowed.mostOfAsker ? inOrder : own).prefix(narrowed.count - Narrowed.most + 1).map(\.key)
  }

  /// The clock was changed: the same as for the login's own token.
  mutating func moveNarrowed(by step: Duration) -> Bool {
    var isChanged = false
    for key in narrowed.keys {
      narrowed[key]?.refusal = nil
      guard narrowed[key]?.isOfThisRun == true || step < .zero, narrowed[key]?.token != nil else { continue }
      narrowed[key]?.token?.moves(by: step)
      isChanged = true
    }
    return isChanged
  }
}
