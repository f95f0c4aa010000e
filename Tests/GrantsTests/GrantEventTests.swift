import Grants
import OAuth
import Testing

/// Every event in every phase: what does not belong there changes nothing.
@Suite struct GrantEventTests {
  enum Place: String, CaseIterable, Sendable {
    case idle, refreshing, overdue, committing, replaced

    var isAnswerTaken: Bool { self == .refreshing || self == .overdue }
  }

  static let failures: [ProviderFailure] = [
    invalidGrant, .ended(.identityChanged, message: "", nil), .misconfigured(message: "", nil),
    .rateLimited(message: "", nil, retryAfter: nil), .tryLater(message: "", nil, retryAfter: nil),
    .unclear(message: "", retryAfter: nil), .lost(message: ""),
    .notSent(message: ""), .invalid(message: "", nil),
    .requestRefused(message: "", OAuthError(code: OAuthErrorCode(rawValue: "invalid_request")), retryAfter: nil),
  ]

  /// A grant in this phase, and the last attempt that it made.
  private func grant(in place: Place) -> (Grant, Grant.Attempt) {
    var grant = Grant(saved: savedGrant(), token: savedToken(), jitter: 0)
    let attempt = grant.begun(at: at(2900))
    switch place {
    case .idle:
      _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
      _ = grant.committed(attempt, jitter: 0)
    case .refreshing: break
    case .overdue: _ = grant.overdue(attempt, FailureRecord(message: "late", at: at(2930)), policy: steady)
    case .committing: _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
    case .replaced:
      var new = savedGrant(refreshToken: "refresh-9", generation: 5)
      new.loggedInAt = at(2950)
      grant.replaced(by: new, token: savedToken(issued: 2950, generation: 5), jitter: 0)
    }
    return (grant, attempt)
  }

  @Test("An answer is taken while its own request is under way, and at no other time", arguments: Place.allCases)
  func answered(place: Place) {
    var (grant, attempt) = grant(in: place)
    let (saved, token) = (grant.saved, grant.token)
    let late = issued(access: "late", refresh: "refresh-late")
    let outcome = grant.answered(attempt, late, rotation: .strict, refreshTokenLifetime: nil)
    #expect((outcome == .discard) == !place.isAnswerTaken)
    #expect(grant.saved == saved)
    #expect(grant.token == token)
  }

