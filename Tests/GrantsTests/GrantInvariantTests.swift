import Grants
import OAuth
import Testing

/// Random events, and what must hold whatever happens.
@Suite struct GrantInvariantTests {
  struct World {
    var random: Random
    let rotation: Rotation
    let policy = RefreshPolicy()
    var grant: Grant
    var clock = 0.0
    /// What is on disk.
    var disk: (grant: SavedGrant, token: SavedToken)
    var narrowed: [SavedToken.Key: SavedToken] = [:]
    var intent: RefreshIntent?
    /// Attempts that have had no answer, the latest last; also late ones.
    var open: [Grant.Attempt] = []
    /// Those that had an answer that cannot be used: they can only fail.
    var failing: Set<Grant.Attempt> = []
    var granted = 1
    var highest: Int64 = 1
    var rejected: Set<Int64> = []
    /// The first promise that was broken.
    var broken: String?

    init(seed: UInt64) {
      random = Random(seed: seed)
      rotation = [.none, .strict, .grace(.seconds(30))][Int(seed % 3)]
      disk = (savedGrant(), savedToken())
      grant = Grant(saved: disk.grant, token: disk.token, jitter: 0.5)
    }

    private mutating func demand(_ holds: Bool, _ what: String) {
      if !holds, broken == nil { broken = what }
    }

    mutating func step() {
      clock += [0, 0.1, 5, 60, 2000, 4000][random.below(6)]
      if random.below(40) == 0 { clock += [-3e7, 3e7, -30][random.below(3)] }
      switch random.below(13) {
      case 0, 1, 2: begin()
      case 3, 4: answer()
      case 5, 6: fail()
      case 7: commit()
      case 8: reject()
      case 9: due()
      case 10: random.below(4) == 0 ? restart() : grant.retryNow(at: at(clock))
      case 11: overdue()
      default: if random.below(5) == 0 { replace() }
      }
    }

    /// The login's own token, and narrowed ones: more than are kept.
    private mutating func anyKey() -> SavedToken.Key {
      guard random.below(3) == 0 else { return SavedToken.Key() }
      return SavedToken.Key(scope: "scope-\(random.below(Grant.Narrowed.most + 8))")
    }

    mutating func begin() {
      let wasIdle = grant.phase == .idle
      if random.below(2) == 0 { grant.wants(anyKey()) }
      if let key = grant.narrowed.keys.randomElement(using: &random) { _ = grant.served(key) }
      let narrowing: NarrowingMethod = random.below(4) == 0 ? .exchange : .refresh
      guard case .begun(let attempt, let intent) = grant.beginRefresh(at: at(clock), narrowing: narrowing) else {
        return
      }
      demand(wasIdle, "two attempts in flight")
      demand(attempt.refreshToken == grant.saved.refreshToken, "another refresh token was sent")
      demand((intent == nil) == attempt.isExchange, "an exchange spends no refresh token, and a refresh does")
      if let intent { self.intent = intent }
      open.append(attempt)
    }

    mutating func answer() {
      guard let attempt = open.randomElement(using: &random), !failing.contains(attempt) else { return }
      granted += 1
      let token = [nil, "", "refresh-\(granted)", attempt.refreshToken.exposed][random.below(4)]
      let lifetime = [nil, 0, 1, 60, 3600][random.below(5)]
      let isCurrent = isWaited(for: attempt)
      // Some have no access token, and then another refresh token.
      let isUsable = attempt.isExchange || token?.hasSuffix("-\(granted)") != true || random.below(3) > 0
      let outcome =
        isUsable
        ? grant.answered(
          attempt, issued(access: "access-\(granted)", refresh: token, lifetime: lifetime), rotation: rotation,
          refreshTokenLifetime: nil)
        : grant.rotated(
          attempt, to: RotatedToken(token: Secret(token ?? "")), rotation: rotation, refreshTokenLifetime: nil)
      demand((outcome != .discard) == isCurrent, "a late answer was taken, or a good one discarded")
      guard case .commit(let renewal) = outcome else { return }
      demand(renewal.grant.generation == grant.saved.generation + 1, "the generation did not go on by one")
      let newest = token.flatMap { $0.isEmpty ? nil : Secret($0) } ?? attempt.refreshToken
      let isBound = attempt.key.isNarrowed && rotation == .none
      if attempt.isExchange || isBound {
        demand(renewal.grant.refreshToken == attempt.refreshToken, "a narrowed token replaced the refresh token")
        let isKept = newest == attempt.refreshToken || renewal.grant.previousRefreshToken == newest
        demand(attempt.isExchange || isKept, "a granted refresh token is lost")
      } else {
        demand(renewal.grant.refreshToken == newest, "a granted refresh token is lost")
      }
      if isUsable { open.removeAll { $0 == attempt } } else { failing.insert(attempt) }
    }

