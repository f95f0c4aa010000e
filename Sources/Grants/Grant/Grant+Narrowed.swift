import OAuth

// Tokens for fewer scopes or another resource, under one grant: each is had, refreshed and over by itself, and none takes
// another's place (RFC 6749 §6, RFC 8707 §2.2).
extension Grant {
  public struct Narrowed: Sendable, Equatable {
    public internal(set) var token: SavedToken?
    /// Somebody wanted this one: it is refreshed before it ends.
    var isAsked = false
    var isOfThisRun = false
    /// The provider gives none, as far as is known until then.
    var refusal: Refusal?

    struct Refusal: Sendable, Equatable {
      var failure: Failure
      var until: Timestamp
    }

    /// So many are kept for each account.
    public static let most = 32
    /// For so long a refused scope or resource is not asked for again.
    static let refusalLife = Duration.seconds(900)
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

  /// A caller waits for this one: it is asked for before those that are merely due.
  public mutating func wants(_ key: SavedToken.Key) {
    if !wanted.contains(key), wanted.count <= Narrowed.most { wanted.append(key) }
  }

  /// A caller got it, and will want another when it ends. True: nobody had asked for it before.
  public mutating func served(_ key: SavedToken.Key) -> Bool {
    guard narrowed[key]?.isAsked == false else { return false }
    narrowed[key]?.isAsked = true
    return true
  }

  /// What to ask for now.
  mutating func nextKey(at now: Timestamp, policy: RefreshPolicy) -> SavedToken.Key {
    if !wanted.isEmpty { return wanted.removeFirst() }
    guard case .good = saved.standing, let token, token.generation != rejectedGeneration,
      mainMoment(token, policy: policy, at: now).map({ $0 > now }) ?? true,
      let due = narrowedMoment(policy: policy, at: now), due.moment <= now
    else { return SavedToken.Key() }
    return due.key
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

  func refusal(of key: SavedToken.Key, at now: Timestamp) -> Failure? {
    guard let refusal = narrowed[key]?.refusal, refusal.until > now,
      refusal.until - now <= Narrowed.refusalLife
    else { return nil }
    return refusal.failure
  }

  /// Whether a failure is about the scope or resource of a narrowed token alone; then it is remembered.
  mutating func refuses(_ key: SavedToken.Key, _ failure: ProviderFailure, _ told: Failure) -> Bool {
    guard key.isNarrowed, case .misconfigured(_, let oauth) = failure,
      oauth?.code == .invalidScope || oauth?.code == .invalidTarget
    else { return false }
    for dropped in room(for: key, at: told.at) where narrowed[dropped]?.token == nil { narrowed[dropped] = nil }
    narrowed[key, default: Narrowed()].refusal = .init(failure: told, until: told.at + Narrowed.refusalLife)
    return true
  }

  /// Those that go so that one more has room: without a token first, then the one that ends first.
  func room(for key: SavedToken.Key, at now: Timestamp) -> [SavedToken.Key] {
    guard key.isNarrowed, narrowed[key] == nil, narrowed.count >= Narrowed.most else { return [] }
    func end(_ narrowed: Narrowed) -> Timestamp {
      narrowed.token.map { $0.expiresAt ?? now + .seconds(1_000_000_000) } ?? Timestamp(milliseconds: .min)
    }
    let inOrder = narrowed.sorted { one, other in
      (end(one.value), one.key.scope, one.key.resource) < (end(other.value), other.key.scope, other.key.resource)
    }
    return inOrder.prefix(narrowed.count - Narrowed.most + 1).map(\.key)
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