  @Test("A commit counts while its own renewal is being written", arguments: Place.allCases)
  func committed(place: Place) {
    var (grant, attempt) = grant(in: place)
    let saved = grant.saved
    #expect(grant.committed(attempt, jitter: 0) == (place == .committing))
    if place != .committing { #expect(grant.saved == saved) }
  }

  @Test("A failure counts while its own request is under way", arguments: Place.allCases, failures)
  func failed(place: Place, failure: ProviderFailure) {
    var (grant, attempt) = grant(in: place)
    let (saved, token, phase) = (grant.saved, grant.token, grant.phase)
    let outcome = grant.failed(attempt, failure, at: at(3000), policy: steady, jitter: 0)
    #expect(grant.token == token, "no failure takes the token away")
    #expect(grant.saved.refreshToken == saved.refreshToken, "nor the refresh token")
    guard place.isAnswerTaken else {
      #expect(outcome == .discard)
      #expect(grant.saved == saved)
      #expect(grant.phase == phase)
      return
    }
    #expect(outcome != .discard)
    #expect(grant.phase == .idle)
    switch (failure, outcome) {
    case (.ended(let reason, _, _), .ended(let saved, let told)): #expect(saved == grant.saved && told == reason)
    case (.misconfigured, .misconfigured(let saved)): #expect(saved == grant.saved)
    case (.rateLimited, .retry(let saved, _)), (.tryLater, .retry(let saved, _)), (.notSent, .retry(let saved, _)),
      (.requestRefused, .retry(let saved, _)):
      #expect(saved == grant.saved && grant.intent == nil)
    case (.unclear, .retry(let saved, _)), (.lost, .retry(let saved, _)), (.invalid, .retry(let saved, _)):
      #expect(saved == grant.saved && grant.intent?.attempts == 1)
    default: Issue.record("\(failure) made \(outcome)")
    }
    #expect(grant.answer(minimumTTL: nil, at: at(3001), policy: steady) == .token(savedToken()))
  }

  @Test("An answer is overdue while its own request is under way, once", arguments: Place.allCases)
  func overdue(place: Place) {
    var (grant, attempt) = grant(in: place)
    let (saved, phase) = (grant.saved, grant.phase)
    let failure = FailureRecord(message: "no answer", at: at(3000))
    let outcome = grant.overdue(attempt, failure, policy: steady)
    guard place == .refreshing else {
      #expect(outcome == nil && grant.saved == saved && grant.phase == phase)
      return
    }
    #expect(outcome == grant.saved && grant.phase == .overdue(attempt, failure))
    #expect(grant.saved.standing == .failing(failure, count: 1, retryAt: at(3005)))
    #expect(grant.intent?.attempts == 1 && grant.saved.refreshToken == saved.refreshToken)
    // It is never sent a second time: not when it is due, nor for a caller, nor when the network is back.
    grant.retryNow(at: at(4000))
    #expect(grant.nextMoment(policy: steady, at: at(4000)) == nil)
    #expect(grant.beginRefresh(at: at(4000)) == .already)
    #expect(grant.sends(attempt, at: at(4000)) == nil)
    #expect(
      grant.answer(minimumTTL: nil, at: at(4000), policy: steady)
        == .temporarilyUnavailable(failure, retryAt: at(4005)))
    // The token's life counts from when it was asked for.
    guard case .commit(let renewal) = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
    else {
      Issue.record("the late answer was not taken")
      return
    }
    #expect(renewal.grant.standing == .good && renewal.token?.issuedAt == at(2900))
  }

  @Test("An attempt of an earlier round is not one of this round")
  func earlierRound() {
    var (grant, old) = grant(in: .refreshing)
    _ = grant.failed(old, .lost(message: ""), at: at(2900), policy: steady, jitter: 0)
    // The same moment and the same refresh token: only its number tells it from the other.
    let new = grant.begun(at: at(2900))
    #expect(old != new)
    #expect(grant.answered(old, issued(), rotation: .strict, refreshTokenLifetime: nil) == .discard)
    #expect(grant.failed(old, invalidGrant, at: at(2901), policy: steady, jitter: 0) == .discard)
    #expect(grant.phase == .refreshing(new))
  }

