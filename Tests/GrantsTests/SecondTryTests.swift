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

  @Test("a refusal after the access token's end is final, and so is a rotation that was lost")
  func final() {
    var late = grant()
    _ = late.failed(Self.refused, at: at(3700))
    #expect(late.nextMoment(policy: steady, at: at(4000)) == nil)
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
    _ = grant.failed(Self.refused, at: at(3700))
    let isReopened = grant.reopen(at: at(4000))
    #expect(isReopened)
    _ = grant.failed(Self.refused, at: at(4000))
    #expect(grant.beginRefresh(at: at(4001)) == .impossible)
    var bare = Grant(
      saved: savedGrant(refreshToken: nil, standing: .loginRequired(.noRefreshToken, Failure(message: "", at: start))),
      token: nil, jitter: 0)
    let isBareReopened = bare.reopen(at: at(1))
    #expect(!isBareReopened)
  }
}
