import Grants
import OAuth
import Testing

/// A refresh token that was refused while the access token was valid.
@Suite struct SecondTryTests {
  private static let refused = ProviderFailure.ended(
    .refused, message: "invalid_grant", OAuthError(code: .invalidGrant))

  @Test("it is tried once more at the access token's end, and then no more")
  func once() {
    var grant = grant()
    _ = grant.failed(Self.refused, at: at(3000))
    guard case .token = grant.answer(minimumTTL: nil, at: at(3500), policy: steady) else {
      Issue.record("the access token is not returned to its end")
      return
    }
    #expect(grant.awaitsSecondTry && !grant.isSecondTrySoon)
    // A caller that cannot use the access token needs a login now.
    guard case .loginRequired = grant.answer(minimumTTL: nil, at: at(3500), policy: steady, unwanted: 1) else {
      Issue.record("a caller that reported the access token waits for its end")
      return
    }
    #expect(grant.beginRefresh(at: at(3500)) == .impossible)
    #expect(grant.nextMoment(policy: steady, at: at(3500)) == at(3600))
    _ = grant.failed(Self.refused, at: at(3600))
    guard case .loginRequired(.refused, _) = grant.saved.standing else {
      Issue.record("standing \(grant.saved.standing)")
      return
    }
    #expect(grant.nextMoment(policy: steady, at: at(1e6)) == nil)
    #expect(grant.beginRefresh(at: at(1e6)) == .impossible)
    #expect(grant.saved.refreshToken == Secret("refresh-1"))
  }

  @Test("a refresh that then succeeds needs no login")
  func succeeds() {
    var grant = grant()
    _ = grant.failed(Self.refused, at: at(3000))
    grant.refreshed(issued(refresh: "refresh-2"), at: at(3600))
    #expect(grant.saved.standing == .good && grant.saved.refreshToken == Secret("refresh-2"))
  }

  @Test("a refusal after the access token's end is followed by one more attempt, for which callers wait")
  func late() {
    var late = grant()
    _ = late.failed(Self.refused, at: at(3700))
    #expect(late.awaitsSecondTry && late.answer(minimumTTL: nil, at: at(3701), policy: steady) == .wait)
    #expect(late.nextMoment(policy: steady, at: at(3701)) == at(3702))
    #expect(late.answer(minimumTTL: nil, at: at(3702), policy: steady) == .refresh)
    // A restart knows that this is the second attempt.
    late = Grant(saved: late.saved, token: late.token, jitter: 0)
    // An attempt without an answer decides nothing.
    _ = late.failed(.notSent(message: "no network"), at: at(3702))
    _ = late.failed(Self.refused, at: at(3800))
    #expect(!late.awaitsSecondTry && late.nextMoment(policy: steady, at: at(1e6)) == nil)
  }

  @Test("an access token's end soon after the refusal is waited for, and a token that was reported is not")
  func moments() {
    for (moment, due) in [(3599.0, 3601.0), (3598, 3600), (3000, 3600)] {
      var grant = grant()
      _ = grant.failed(Self.refused, at: at(moment))
      #expect(grant.nextMoment(policy: steady, at: at(moment)) == at(due))
    }
    var reported = grant()
    _ = reported.rejected(generation: 1, at: at(3000))
    _ = reported.failed(Self.refused, at: at(3000))
    #expect(reported.awaitsSecondTry && reported.nextMoment(policy: steady, at: at(3000)) == at(3002))
  }

  @Test("a clock that is set back does not put off the second attempt")
  func clock() {
    var grant = grant()
    _ = grant.failed(Self.refused, at: at(3700))
    #expect(grant.nextMoment(policy: steady, at: at(-86_400)) == at(-86_400))
  }

  @Test("other permanent errors end the grant at once, and so do a lost rotation and an import that never worked")
  func final() {
    for failure in [
      ProviderFailure.ended(.refused, message: "", OAuthError(code: .loginRequired)),
      .ended(.refused, message: "HTTP 400", nil), .ended(.identityChanged, message: "", nil),
    ] {
      var grant = grant()
      _ = grant.failed(failure, at: at(3000))
      #expect(grant.nextMoment(policy: steady, at: at(3000)) == nil)
    }
    var new = Grant(saved: savedGrant(), token: nil, jitter: 0)
    _ = new.failed(Self.refused, at: at(3000))
    #expect(new.nextMoment(policy: steady, at: at(3000)) == nil)
    var lost = grant()
    _ = lost.failed(.lost(message: "no answer"), at: at(3000))
    _ = lost.failed(Self.refused, at: at(3010))
    guard case .loginRequired(.lostRotation, _) = lost.saved.standing else {
      Issue.record("standing \(lost.saved.standing)")
      return
    }
    #expect(lost.nextMoment(policy: steady, at: at(3600)) == nil)
  }

  @Test("a manager's request tries the kept refresh token of an ended grant once")
  func reopened() {
    var grant = grant()
    for moment in [3700.0, 3702] { _ = grant.failed(Self.refused, at: at(moment)) }
    #expect(grant.beginRefresh(at: at(4000)) == .impossible)
    let isReopened = grant.reopen(at: at(4000))
    #expect(isReopened)
    _ = grant.failed(Self.refused, at: at(4000))
    #expect(grant.beginRefresh(at: at(4001)) == .impossible)
    var bare = Grant(
      saved: savedGrant(
        refreshToken: nil, standing: .loginRequired(.noRefreshToken, FailureRecord(message: "", at: start))),
      token: nil, jitter: 0)
    let isBareReopened = bare.reopen(at: at(1))
    #expect(!isBareReopened)
  }
}
