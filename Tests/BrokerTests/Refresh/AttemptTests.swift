import Grants
import OAuth
import Testing

/// A refresh between its beginning and its sending.
@Suite struct AttemptTests {
  private let now = ManualClock.start

  private func grant(intent: RefreshIntent? = nil) -> Grant {
    let saved = SavedGrant(
      account: account("work"), provider: provider("example"), identity: nil, requestedScopes: [], grantedScopes: [],
      refreshToken: Secret("r1"), generation: 1, createdAt: now, loggedInAt: now)
    return Grant(saved: saved, token: nil, intent: intent, jitter: 0)
  }

  private func begun(_ grant: inout Grant) throws -> Grant.Attempt {
    guard case .begun(let attempt, _) = grant.beginRefresh(at: now) else { throw StoppedShort() }
    return attempt
  }

  private func sending(_ grant: inout Grant, _ attempt: Grant.Attempt, at moment: Timestamp) throws -> Grant.Attempt {
    guard let sent = grant.sends(attempt, at: moment) else { throw StoppedShort() }
    return sent
  }

  private struct StoppedShort: Error {}

  private func issued() throws -> Issued {
    let tokens = try TokenResponse.parse(
      reply(#"{"access_token":"a2","token_type":"Bearer","expires_in":100,"refresh_token":"r2"}"#), quirks: .init())
    return Issued(tokens: tokens, idToken: nil, identity: nil, warning: nil)
  }

  @Test("A lifetime counts from the sending, and the answer belongs to the sent request")
  func aLifeCountsFromTheSendingAnd()
    throws
  {
    var grant = grant()
    let before = try begun(&grant)
    grant.withdrawn(before)
    let attempt = try begun(&grant)
    let sent = try sending(&grant, attempt, at: now + .seconds(50))
    let issued = try issued()
    let stale = grant.answered(before, issued, rotation: .strict, refreshTokenLifetime: nil)
    #expect(stale == .discard)
    guard case .commit(let renewal) = grant.answered(sent, issued, rotation: .strict, refreshTokenLifetime: nil) else {
      Issue.record("the answer was not taken")
      return
    }
    #expect(renewal.token?.expiresAt == now + .seconds(150))
  }

  @Test("A request that a login replaced is not sent") func whatALoginReplacedIsNotSent() throws {
    var grant = grant()
    let attempt = try begun(&grant)
    let token = SavedToken(
      account: account("work"), accessToken: Secret("a9"), type: "Bearer", scopes: [], generation: 2, issuedAt: now,
      expiresAt: nil)
    grant.replaced(by: grant.saved, token: token, jitter: 0)
    let sent = grant.sends(attempt, at: now)
    #expect(sent == nil)
    grant.withdrawn(attempt)
    #expect(grant.phase == .idle)
  }

  @Test("A withdrawn attempt and a refused client change nothing", arguments: [0, 1, 3])
  func aWithdrawnAttemptAndARefusedClient(_ before: Int) throws {
    let earlier = RefreshIntent(
      account: account("work"), refreshTokenHash: Secret("r1").fingerprint, sentAt: now, attempts: before)
    for isWithdrawn in [true, false] {
      var grant = grant(intent: before == 0 ? nil : earlier)
      let attempt = try begun(&grant)
      #expect(grant.intent?.attempts == before + 1)
      if isWithdrawn {
        grant.withdrawn(attempt)
        #expect(grant.saved.standing == .good)
      } else {
        _ = grant.failed(
          attempt, .misconfigured(message: "invalid_client", nil), at: now, policy: RefreshPolicy(), jitter: 0)
      }
      #expect(grant.phase == .idle)
      #expect(grant.intent?.attempts ?? 0 == before)
    }
  }
}