  @Test("A new login ends every running attempt and its result", arguments: Place.allCases)
  func replaced(place: Place) {
    var (grant, _) = grant(in: place)
    _ = grant.rejected(generation: grant.saved.generation, at: at(2950))
    let new = savedGrant(refreshToken: "refresh-7", generation: 7)
    grant.replaced(by: new, token: savedToken(issued: 2960, generation: 7), jitter: 0)
    #expect(grant.phase == .idle)
    #expect(grant.intent == nil)
    #expect(grant.rejectedGeneration == nil)
    #expect(grant.saved == new)
    #expect(
      grant.answer(minimumTTL: nil, at: at(2961), policy: steady) == .token(savedToken(issued: 2960, generation: 7)))
  }

  @Test("A login without a refresh token keeps the existing one and its known lifetime")
  func replacedWithoutRefreshToken() {
    var grant = Grant(saved: savedGrant(), token: savedToken(), jitter: 0)
    _ = grant.failed(.lost(message: "no answer"), at: at(2900))
    var kept = grant.saved
    kept.generation += 1
    kept.standing = .good
    grant.replaced(by: kept, token: savedToken(issued: 2950, generation: kept.generation), jitter: 0)
    #expect(grant.intent?.attempts == 1)
    #expect(grant.failed(invalidGrant, at: at(2960)) == .ended(grant.saved, .lostRotation))
    #expect(grant.intent?.attempts == 1, "the next login may keep it again")
  }

  @Test("A refresh begins only in the idle phase, and never if it requires a user", arguments: Place.allCases)
  func begin(place: Place) {
    var (grant, _) = grant(in: place)
    switch grant.beginRefresh(at: at(2960)) {
    case .begun: #expect(place == .idle || place == .replaced)
    case .already: #expect(place.isAnswerTaken || place == .committing)
    case .impossible: Issue.record("impossible")
    }
    let ended = Standing.loginRequired(.refused, FailureRecord(message: "", at: at(0)))
    var dead = Grant(saved: savedGrant(standing: ended), token: nil, jitter: 0)
    #expect(dead.beginRefresh(at: at(1)) == .impossible)
    #expect(dead.due(at: at(1), policy: steady) == .nothing)
    var bare = Grant(saved: savedGrant(refreshToken: nil), token: savedToken(), jitter: 0)
    #expect(bare.beginRefresh(at: at(1)) == .impossible)
  }

  @Test("An immediate retry makes waiting attempts due, and does not reopen an ended grant")
  func retryNow() {
    let failure = FailureRecord(message: "", at: at(0))
    let standings: [(Standing, Grant.Due)] = [
      (.good, .nothing), (.failing(failure, count: 4, retryAt: at(900)), .refresh), (.misconfigured(failure), .refresh),
      (.loginRequired(.refused, failure), .nothing),
    ]
    for (standing, due) in standings {
      var grant = Grant(saved: savedGrant(standing: standing), token: savedToken(), jitter: 0)
      grant.retryNow(at: at(1))
      #expect(grant.due(at: at(1), policy: steady) == due)
    }
    var patient = Grant(
      saved: savedGrant(standing: .failing(failure, count: 4, retryAt: at(900))), token: nil, jitter: 0)
    patient.retryNow(at: at(1))
    guard case .retry(_, let retryAt) = patient.failed(.notSent(message: ""), at: at(1)) else { return }
    #expect(retryAt == at(901), "the waits go on growing from where they were")
  }

  @Test("Trying now changes nothing of a refresh that is under way")
  func retryNowUnderWay() {
    var (grant, attempt) = grant(in: .refreshing)
    grant.retryNow(at: at(2950))
    #expect(grant.phase == .refreshing(attempt))
    #expect(grant.beginRefresh(at: at(2950)) == .already)
  }

  @Test("A request that an earlier run left without an answer is made again at once where that can win it back")
  func takenUp() {
    for (rotation, isDue) in [(Rotation.grace(.seconds(30)), true), (.none, false), (.strict, false)] {
      let intent = RefreshIntent(
        account: account, refreshTokenHash: Secret("refresh-1").fingerprint, sentAt: at(10), attempts: 1)
      var grant = Grant(saved: savedGrant(), token: savedToken(), intent: intent, jitter: 0)
      grant.takeUp(rotation: rotation)
      #expect((grant.nextMoment(policy: steady, at: at(12)) == at(12)) == isDue)
      // One that was not sent after all changes nothing.
      if case .begun(let attempt, _) = grant.beginRefresh(at: at(12)) { grant.withdrawn(attempt) }
      #expect((grant.nextMoment(policy: steady, at: at(12)) == at(12)) == isDue)
      grant.refreshed(issued(refresh: "refresh-2"), at: at(12), rotation: rotation)
      #expect(grant.nextMoment(policy: steady, at: at(12)).map { $0 > at(12) } == true)
      var quiet = Grant(saved: savedGrant(), token: savedToken(), jitter: 0)
      quiet.takeUp(rotation: rotation)
      #expect(quiet.nextMoment(policy: steady, at: at(12)).map { $0 > at(12) } == true)
    }
  }
}
