import Grants
import OAuth
import Testing

private let day = 86_400.0

@Suite struct RefreshTokenEndTests {
  /// A refresh token of so many days, announced at `announced` days.
  private func grant(days: Double?, announced: Double? = nil, standing: Standing = .good) -> Grant {
    var saved = savedGrant(standing: standing)
    saved.refreshTokenIssuedAt = start
    saved.refreshTokenExpiresAt = days.map { at($0 * day) }
    saved.expiryAnnouncedAt = announced.map { at($0 * day) }
    return Grant(saved: saved, token: savedToken(), jitter: 0)
  }

  struct Told: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var days: Double?
    var announced: Double?
    var now: Double
    var next: Double?
  }

  @Test(
    "Users are informed a week before, or a quarter of a short lifetime, and again on the last day",
    arguments: [
      Told(testDescription: "no end known", days: nil, now: 10, next: nil),
      Told(testDescription: "long before", days: 90, now: 10, next: 83),
      Told(testDescription: "a week before", days: 90, now: 83, next: 83),
      Told(testDescription: "told: the last day", days: 90, announced: 83, now: 83.1, next: 89),
      Told(testDescription: "on the last day", days: 90, announced: 83, now: 89.5, next: 89),
      Told(testDescription: "told twice", days: 90, announced: 89, now: 89.5, next: nil),
      Told(testDescription: "told late, once", days: 90, now: 89.5, next: 89),
      Told(testDescription: "over", days: 90, announced: 83, now: 91, next: nil),
      Told(testDescription: "a short life", days: 4, now: 0, next: 3),
      Told(testDescription: "a short life, told", days: 4, announced: 3, now: 3.1, next: nil),
      Told(testDescription: "told by a clock that was ahead", days: 90, announced: 400, now: 83, next: 83),
    ])
  func told(_ case: Told) {
    let grant = grant(days: `case`.days, announced: `case`.announced)
    #expect(
      grant.nextAnnouncement(learned: nil, policy: steady, at: at(`case`.now * day))
        == `case`.next.map { at($0 * day) })
  }

  @Test("A dead grant's refresh token is nothing to warn of")
  func dead() {
    let failure = FailureRecord(message: "invalid_grant", at: start)
    let grant = grant(days: 90, standing: .loginRequired(.refused, failure))
    #expect(grant.nextAnnouncement(learned: nil, policy: steady, at: at(85 * day)) == nil)
  }

  @Test("A new refresh token, or a later end of the same, is announced again; the same end is not")
  func anew() {
    func after(_ members: [String: String], refresh: String? = nil) -> Timestamp? {
      var grant = grant(days: 90, announced: 83)
      grant.refreshed(issued(refresh: refresh, more: members), at: at(84 * day))
      return grant.saved.expiryAnnouncedAt
    }
    #expect(after([:]) == at(83 * day))
    #expect(after([:], refresh: "refresh-2") == nil)
    #expect(after(["refresh_token_expires_in": "\(Int(6 * day))"]) == at(83 * day))
    #expect(after(["refresh_token_expires_in": "\(Int(90 * day))"]) == nil)
  }

  @Test("A refusal after the known end is that end")
  func expired() {
    var grant = grant(days: 90)
    #expect(grant.failed(invalidGrant, at: at(91 * day)) == .ended(grant.saved, .refreshTokenExpired))
    var early = self.grant(days: 90)
    #expect(early.failed(invalidGrant, at: at(80 * day)) == .ended(early.saved, .refused))
  }

  @Test("If the refresh token ends before the access token, the refresh is in time for it")
  func keptAlive() {
    var saved = savedGrant()
    saved.refreshTokenExpiresAt = at(1800)
    #expect(Grant(saved: saved, token: savedToken(), jitter: 0).nextMoment(policy: steady, at: start) == at(1440))
    #expect(
      Grant(saved: saved, token: savedToken(lifetime: nil), jitter: 0).nextMoment(policy: steady, at: start)
        == at(1440))
    saved.refreshTokenExpiresAt = at(90 * day)
    #expect(Grant(saved: saved, token: savedToken(), jitter: 0).nextMoment(policy: steady, at: start) == at(2880))
    // An end that no refresh moves is not run after.
    saved.refreshTokenExpiresAt = at(30)
    #expect(Grant(saved: saved, token: savedToken(), jitter: 0).nextMoment(policy: steady, at: start) == at(60))
  }
}

@Suite struct LearnedLifetimeTests {
  @Test("Two refresh tokens that ended at one age, at different times, teach their lifetime")
  func agreed() {
    var learned = LearnedLifetime()
    learned.ended(atAge: .seconds(7 * day), at: at(0))
    #expect(learned.lifetime == nil)
    learned.ended(atAge: .seconds(3 * day), at: at(10 * day))
    #expect(learned.lifetime == nil)
    learned.ended(atAge: .seconds(7 * day + 3600), at: at(20 * day))
    #expect(learned.lifetime == .seconds(7 * day))
  }

  @Test("Grants that one event ended, such as a changed password, teach no lifetime")
  func oneEvent() {
    var learned = LearnedLifetime()
    for index in 0..<5 { learned.ended(atAge: .seconds(40 * day + Double(index)), at: at(Double(index) * 60)) }
    #expect(learned.lifetime == nil)
  }

  @Test("A refresh token that lives longer proves it wrong")
  func wrong() {
    var learned = LearnedLifetime()
    for index in 0..<2 { learned.ended(atAge: .seconds(7 * day), at: at(Double(index) * 10 * day)) }
    #expect(learned.lived(toAge: .seconds(7.1 * day)) == false)
    #expect(learned.lifetime != nil)
    #expect(learned.lived(toAge: .seconds(8 * day)) == true)
    #expect(learned.lifetime == nil)
  }

  @Test("A grant that ended within an hour was ended by a user, and the history is limited")
  func bounded() {
    var learned = LearnedLifetime()
    for index in 0..<100 { learned.ended(atAge: .seconds(3000), at: at(Double(index) * day)) }
    #expect(learned.ends.isEmpty)
    for index in 0..<100 { learned.ended(atAge: .seconds(Double(index + 2) * day), at: at(Double(index) * day)) }
    #expect(learned.ends.count == 8)
  }
}