    private func isWaited(for attempt: Grant.Attempt) -> Bool {
      switch grant.phase {
      case .refreshing(attempt), .overdue(attempt, _): true
      case .idle, .refreshing, .overdue, .committing: false
      }
    }

    mutating func overdue() {
      guard let attempt = open.randomElement(using: &random) else { return }
      let isCurrent = grant.phase == .refreshing(attempt)
      let saved = grant.overdue(attempt, FailureRecord(message: "", at: at(clock)), policy: policy)
      demand((saved != nil) == isCurrent, "an answer is overdue without a waiting attempt")
      if let saved { disk.grant = saved }
    }

    mutating func commit() {
      guard case .committing(let attempt, let renewal) = grant.phase else { return }
      let jitter = Double(random.below(101)) / 100
      let taken = grant.committed(attempt, jitter: jitter)
      demand(taken, "a commit was not taken")
      disk.grant = renewal.grant
      if !attempt.isExchange { intent = nil }
      guard let token = renewal.token else {
        return demand(grant.phase == .refreshing(attempt), "an answer that cannot be used did not fail")
      }
      demand(token.key == attempt.key, "another token came than was asked for")
      guard attempt.key.isNarrowed else { return disk.token = token }
      for key in renewal.dropped { narrowed[key] = nil }
      narrowed[attempt.key] = token
    }

    mutating func fail() {
      guard let attempt = open.randomElement(using: &random) else { return }
      let failures =
        GrantEventTests.failures + [.lost(message: ""), .unclear(message: "", retryAfter: .seconds(100_000))]
      let isCurrent = isWaited(for: attempt)
      let failure = failures[random.below(failures.count)]
      let kept = [grant.saved.refreshToken, grant.saved.previousRefreshToken]
      var before = disk.grant
      before.standing = grant.saved.standing
      let outcome = grant.failed(
        attempt, failure, at: at(clock), policy: policy, jitter: 0.5, rotation: rotation)
      demand((outcome != .discard) == isCurrent, "a late answer was taken, or a good one discarded")
      if isCurrent { demand(kept.contains(grant.saved.refreshToken), "a failure lost the refresh token") }
      switch outcome {
      case .retry(let saved, let retryAt):
        let longest = max(policy.longestRetryAfter, policy.retryDelays.max() ?? .zero)
        demand(retryAt <= at(clock) + longest, "a wait is too long")
        disk.grant = saved
        intent = grant.intent
      case .ended(let saved, _), .misconfigured(let saved), .refused(let saved):
        if case .refused = outcome {
          demand(attempt.key.isNarrowed && saved == before, "a refused scope says something of the grant")
        }
        disk.grant = saved
        intent = grant.intent
      case .discard: break
      }
    }

    mutating func reject() {
      var generation = max(1, disk.token.generation - Int64(random.below(2)))
      if random.below(3) == 0, let token = narrowed.values.randomElement(using: &random) {
        generation = token.generation
      }
      switch grant.rejected(generation: generation, at: at(clock)) {
      case .stale: break
      case .refresh: rejected.insert(generation)
      case .refreshNarrowed(let key):
        demand(narrowed[key]?.generation == generation, "another token was dropped")
        narrowed[key] = nil
        rejected.insert(generation)
      case .ended(let saved):
        rejected.insert(generation)
        disk.grant = saved
      }
    }

