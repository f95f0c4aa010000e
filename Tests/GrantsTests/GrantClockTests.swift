import Grants
import OAuth
import Testing

private let year = 365 * 86_400.0

/// A machine's clock may be wrong by any amount until something sets it.
@Suite struct GrantClockTests {
  @Test("A clock that steps a year ahead costs one refresh")
  func ahead() {
    var grant = grant()
    #expect(grant.answer(minimumTTL: nil, at: at(year), policy: steady) == .refresh)
    #expect(grant.due(at: at(year), policy: steady) == .refresh)
    grant.refreshed(issued(), at: at(year))
    #expect(grant.due(at: at(year + 1), policy: steady) == .nothing)
    #expect(grant.answer(minimumTTL: nil, at: at(year + 1), policy: steady) == .token(grant.token!))
  }

  @Test("A clock that steps a year back costs one refresh, and an old token is not served for a year")
  func back() {
    var grant = grant()
    #expect(grant.nextMoment(policy: steady, at: at(-year)) == at(-year))
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
    grant.refreshed(issued(), at: at(-year))
    #expect(grant.due(at: at(-year + 1), policy: steady) == .nothing)
    #expect(grant.token?.expiresAt == at(-year + 3600))
  }

  @Test("A token that was issued after now is refreshed first, and has at most its lifetime left")
  func issuedAfterNow() {
    for behind in [86_400, year] {
      let now = at(-behind)
      #expect(grant().answer(minimumTTL: nil, at: now, policy: steady) == .refresh)
      #expect(grant().lastResort(at: now) == .token(savedToken()))
      #expect(savedToken().end(at: now) == now + .seconds(3600))
    }
    // Without a refresh token it is the only one.
    var saved = savedGrant()
    saved.refreshToken = nil
    let fixed = Grant(saved: saved, token: savedToken(), jitter: 0)
    #expect(fixed.answer(minimumTTL: nil, at: at(-year), policy: steady) == .token(savedToken()))
    #expect(savedToken().end(at: at(60)) == at(3600))
  }

  @Test("No token is returned in its last second, whose expires_in would be 0")
  func lastSecond() {
    let grant = grant()
    #expect(grant.answer(minimumTTL: .zero, at: at(3598.9), policy: steady) == .token(savedToken()))
    #expect(grant.answer(minimumTTL: .zero, at: at(3599.1), policy: steady) == .refresh)
    #expect(grant.lastResort(at: at(3599)) == .token(savedToken()))
    #expect(grant.lastResort(at: at(3599.1)) == nil)
  }

  @Test("A small step back, as clocks are set every day, costs nothing")
  func smallStep() {
    var grant = grant()
    #expect(grant.due(at: at(-60), policy: steady) == .nothing)
    #expect(grant.answer(minimumTTL: nil, at: at(-60), policy: steady) == .token(savedToken()))
  }

  @Test("A grant that fails does not wait for a year when the clock steps back")
  func failingBack() {
    var grant = grant(savedGrant(), nil)
    _ = grant.failed(.lost(message: ""), at: at(0))
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
    #expect(grant.answer(minimumTTL: nil, at: at(-year), policy: steady) == .refresh)
    _ = grant.failed(.lost(message: ""), at: at(-year))
    #expect(grant.due(at: at(-year + 1), policy: steady) == .nothing)

    var longest = Grant(saved: savedGrant(), token: nil, jitter: 0)
    _ = longest.failed(.tryLater(message: "", nil, retryAfter: .seconds(3600)), at: at(0))
    #expect(longest.due(at: at(0), policy: steady) == .nothing)
    #expect(longest.due(at: at(299), policy: steady) == .nothing)
    #expect(longest.due(at: at(300), policy: steady) == .refresh)
  }

  @Test("Nor for an hour by which the clock was wrong when it failed")
  func failedInTheFuture() {
    var grant = Grant(saved: savedGrant(), token: savedToken(issued: 0), jitter: 0)
    _ = grant.failed(.notSent(message: ""), at: at(7200))
    #expect(grant.nextMoment(policy: steady, at: at(7200)) == at(7205))
    #expect(grant.nextMoment(policy: steady, at: at(3600)) == at(3600))
    #expect(grant.answer(minimumTTL: nil, at: at(3700), policy: steady) == .refresh)
    let wait = ProviderFailure.tryLater(message: "", nil, retryAfter: .seconds(3600))
    _ = grant.failed(wait, at: at(7210))
    #expect(grant.nextMoment(policy: steady, at: at(7220)) == at(7510), "as long as a provider may ask for")
  }

  @Test("A misconfigured grant is probed each quarter of an hour, even if the clock steps back")
  func misconfiguredBack() {
    var grant = grant(savedGrant(), nil)
    _ = grant.failed(.misconfigured(message: "", nil), at: at(0))
    #expect(grant.nextMoment(policy: steady, at: at(1)) == at(900))
    #expect(grant.due(at: at(899), policy: steady) == .nothing)
    #expect(grant.due(at: at(900), policy: steady) == .refresh)
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
  }

  @Test("A grant without a token begins at once, for any clock at its creation")
  func noToken() {
    var grant = grant(savedGrant(), nil)
    #expect(grant.due(at: at(0), policy: steady) == .refresh)
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
  }

  @Test("However the clock steps, refreshes do not come in a storm", arguments: [1, 60, 3600, 1_000_000_000])
  func noStorm(lifetime: Int) {
    var random = Random(seed: UInt64(lifetime))
    var grant = grant(savedGrant(), nil)
    var clock = 0.0
    for _ in 0..<200 {
      clock += Double(random.below(3) - 1) * year
      var refreshes = 0
      for _ in 0..<20 where grant.due(at: at(clock), policy: steady) == .refresh {
        refreshes += 1
        if random.below(2) == 0 {
          grant.refreshed(issued(lifetime: lifetime), at: at(clock))
        } else {
          _ = grant.failed(.unclear(message: "", retryAfter: nil), at: at(clock))
        }
      }
      #expect(refreshes <= 1)
    }
  }
}

