import Grants
import OAuth
import Testing

private let failure = FailureRecord(message: "unavailable", at: start)
private let misconfigured = Standing.misconfigured(failure)
private let loginRequired = Standing.loginRequired(.refused, failure)

private func failing(until seconds: Double) -> Standing { .failing(failure, count: 1, retryAt: at(seconds)) }

@Suite struct GrantAnswerTests {
  struct Asked: Sendable, CustomTestStringConvertible {
    let testDescription: String
    var standing = Standing.good
    var refreshToken: String? = "refresh-1"
    var token: SavedToken? = savedToken()
    var minimum: Duration?
    let now: Double
    let answer: Grant.Answer

    init(
      _ what: String, _ standing: Standing = .good, refreshToken: String? = "refresh-1",
      token: SavedToken? = savedToken(), minimum: Duration? = nil, now: Double, _ answer: Grant.Answer
    ) {
      testDescription = what
      self.standing = standing
      self.refreshToken = refreshToken
      self.token = token
      self.minimum = minimum
      self.now = now
      self.answer = answer
    }
  }

  static let served = Grant.Answer.token(savedToken())

  @Test(
    "An idle grant answers by its token's time left and by its standing",
    arguments: [
      Asked("fresh", now: 0, served), Asked("just enough left", now: 3569, served),
      Asked("too little left", now: 3570, .refresh), Asked("expired", now: 3600, .refresh),
      Asked("less than the caller wants", minimum: .seconds(600), now: 3000, .refresh),
      Asked("as much as the caller wants", minimum: .seconds(600), now: 2999, served),
      Asked("a caller content with little", minimum: .zero, now: 3599, served),
      Asked("none yet", token: nil, now: 0, .refresh),
      Asked("lifetime unknown", token: savedToken(lifetime: nil), now: 1e9, .token(savedToken(lifetime: nil))),
      Asked("failing, valid", failing(until: 3590), now: 3000, served),
      Asked("failing, little left", failing(until: 3590), now: 3580, served),
      Asked("failing, expired", failing(until: 3700), now: 3600, .temporarilyUnavailable(failure, retryAt: at(3700))),
      Asked("failing, time to try again", failing(until: 3700), now: 3700, .refresh),
      Asked("misconfigured, valid", misconfigured, now: 0, served),
      Asked("misconfigured, little left", misconfigured, now: 3580, served),
      Asked("misconfigured, expired", misconfigured, now: 3600, .misconfigured(failure)),
      Asked("ended, valid", loginRequired, now: 0, served),
      Asked("ended, little left", loginRequired, now: 3580, served),
      Asked("ended, expired", loginRequired, now: 3600, .loginRequired(.refused, failure)),
      Asked("no refresh token, valid", refreshToken: nil, now: 0, served),
      Asked("no refresh token, little left", refreshToken: nil, now: 3599, served),
      Asked("no refresh token, expired", refreshToken: nil, now: 3600, .loginRequired(.noRefreshToken, nil)),
      Asked("neither token", refreshToken: nil, token: nil, now: 0, .loginRequired(.noRefreshToken, nil)),
    ])
  func idle(_ asked: Asked) {
    let grant = grant(savedGrant(refreshToken: asked.refreshToken, standing: asked.standing), asked.token)
    #expect(grant.answer(minimumTTL: asked.minimum, at: at(asked.now), policy: steady) == asked.answer)
  }