    mutating func due() {
      if case .ended(let saved) = grant.due(at: at(clock), policy: policy) { disk.grant = saved }
    }

    /// A crash: what is under way is lost, with every answer that was not committed.
    mutating func restart() {
      // Their connections ended with the process, and the numbers of attempts begin again.
      (open, failing) = ([], [])
      grant = Grant(
        saved: disk.grant, token: disk.token, narrowed: Array(narrowed.values), intent: intent, jitter: 0.5)
      // Rejections live in memory, except those that ended the grant.
      if case .loginRequired(.noRefreshToken, _) = disk.grant.standing {} else { rejected = [] }
    }

    mutating func replace() {
      granted += 1
      let generation = max(grant.saved.generation, highest) + 1
      let refreshToken = random.below(4) == 0 ? nil : "refresh-\(granted)"
      let saved = savedGrant(refreshToken: refreshToken, generation: generation)
      let token = savedToken(lifetime: random.below(3) == 0 ? nil : 3600, issued: clock, generation: generation)
      grant.replaced(by: saved, token: token, jitter: 0.5)
      disk = (saved, token)
      narrowed = [:]
      intent = nil
    }

    mutating func check() {
      let generation = grant.saved.generation
      demand(generation >= highest, "the generation went back")
      highest = max(highest, generation)
      let newest = ([disk.token] + narrowed.values).map(\.generation).max() ?? 0
      demand(newest <= generation, "a token is newer than its grant")
      let generations = ([disk.token] + narrowed.values).map(\.generation)
      demand(Set(generations).count == generations.count, "two tokens have one generation")
      demand(narrowed.count <= Grant.Narrowed.most, "too many tokens are kept")
      demand(
        Dictionary(uniqueKeysWithValues: narrowed.map { ($0, $1) })
          == grant.narrowed.compactMapValues(\.token), "memory and disk disagree about narrowed tokens")
      var saved = disk.grant
      // Trying now is not worth a write.
      saved.standing = grant.saved.standing
      demand(grant.saved == saved && grant.token == disk.token, "memory and disk disagree")
      let minimum = [nil, .zero, .seconds(60), .seconds(1_000_000)][random.below(4)] as Duration?
      let key = anyKey()
      switch grant.answer(minimumTTL: minimum, at: at(clock), policy: policy, key: key) {
      case .token(let token):
        demand(token.key == key, "another token was served than was asked for")
        demand(token == (key.isNarrowed ? narrowed[key] : disk.token), "a token was served that is not on disk")
        demand(token.expiresAt.map { $0 > at(clock) } ?? true, "an expired token was served")
        demand(!rejected.contains(token.generation), "a rejected token was served")
      case .wait: demand(grant.phase != .idle || grant.awaitsSecondTry, "a wait for nothing")
      case .refresh: demand(grant.phase == .idle && grant.saved.refreshToken != nil, "no refresh is possible")
      case .temporarilyUnavailable(_, let retryAt): demand(retryAt > at(clock), "a wait until before now")
      case .refused: demand(key.isNarrowed && grant.phase == .idle, "a scope is refused that was granted")
      case .unproven: demand(false, "nothing was imported")
      case .loginRequired, .misconfigured: demand(grant.phase == .idle, "an end while a refresh is under way")
      }
      let moment = grant.nextMoment(policy: policy, at: at(clock))
      demand(moment == nil || grant.phase == .idle, "something is due while a refresh is under way")
    }
  }

  @Test("Whatever happens in whatever order: one attempt, no way back, nothing lost, nothing bad served")
  func invariants() {
    for seed in 0..<2000 as Range<UInt64> {
      var world = World(seed: seed)
      for step in 0..<60 {
        world.step()
        world.check()
        guard let broken = world.broken else { continue }
        Issue.record("seed \(seed), step \(step): \(broken)")
        return
      }
    }
  }
}