@Suite struct ClockStepTests {
  @Test(
    "Times of this run move with the clock, and stored ones live no longer for it",
    arguments: [year, -year])
  func moves(_ step: Double) {
    var mine = grant()
    mine.refreshed(issued(refresh: "refresh-2", more: ["refresh_token_expires_in": "86400"]), at: at(100))
    let stepped = mine.clockStepped(by: .seconds(step))
    #expect(stepped)
    #expect(mine.token?.issuedAt == at(100 + step))
    #expect(mine.token?.expiresAt == at(3700 + step))
    #expect(mine.saved.refreshTokenExpiresAt == at(100 + 86_400 + step))
    #expect(mine.due(at: at(200 + step), policy: steady) == .nothing)

    var fromDisk = grant()
    let moved = fromDisk.clockStepped(by: .seconds(step))
    #expect(moved == (step < 0))
    #expect(fromDisk.token?.expiresAt == at(3600 + min(step, 0)))
  }

  @Test("An answer that comes after the clock was set counts by the new time", arguments: [false, true])
  func underWay(isLate: Bool) throws {
    var grant = grant()
    let attempt = grant.begun(at: at(100))
    _ = grant.clockStepped(by: .seconds(year))
    if isLate { _ = grant.overdue(attempt, FailureRecord(message: "late", at: at(130 + year)), policy: steady) }
    guard case .commit = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil) else {
      Issue.record("the answer was discarded")
      return
    }
    _ = grant.clockStepped(by: .seconds(-50))
    let isCommitted = grant.committed(attempt, jitter: 0)
    #expect(isCommitted)
    #expect(grant.token?.issuedAt == at(100 + year - 50))
    #expect(grant.token?.expiresAt == at(3700 + year - 50))
  }
}

@Suite struct ClockStepGraceTests {
  @Test("The grace of a lost rotation goes with the clock", arguments: [year, -year])
  func grace(_ step: Double) {
    let grace = Rotation.grace(.seconds(300))
    var grant = grant()
    _ = grant.failed(.lost(message: "lost"), at: at(100), rotation: grace)
    let isMoved = grant.clockStepped(by: .seconds(step))
    #expect(isMoved)
    let busy = ProviderFailure.tryLater(message: "busy", nil, retryAfter: .seconds(300))
    guard case .retry(_, let retryAt) = grant.failed(busy, at: at(200 + step), rotation: grace) else {
      Issue.record("no retry")
      return
    }
    #expect(retryAt == at(360 + step))
  }
}

@Suite struct ReportedTokenTests {
  private let web = Reporter(uid: 33, unit: "web.service")
  private let mail = Reporter(uid: 8, unit: "mail.service")

  @Test("A report affects only its reporter, until another token exists")
  func bindsReporter() {
    var grant = grant()
    #expect(grant.reported(generation: 1, by: web, at: at(1)) == .new(SavedToken.Key()))
    #expect(grant.reported(generation: 1, by: web, at: at(2)) == .known(SavedToken.Key()))
    let token = grant.token
    #expect(grant.reportedGeneration(by: web, SavedToken.Key()) == 1)
    #expect(grant.reportedGeneration(by: mail, SavedToken.Key()) == nil)
    #expect(grant.reportedGeneration(by: Reporter(uid: 33), SavedToken.Key()) == nil)
    #expect(grant.answer(minimumTTL: nil, at: at(3), policy: steady) == .token(token!))
    #expect(grant.answer(minimumTTL: nil, at: at(3), policy: steady, unwanted: 1) == .refresh)
    #expect(grant.lastResort(at: at(3), unwanted: 1) == nil && grant.lastResort(at: at(3)) == .token(token!))
    #expect(grant.livingTokens.map(\.generation) == [1])
    // As after a restart.
    let again = Grant(saved: grant.saved, token: grant.token, jitter: 0)
    #expect(again.reportedGeneration(by: web, SavedToken.Key()) == 1)
    grant.refreshed(issued(), at: at(10))
    #expect(grant.reportedGeneration(by: web, SavedToken.Key()) == nil && grant.reports.isEmpty)
    #expect(grant.reported(generation: 1, by: web, at: at(11)) == .stale)
    #expect(grant.reported(generation: 3, by: web, at: at(11)) == .stale)
  }

  @Test("A report of a token without a replacement ends nothing")
  func endsNothing() {
    var alone = Grant(saved: savedGrant(refreshToken: nil), token: savedToken(lifetime: nil), jitter: 0)
    #expect(alone.reported(generation: 1, by: web, at: at(5)) == .new(SavedToken.Key()))
    #expect(alone.saved.standing == .good)
    #expect(alone.answer(minimumTTL: nil, at: at(6), policy: steady) == .token(alone.token!))
  }

  @Test("The reports of a token are bounded, and one user's many units do not push another's out")
  func bounded() {
    var grant = grant()
    #expect(grant.reported(generation: 1, by: mail, at: at(1)) == .new(SavedToken.Key()))
    for number in 0..<100 {
      _ = grant.reported(generation: 1, by: Reporter(uid: 33, userUnit: "\(number).scope"), at: at(2))
    }
    #expect(grant.token?.reports.count == TokenReport.most)
    #expect(grant.reportedGeneration(by: mail, SavedToken.Key()) == 1)
  }
}
