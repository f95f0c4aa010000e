import OAuth
import Testing

@testable import Grants

@Suite("An answer belongs to its attempt")
struct OtherAttemptTests {
  /// An attempt with the same refresh token that the grant does not have.
  private let other = Grant.Attempt(number: 99, sentAt: at(500), refreshToken: Secret("refresh-1"))

  @Test("The commit of another attempt does not end the one under way")
  func commit() {
    var grant = grant()
    let attempt = grant.begun(at: at(10))
    _ = grant.answered(attempt, issued(refresh: "refresh-2"), rotation: .strict, refreshTokenLifetime: nil)
    let phase = grant.phase
    let isOther = grant.committed(other, jitter: 0)
    #expect(!isOther && grant.phase == phase && grant.saved.refreshToken == Secret("refresh-1"))
    let isOwn = grant.committed(attempt, jitter: 0)
    #expect(isOwn && grant.saved.refreshToken == Secret("refresh-2"))
  }

  @Test("The lease of another attempt changes no intent")
  func lease() {
    var grant = grant()
    let attempt = grant.begun(at: at(10))
    var intent = grant.intent!
    intent.attempts = 7
    grant.leased(other, intent)
    #expect(grant.intent?.attempts == 1)
    grant.leased(attempt, intent)
    #expect(grant.intent?.attempts == 7)
  }

  @Test("After another request was allowed the late answer of the overdue one is accepted, and of no third one")
  func late() {
    var grant = grant()
    let first = grant.begun(at: at(10))
    _ = grant.overdue(first, FailureRecord(message: "no answer", at: at(40)), policy: steady)
    let isAllowed = grant.stopsAwaiting(at: at(50))
    #expect(isAllowed)
    let second = grant.begun(at: at(60))
    #expect(second != first)
    let third = grant.answered(other, issued(refresh: "stolen"), rotation: .strict, refreshTokenLifetime: nil)
    #expect(third == .discard)
    guard
      case .commit(let renewal) = grant.answered(
        first, issued(refresh: "refresh-2"), rotation: .strict, refreshTokenLifetime: nil)
    else {
      Issue.record("the late answer is discarded")
      return
    }
    #expect(renewal.grant.refreshToken == Secret("refresh-2"))
  }

  @Test("An empty refresh token beside an unusable answer does not replace the old one")
  func empty() {
    var grant = grant()
    let attempt = grant.begun(at: at(10))
    let outcome = grant.rotated(
      attempt, to: RotatedToken(token: Secret("")), rotation: .strict, refreshTokenLifetime: nil)
    guard case .commit(let renewal) = outcome else {
      Issue.record("discarded")
      return
    }
    #expect(renewal.grant.refreshToken == Secret("refresh-1"))
  }

  @Test("A grant without a user that the provider ends needs its settings, not a sign-in")
  func unattended() {
    var saved = savedGrant(refreshToken: nil)
    saved.kind = .clientCredentials
    var grant = grant(saved)
    guard case .misconfigured(let changed) = grant.failed(invalidGrant, at: at(10)) else {
      Issue.record("a sign-in is asked for")
      return
    }
    guard case .misconfigured = changed.standing else {
      Issue.record("\(changed.standing)")
      return
    }
  }

  @Test(
    "Only a grant that the provider ended is tried once more with its refresh token",
    arguments: LoginReason.allCases)
  func reopening(_ reason: LoginReason) {
    let failure = FailureRecord(message: "ended", at: at(0))
    var grant = grant(savedGrant(standing: .loginRequired(reason, failure)))
    let isReopened = grant.reopen(at: at(10))
    #expect(isReopened == [.refused, .lostRotation, .refreshTokenExpired].contains(reason))
  }

  @Test("Three refusals within seconds do not show that only this account is refused; over ten minutes they do")
  func refusals() {
    let refusal = ProviderFailure.misconfigured(message: "no", OAuthError(code: .unauthorizedClient))
    for (pause, isAlone) in [(1.0, false), (301, true)] {
      var grant = grant()
      for number in 0..<3 {
        let now = at(Double(number) * pause)
        guard case .begun(let attempt, _) = grant.beginRefresh(at: now) else {
          Issue.record("not begun")
          return
        }
        _ = grant.failed(attempt, refusal, at: now, policy: steady, jitter: 0, lastSuccessOfOthers: now)
      }
      #expect(grant.isRefusedAlone == isAlone)
    }
  }
}
