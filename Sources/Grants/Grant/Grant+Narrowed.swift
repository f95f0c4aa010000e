public import OAuth

// Tokens for fewer scopes or another resource, under one grant: each is had, refreshed and over by itself, and none takes
// another's place (RFC 6749 §6, RFC 8707 §2.2).
extension Grant {
  public struct Narrowed: Sendable, Equatable {
    public internal(set) var token: SavedToken?
    /// Somebody wanted this one: it is refreshed before it ends.
    var isAsked = false
    var isOfThisRun = false
    /// The asker that it was first requested for; empty: not known.
    var asker = ""
    /// The provider gives none, as far as is known until then.
    var refusal: Refusal?

    struct Refusal: Sendable, Equatable {
      var failure: Failure
      var until: Timestamp
      /// The request failed for a reason that may pass, such as an outage.
      var isTemporary = false
    }

    /// Kept for each account, at most.
    public static let most = 32
    /// An asker with so many makes room for its next one itself. Also the wishes that one asker may have.
    static let mostOfAsker = 8
    /// A refused scope or resource is not requested again for so long.
    static let refusalLife = Duration.seconds(900)
    /// The same where the provider did not say that the scope or the resource is the reason.
    static let unclearRefusalLife = Duration.seconds(60)
    /// The pause after an exchange that failed for a reason that may pass.
    static let retryPause = Duration.seconds(5)
  }

  /// A token that a caller waits for.
  struct Wish: Sendable, Equatable {
    let key: SavedToken.Key
    /// Askers take turns; empty: the broker itself.
    let asker: String
    /// The caller waits until then.
    var until: Timestamp
  }

  public func token(for key: SavedToken.Key) -> SavedToken? { key.isNarrowed ? narrowed[key]?.token : token }

  /// All that should be on disk.
  public var livingTokens: [SavedToken] {
    let main = token.flatMap { $0.generation == rejectedGeneration ? nil : $0 }
    return (main.map { [$0] } ?? []) + narrowed.values.compactMap(\.token)
  }

  /// Whether this run of the broker got the token; else it is from the disk.
  public func isOfThisRun(_ key: SavedToken.Key) -> Bool {
    key.isNarrowed ? narrowed[key]?.isOfThisRun ?? false : stamps.token
  }

  /// Reports of callers that a token was refused, the latest last.
  public var reports: [(generation: Int64, report: TokenReport)] {
    livingTokens.flatMap { token in token.reports.map { (token.generation, $0) } }.sorted { $0.1.at < $1.1.at }
  }

  /// The login's own token is one that nobody gets any more.
  public var isTokenRejected: Bool { rejectedGeneration.map { $0 == mainGeneration } ?? false }

  /// The generation of the login's own token: that of the grant until narrowed ones have been had since.
  public var mainGeneration: Int64 {
    if let token { return token.generation }
    return rejectedGeneration ?? saved.generation
  }

  /// A caller waits for this token, which is requested before those that are due.
  ///
  /// - Parameters:
  ///   - asker: who shares one turn among the callers.
  ///   - until: how long the caller waits.
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

  /// Whether a caller of this asker is known to wait for the token.
  public func isWanted(_ key: SavedToken.Key, by asker: String) -> Bool {
    wanted.contains { $0.key == key && $0.asker == asker }
  }

  /// Whether the token will be there without a further request: it is being requested, or this asker waits for it already.
  public func isRequested(_ key: SavedToken.Key, by asker: String) -> Bool {
    isBeingRequested(key) || isWanted(key, by: asker)
  }

  private func isBeingRequested(_ key: SavedToken.Key) -> Bool {
    switch phase {
    case .refreshing(let attempt), .overdue(let attempt, _), .committing(let attempt, _): attempt.key == key
    case .idle: false
    }
  }

  /// A caller got it, and will want another when it ends. True: nobody had asked for it before.
  public mutating func served(_ key: SavedToken.Key) -> Bool {
    guard narrowed[key]?.isAsked == false else { return false }
    narrowed[key]?.isAsked = true
    return true
  }

  /// The token to request now: the login's own first, as most callers need that; then those of the askers in turn.
  mutating func nextKey(at now: Timestamp, policy: RefreshPolicy, narrowing: NarrowingMethod) -> SavedToken.Key {
    wanted = wanted.filter { $0.until >= now && refusal(of: $0.key, at: now) == nil }
    if narrowing == .unavailable { forgetNarrowedWishes() }
    let last = lastAsker
    lastAsker = ""
    guard !isDoubted else { return SavedToken.Key() }
    // An exchange presents the account's own token; until that exists the wishes are kept.
    let canNarrow =
      narrowing == .refresh || token.map { isUsable($0, minimumTTL: nil, at: now, policy: policy) } ?? false
    if let wish = nextWish(after: last) {
      guard canNarrow || !wish.key.isNarrowed else { return SavedToken.Key() }
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

  /// No narrowed token is requested any more, not even for callers that used one.
  private mutating func forgetNarrowedWishes() {
    wanted.removeAll(where: \.key.isNarrowed)
    for key in narrowed.keys { narrowed[key]?.isAsked = false }
  }

  private func nextWish(after last: String) -> Wish? {
    wanted.first { !$0.key.isNarrowed } ?? wanted.first { $0.asker != last } ?? wanted.first
  }

  /// The first narrowed token that should be refreshed, and when.
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

  /// Whether the provider refused this narrowed token, for a reason that does not pass soon.
  public func isRefused(_ key: SavedToken.Key, at now: Timestamp) -> Bool {
    refusal(of: key, at: now).map { !$0.isTemporary } ?? false
  }

  /// Remembers that the provider refused a narrowed token. What it says of one is never the end of the grant: who may ask
  /// for any resource could end it otherwise. False: the failure is not a refusal.
  mutating func refuses(_ key: SavedToken.Key, _ failure: ProviderFailure, _ told: Failure) -> Bool {
    guard key.isNarrowed else { return false }
    var life = Narrowed.refusalLife
    switch failure {
    case .misconfigured(_, let oauth?):
      // Of the scope or the resource alone; other codes may be about the client.
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

  /// A token exchange failed. The refresh token was not presented, so the grant is as good as before.
  mutating func exchangeFailed(_ attempt: Attempt, _ failure: ProviderFailure, _ told: Failure) -> Failed {
    let refusal: Narrowed.Refusal
    switch failure {
    case .tryLater(_, _, let retryAfter), .unclear(_, let retryAfter):
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

  /// Those that are dropped so that one more has room: first those without a token, then by their end. An asker with many
  /// makes room itself.
  func room(for key: SavedToken.Key, at now: Timestamp) -> [SavedToken.Key] {
    guard key.isNarrowed, narrowed[key] == nil, narrowed.count >= Narrowed.most else { return [] }
    func end(_ narrowed: Narrowed) -> Timestamp {
      narrowed.token.map { $0.expiresAt ?? now + .seconds(1_000_000_000) } ?? Timestamp(milliseconds: .min)
    }
    let inOrder = narrowed.sorted { one, other in
      (end(one.value), one.key.scope, one.key.resource) < (end(other.value), other.key.scope, other.key.resource)
    }
    let own = lastAsker.isEmpty ? [] : inOrder.filter { $0.value.asker == lastAsker }
    return (own.count < Narrowed.mostOfAsker ? inOrder : own).prefix(narrowed.count - Narrowed.most + 1).map(\.key)
  }

  /// The clock was set: as for the login's own token.
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
