import Foundation
import Grants
import OAuth
import Testing

/// Access tokens whose lifetime the provider does not tell: they are refreshed all the same.
@Suite struct UnknownLifetimeTests {
  /// A JWT with this `exp`, in seconds from the start of the test.
  private func jwt(_ end: Double) -> String {
    let claims = #"{"exp":\#(Double(at(end).milliseconds) / 1000)}"#
    return [#"{"alg":"RS256"}"#, claims, "signature"].map { base64URL($0.utf8) }.joined(separator: ".")
  }

  private func end(_ grant: Grant) -> Timestamp? { grant.token?.expiresAt }

  @Test("the last known lifetime is used, and the one that the provider tells comes first")
  func lastKnown() {
    var grant = grant()
    grant.refreshed(issued(lifetime: nil), at: at(2900))
    #expect(end(grant) == at(2900 + 3600))
    grant.refreshed(issued(lifetime: nil), at: at(6000))
    #expect(end(grant) == at(6000 + 3600))
    grant.refreshed(issued(lifetime: 60), at: at(9000))
    #expect(end(grant) == at(9060))
  }

  @Test("the exp of a JWT comes before the last known lifetime")
  func claim() {
    var grant = grant()
    grant.refreshed(issued(access: jwt(4000), lifetime: nil), at: at(2900))
    #expect(end(grant) == at(4000))
    grant.refreshed(issued(access: jwt(4000), lifetime: 600), at: at(3000))
    #expect(end(grant) == at(3600))
  }

  @Test("a JWT that has expired is not returned")
  func expired() {
    var grant = grant(savedGrant(), savedToken(lifetime: nil))
    grant.refreshed(issued(access: jwt(4000), lifetime: nil), at: at(2900))
    #expect(grant.answer(minimumTTL: nil, at: at(4001), policy: steady) == .refresh)
    #expect(grant.lastResort(at: at(4001)) == nil)
  }

  @Test("otherwise the token is refreshed within an hour, and has no end for callers")
  func unknown() {
    var grant = grant(savedGrant(), savedToken(lifetime: nil))
    grant.refreshed(issued(lifetime: nil), at: at(100))
    #expect(end(grant) == nil)
    #expect(grant.nextMoment(policy: steady, at: at(100)) == at(100 + 2880))
    guard case .token = grant.answer(minimumTTL: nil, at: at(1e6), policy: steady) else {
      Issue.record("it is not returned")
      return
    }
  }

  @Test("the lifetime of the settings comes after the last known one")
  func configured() {
    let quirks = TokenResponseQuirks(fixedLifetime: .seconds(500))
    let body = Data(#"{"access_token":"a","token_type":"Bearer","refresh_token":"r"}"#.utf8)
    let response = HTTPResponse(status: 200, headers: [.init("Content-Type", "application/json")], body: body)
    let tokens = try! TokenResponse.parse(response, quirks: quirks)
    #expect(SavedToken(tokens, grant: savedGrant(), issuedAt: at(0)).expiresAt == at(500))
    #expect(SavedToken(tokens, grant: savedGrant(), issuedAt: at(0), lastLifetime: .seconds(90)).expiresAt == at(90))
  }
}