  @Test("While a refresh is under way a good token is served, and a caller that needs a better one waits")
  func underWay() {
    var grant = grant()
    let attempt = grant.begun(at: at(2880))
    for step in 0..<2 {
      if step == 1 { _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil) }
      #expect(grant.answer(minimumTTL: nil, at: at(2900), policy: steady) == .token(savedToken()))
      #expect(grant.answer(minimumTTL: .seconds(1000), at: at(2900), policy: steady) == .wait)
      #expect(grant.answer(minimumTTL: nil, at: at(3600), policy: steady) == .wait)
      #expect(grant.nextMoment(policy: steady, at: at(3600)) == nil)
      #expect(grant.due(at: at(9999), policy: steady) == .nothing)
    }
  }

  @Test("The last resort is any token that is neither expired nor rejected")
  func lastResort() {
    var grant = grant()
    #expect(grant.lastResort(at: at(3599)) == .token(savedToken()))
    #expect(grant.lastResort(at: at(3599.001)) == nil)
    #expect(grant.rejected(generation: 1, at: at(5)) == .refresh)
    #expect(grant.lastResort(at: at(6)) == nil)
    let endless = Grant(saved: savedGrant(), token: savedToken(lifetime: nil), jitter: 0)
    #expect(endless.lastResort(at: at(1e9)) == .token(savedToken(lifetime: nil)))
    #expect(Grant(saved: savedGrant(), token: nil, jitter: 0).lastResort(at: at(0)) == nil)
  }

  @Test("Without a refresh token the grant ends with its token, once, and reports it")
  func noRefreshToken() {
    var grant = grant(savedGrant(refreshToken: nil))
    #expect(grant.nextMoment(policy: steady, at: at(0)) == at(3600))
    #expect(grant.due(at: at(3599), policy: steady) == .nothing)
    guard case .ended(let saved) = grant.due(at: at(3600), policy: steady) else {
      Issue.record("the grant did not end")
      return
    }
    #expect(saved == grant.saved)
    guard case .loginRequired(.noRefreshToken, _) = saved.standing else {
      Issue.record("the standing of the grant is \(saved.standing)")
      return
    }
    #expect(grant.due(at: at(3601), policy: steady) == .nothing)
    #expect(grant.beginRefresh(at: at(3601)) == .impossible)
  }

  @Test("a token of unknown lifetime is refreshed within an hour, and is served until it is rejected")
  func unknownLifetime() {
    var grant = grant(savedGrant(), savedToken(lifetime: nil))
    #expect(grant.due(at: at(2879), policy: steady) == .nothing)
    #expect(grant.due(at: at(2880), policy: steady) == .refresh)
    #expect(grant.rejected(generation: 1, at: at(1e9)) == .refresh)
    #expect(grant.answer(minimumTTL: nil, at: at(1e9), policy: steady) == .refresh)
    var alone = Grant(saved: savedGrant(refreshToken: nil), token: savedToken(lifetime: nil), jitter: 0)
    #expect(alone.due(at: at(1e9), policy: steady) == .nothing)
    guard case .ended = alone.rejected(generation: 1, at: at(1e9)) else {
      Issue.record("a rejected token without a refresh token ends the grant")
      return
    }
  }

  @Test("Only the current generation can be rejected, and it is not served again, even after a restart that ended it")
  func rejection() {
    var renewed = grant()
    renewed.refreshed(issued(), at: at(10))
    #expect(renewed.rejected(generation: 1, at: at(20)) == .stale)
    #expect(renewed.rejected(generation: 3, at: at(20)) == .stale)
    #expect(renewed.answer(minimumTTL: nil, at: at(20), policy: steady) == .token(renewed.token!))
    #expect(renewed.rejected(generation: 2, at: at(20)) == .refresh)
    #expect(renewed.answer(minimumTTL: .zero, at: at(20), policy: steady) == .refresh)
    _ = renewed.failed(.lost(message: "no answer"), at: at(21))
    guard case .temporarilyUnavailable = renewed.answer(minimumTTL: .zero, at: at(22), policy: steady) else {
      Issue.record("a rejected token was served")
      return
    }
    renewed.refreshed(issued(access: "access-3"), at: at(60))
    #expect(renewed.token?.generation == 3)
    #expect(renewed.answer(minimumTTL: nil, at: at(61), policy: steady) == .token(renewed.token!))

    var alone = Grant(saved: savedGrant(refreshToken: nil), token: savedToken(lifetime: nil), jitter: 0)
    _ = alone.rejected(generation: 1, at: at(5))
    let restarted = Grant(saved: alone.saved, token: alone.token, jitter: 0)
    guard case .loginRequired(.noRefreshToken, _?) = restarted.answer(minimumTTL: nil, at: at(6), policy: steady)
    else {
      Issue.record("a rejected token was served after a restart")
      return
    }
  }

  @Test("A rejected token that was refreshed in the interim needs no second refresh")
  func rejectedWhileRefreshing() {
    var grant = grant()
    let attempt = grant.begun(at: at(10))
    #expect(grant.rejected(generation: 1, at: at(11)) == .refresh)
    #expect(grant.answer(minimumTTL: nil, at: at(11), policy: steady) == .wait)
    _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
    let taken = grant.committed(attempt, jitter: 0)
    #expect(taken)
    #expect(grant.answer(minimumTTL: nil, at: at(12), policy: steady) == .token(grant.token!))
  }

  @Test("Tokens that are already expired are not requested repeatedly")
  func overAsTheyCome() {
    var grant = grant(savedGrant(), nil)
    grant.refreshed(issued(lifetime: 0), at: at(10))
    guard case .temporarilyUnavailable(_, let retryAt) = grant.answer(minimumTTL: nil, at: at(10.2), policy: steady)
    else {
      Issue.record("another refresh at once")
      return
    }
    #expect(retryAt == at(15))
    #expect(grant.answer(minimumTTL: nil, at: at(15), policy: steady) == .refresh)
  }
}
