import Foundation
import Grants
import OAuth
import Testing

private let lost = ProviderFailure.lost(message: "no answer")
private let unclear = ProviderFailure.unclear(message: "HTML", retryAfter: nil)
private let tryLater = ProviderFailure.tryLater(message: "429", nil, retryAfter: nil)
private let notSent = ProviderFailure.notSent(message: "no network")

@Suite struct GrantRefreshTests {
  @Test("A refresh carries its intent, its moment and its refresh token, and there is one at a time")
  func begin() {
    var grant = grant()
    guard case .begun(let attempt, let intent) = grant.beginRefresh(at: at(10)) else {
      Issue.record("not begun")
      return
    }
    #expect(attempt.sentAt == at(10))
    #expect(attempt.refreshToken == Secret("refresh-1"))
    #expect(
      intent
        == RefreshIntent(
          account: account, refreshTokenHash: Secret("refresh-1").fingerprint, sentAt: at(10), attempts: 1))
    #expect(grant.beginRefresh(at: at(11)) == .already)
    _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
    #expect(grant.beginRefresh(at: at(11)) == .already)
    let taken = grant.committed(attempt, jitter: 0)
    #expect(taken)
    #expect(grant.phase == .idle)
    #expect(grant.intent == nil)
  }

  @Test("A renewal counts from its request, and no caller sees it before it is on disk")
  func renewal() {
    var grant = grant()
    let attempt = grant.begun(at: at(3000))
    let outcome = grant.answered(
      attempt, issued(refresh: "refresh-2", more: ["scope": "\"mail\"", "instance_url": "\"https://one\""]),
      rotation: .strict, refreshTokenLifetime: nil)
    #expect(grant.token == savedToken())
    #expect(grant.saved == savedGrant())
    guard case .commit(let renewal) = outcome else {
      Issue.record("discarded")
      return
    }
    #expect(renewal.token?.issuedAt == at(3000))
    #expect(renewal.token?.expiresAt == at(6600))
    #expect(renewal.token?.generation == 2)
    #expect(renewal.token?.scopes == ["mail"])
    #expect(renewal.grant.generation == 2)
    #expect(renewal.grant.grantedScopes == ["openid", "mail"])
    #expect(renewal.grant.requestedScopes == ["openid", "mail"])
    #expect(renewal.grant.refreshToken == Secret("refresh-2"))
    #expect(renewal.grant.extra.map { String(decoding: $0, as: UTF8.self) } == #"{"instance_url":"https://one"}"#)
    let taken = grant.committed(attempt, jitter: 0)
    #expect(taken)
    #expect(grant.saved == renewal.grant)
    #expect(grant.token == renewal.token)
    let again = grant.committed(attempt, jitter: 0)
    #expect(!again)
  }

  @Test(
    "A missing, empty or repeated refresh token keeps the old one; another replaces it, and a grace keeps the one before",
    arguments: [
      (nil, Rotation.strict, "refresh-1", nil), ("", .strict, "refresh-1", nil),
      ("refresh-1", .strict, "refresh-1", nil),
      ("refresh-2", .strict, "refresh-2", nil), ("refresh-2", .none, "refresh-2", nil),
      ("refresh-2", .grace(.seconds(30)), "refresh-2", "refresh-1"), (nil, .grace(.seconds(30)), "refresh-1", nil),
    ] as [(String?, Rotation, String, String?)])
  func rotation(answered: String?, rotation: Rotation, current: String, previous: String?) {
    var grant = grant()
    grant.refreshed(issued(refresh: answered), at: at(10), rotation: rotation)
    #expect(grant.saved.refreshToken == Secret(current))
    #expect(grant.saved.previousRefreshToken == previous.map(Secret.init))
  }

  @Test(
    "The refresh token's end is as announced, else as configured from its issue; a new one does not inherit the old end",
    arguments: [
      (nil, nil, nil, 1000), (nil, 100, nil, 1000), (nil, nil, 50, 60), ("refresh-2", 100, nil, 110),
      ("refresh-2", nil, nil, nil), ("refresh-2", 100, 50, 60),
    ] as [(String?, Int64?, Int?, Double?)])
  func refreshTokenEnd(rotated: String?, configured: Int64?, announced: Int?, end: Double?) {
    var grant = grant()
    grant.refreshed(issued(more: ["refresh_token_expires_in": "1000"]), at: at(0))
    let attempt = grant.begun(at: at(10))
    let more = announced.map { ["refresh_token_expires_in": "\($0)"] } ?? [:]
    _ = grant.answered(
      attempt, issued(refresh: rotated, more: more), rotation: .strict,
      refreshTokenLifetime: configured.map { .seconds($0) })
    _ = grant.committed(attempt, jitter: 0)
    #expect(grant.saved.refreshTokenExpiresAt == end.map { at($0) })
  }

  @Test("A lost response is asked for once more; a refusal then means that the rotation was lost")
  func lostRotation() {
    for first in [lost, unclear, ProviderFailure.invalid(message: "", nil)] {
      var grant = grant()
      guard case .retry(let saved, let retryAt) = grant.failed(first, at: at(3000)) else {
        Issue.record("the intent must stay")
        return
      }
      #expect(saved == grant.saved)
      #expect(retryAt == at(3005))
      #expect(grant.intent?.attempts == 1)
      // The broker restarts, and has only the state on disk.
      var restarted = Grant(saved: grant.saved, token: grant.token, intent: grant.intent, jitter: 0)
      #expect(restarted.due(at: at(3005), policy: steady) == .refresh)
      let attempt = restarted.begun(at: at(3005))
      #expect(restarted.intent?.attempts == 2)
      #expect(restarted.intent?.sentAt == at(3000))
      #expect(attempt.refreshToken == Secret("refresh-1"))
      let end = restarted.failed(attempt, invalidGrant, at: at(3006), policy: steady, jitter: 0)
      #expect(end == .ended(restarted.saved, .lostRotation))
      #expect(restarted.intent?.attempts == 1, "that there was a request without an answer stays true")
      #expect(restarted.saved.refreshToken == Secret("refresh-1"), "the refresh token is kept")
    }
  }

  @Test("A crash after the intent was written counts as a lost response")
  func crash() {
    var before = grant()
    _ = before.begun(at: at(3000))
    var after = Grant(saved: before.saved, token: before.token, intent: before.intent, jitter: 0)
    #expect(after.failed(invalidGrant, at: at(3010)) == .ended(after.saved, .lostRotation))
  }

  @Test("Without a lost response, or without rotation, a refusal is final")
  func refused() {
    var plain = grant()
    #expect(plain.failed(invalidGrant, at: at(10)) == .ended(plain.saved, .refused))
    var still = grant()
    _ = still.failed(lost, at: at(10), rotation: .none)
    #expect(still.failed(invalidGrant, at: at(20), rotation: .none) == .ended(still.saved, .refused))
    var other = grant()
    let changed = ProviderFailure.ended(.identityChanged, message: "another person", nil)
    _ = other.failed(lost, at: at(10))
    #expect(other.failed(changed, at: at(20)) == .ended(other.saved, .identityChanged))
  }

  @Test("An answer that certainly changed nothing leaves the intent unchanged", arguments: [tryLater, notSent])
  func intentUntouched(failure: ProviderFailure) {
    var fresh = grant()
    _ = fresh.failed(failure, at: at(10))
    #expect(fresh.intent == nil, "the first intent must go")
    #expect(fresh.failed(invalidGrant, at: at(20)) == .ended(fresh.saved, .refused))

    var unsure = grant()
    _ = unsure.failed(lost, at: at(10))
    let intent = unsure.intent
    for step in 2..<6 {
      _ = unsure.failed(failure, at: at(Double(step) * 10))
      #expect(unsure.intent == intent, "an earlier request is as open as before")
    }
    #expect(unsure.failed(invalidGrant, at: at(90)) == .ended(unsure.saved, .lostRotation))
  }

  @Test("An intent for another refresh token does not concern this one")
  func otherIntent() {
    let old = RefreshIntent(
      account: account, refreshTokenHash: Secret("refresh-0").fingerprint, sentAt: at(-9), attempts: 3)
    var grant = grant(intent: old)
    let attempt = grant.begun(at: at(10))
    #expect(grant.intent?.attempts == 1)
    #expect(grant.intent?.sentAt == at(10))
    #expect(grant.failed(attempt, invalidGrant, at: at(11), policy: steady, jitter: 0) == .ended(grant.saved, .refused))
  }

  @Test("Within the grace period a refused refresh token is replaced by the previous one, once")
  func graceFallsBack() {
    let grace = Rotation.grace(.seconds(30))
    var grant = grant()
    grant.refreshed(issued(refresh: "refresh-2"), at: at(0), rotation: grace)
    guard case .retry(let saved, let retryAt) = grant.failed(invalidGrant, at: at(10), rotation: grace) else {
      Issue.record("no second try")
      return
    }
    #expect(saved == grant.saved)
    #expect(retryAt == at(10))
    #expect(saved.refreshToken == Secret("refresh-1"))
    #expect(saved.previousRefreshToken == Secret("refresh-2"))
    #expect(grant.answer(minimumTTL: .seconds(3590), at: at(11), policy: steady) == .token(grant.token!))
    #expect(grant.failed(invalidGrant, at: at(11), rotation: grace) == .ended(grant.saved, .refused))

    var late = Grant(saved: savedGrant(previous: "refresh-0"), token: savedToken(), jitter: 0)
    #expect(late.failed(invalidGrant, at: at(30), rotation: grace) == .ended(late.saved, .refused))
    var strict = Grant(saved: savedGrant(previous: "refresh-0"), token: savedToken(), jitter: 0)
    #expect(strict.failed(invalidGrant, at: at(10)) == .ended(strict.saved, .refused))
  }

  @Test("After a lost answer the previous refresh token is tried too when the current one is refused")
  func lostBeforeFallingBack() {
    let grace = Rotation.grace(.seconds(30))
    var grant = grant()
    grant.refreshed(issued(refresh: "refresh-2"), at: at(0), rotation: grace)
    _ = grant.failed(lost, at: at(10), rotation: grace)
    guard case .retry(let saved, _) = grant.failed(invalidGrant, at: at(12), rotation: grace) else {
      Issue.record("no second try")
      return
    }
    #expect(grant.intent?.refreshTokenHash == saved.refreshToken?.fingerprint)
    var again = Grant(saved: saved, token: grant.token, intent: grant.intent, jitter: 0)
    #expect(grant.failed(invalidGrant, at: at(12), rotation: grace) == .ended(grant.saved, .lostRotation))
    // After a crash between the two there is no third try.
    let late = at(40)
    #expect(again.failed(invalidGrant, at: late, rotation: grace) == .ended(again.saved, .lostRotation))
  }

  @Test("A request that was never answered may arrive behind the one that was, and end the grant where reuse does")
  func overtaken() {
    var grant = grant()
    _ = grant.failed(lost, at: at(10))
    grant.refreshed(issued(refresh: "refresh-2"), at: at(20), rotation: .strict)
    #expect(grant.intent == nil)
    var next = grant
    #expect(grant.failed(invalidGrant, at: at(30)) == .ended(grant.saved, .lostRotation))
    next.refreshed(issued(refresh: "refresh-3"), at: at(30), rotation: .strict)
    #expect(next.failed(invalidGrant, at: at(40)) == .ended(next.saved, .refused))
  }

  @Test("A lost rotation is asked for again within the grace, and after it there is no hurry")
  func graceHurries() {
    let grace = Rotation.grace(.seconds(8))
    var grant = grant()
    let expected: [(Double, Double)] = [(0, 4), (4, 6), (6, 7), (7, 8), (8, 908)]
    for (now, next) in expected {
      guard case .retry(_, let retryAt) = grant.failed(lost, at: at(now), rotation: grace) else {
        Issue.record("no retry at \(now)")
        return
      }
      #expect(retryAt == at(next))
    }
  }

  @Test("A provider that is busy, or asks to wait, after an answer was lost is asked again while the grace lasts")
  func graceHurriesThoughBusy() {
    let grace = Rotation.grace(.seconds(300))
    for asked in [nil, 10, 3600] as [Int64?] {
      var grant = grant()
      let busy = ProviderFailure.tryLater(message: "busy", nil, retryAfter: asked.map { .seconds($0) })
      _ = grant.failed(lost, at: at(0), rotation: grace)
      var now = 5.0
      var tries = 0
      while now < 300 {
        guard case .retry(_, let retryAt) = grant.failed(busy, at: at(now), rotation: grace) else { break }
        now = Double((retryAt - start).milliseconds) / 1000
        tries += 1
      }
      #expect((3...8).contains(tries), "Retry-After \(asked.map(String.init) ?? "none"): \(tries)")
    }
    // If none was lost, there is no reason to hurry.
    var grant = grant()
    let busy = ProviderFailure.tryLater(message: "busy", nil, retryAfter: .seconds(3600))
    #expect(grant.failed(busy, at: at(0), rotation: grace) == .retry(grant.saved, at: at(300)))
  }

  @Test("Delays grow as in the table, and start again after a success")
  func backoff() {
    var grant = grant()
    var now = 0.0
    for delay in [5, 15, 60, 300, 900, 900, 900] as [Double] {
      guard case .retry(_, let retryAt) = grant.failed(unclear, at: at(now)) else { return }
      #expect(retryAt == at(now + delay))
      #expect(grant.due(at: at(now + delay - 0.001), policy: steady) == .nothing)
      #expect(grant.due(at: at(now + delay), policy: steady) == .refresh)
      now += delay
    }
    grant.refreshed(issued(), at: at(now))
    #expect(grant.saved.standing == .good)
    guard case .retry(_, let retryAt) = grant.failed(unclear, at: at(now)) else { return }
    #expect(retryAt == at(now + 5))
  }

  @Test("The first 429 costs the account no time; after more of them it waits for itself")
  func rateLimited() {
    var grant = grant()
    let limited = ProviderFailure.rateLimited(message: "429", nil, retryAfter: .seconds(2))
    var now = 0.0
    for delay in [0, 5, 15, 60, 300, 900] as [Double] {
      #expect(grant.failed(limited, at: at(now)) == .retry(grant.saved, at: at(now + delay)))
      #expect(grant.intent == nil)
      now += delay
    }
    let far = ProviderFailure.rateLimited(message: "429", nil, retryAfter: .seconds(3600))
    grant.refreshed(issued(), at: at(now))
    #expect(grant.failed(far, at: at(now)) == .retry(grant.saved, at: at(now)))
    #expect(grant.failed(far, at: at(now)) == .retry(grant.saved, at: at(now + 300)))
  }

  @Test("Jitter shortens a wait by at most its share")
  func backoffJitter() {
    var grant = grant()
    let attempt = grant.begun(at: at(0))
    guard
      case .retry(_, let retryAt) = grant.failed(attempt, lost, at: at(0), policy: RefreshPolicy(), jitter: 1)
    else { return }
    #expect(retryAt == at(4.5))
  }

  @Test(
    "Retry-After lengthens a wait, never shortens it, and is capped",
    arguments: [(1, 5), (5, 5), (120, 120), (300, 300), (86_400, 300)] as [(Int64, Double)])
  func retryAfter(wanted: Int64, wait: Double) {
    for failure in [
      ProviderFailure.tryLater(message: "", nil, retryAfter: .seconds(wanted)),
      .unclear(message: "", retryAfter: .seconds(wanted)),
    ] {
      var grant = grant()
      guard case .retry(_, let retryAt) = grant.failed(failure, at: at(0), rotation: .grace(.seconds(2))) else {
        Issue.record("no retry")
        return
      }
      if case .tryLater = failure { #expect(retryAt == at(wait)) }
      // Its answer may have been a rotation, which is asked for again before the grace ends.
      if case .unclear = failure { #expect(retryAt == at(wanted == 1 ? 1 : 1.6)) }
    }
  }

  @Test(
    "A caller can retry after the shortest delay if the provider was unavailable and named no later time",
    arguments: [
      (tryLater, 5), (unclear, 5), (.notSent(message: ""), 5),
      (.tryLater(message: "", nil, retryAfter: .seconds(40)), 40),
      (lost, 60), (.rateLimited(message: "", nil, retryAfter: nil), 15),
    ] as [(ProviderFailure, Double)])
  func callersRetry(failure: ProviderFailure, wait: Double) {
    var grant = grant()
    for start in [4000.0, 4100, 4200] { _ = grant.failed(failure, at: at(start)) }
    func answer(_ seconds: Double) -> Grant.Answer {
      grant.answer(minimumTTL: nil, at: at(4200 + seconds), policy: steady)
    }
    guard case .temporarilyUnavailable(_, let retryAt) = answer(1) else {
      Issue.record("\(answer(1))")
      return
    }
    #expect(retryAt == at(4200 + wait))
    #expect(answer(wait) == .refresh)
  }

  @Test(
    "Callers that poll retry an account that fails ever less often while others succeed, until the planned delay",
    arguments: [true, false])
  func pollingCallers(othersSucceed: Bool) {
    var grant = grant()
    var waits: [Int64] = []
    var start = 4000.0
    for _ in 0..<12 {
      _ = grant.failed(
        grant.begun(at: at(start)), tryLater, at: at(start), policy: steady, jitter: 0,
        lastSuccessOfOthers: othersSucceed ? at(start - 1) : nil)
      if case .temporarilyUnavailable(_, let retryAt) = grant.answer(minimumTTL: nil, at: at(start), policy: steady) {
        waits.append((retryAt - at(start)).components.seconds)
        start += Double(waits[waits.count - 1])
      }
    }
    let growing: [Int64] = [5, 5, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
    #expect(waits == (othersSucceed ? growing : Array(repeating: 5, count: 12)))
  }

  @Test("A misconfigured client stops the grant until it is tried again, and ends nothing")
  func misconfigured() {
    var grant = grant()
    let failure = ProviderFailure.misconfigured(message: "invalid_client", OAuthError(code: .invalidClient))
    #expect(grant.failed(failure, at: at(3000)) == .misconfigured(grant.saved))
    guard case .misconfigured(let told) = grant.saved.standing else {
      Issue.record("the state is \(grant.saved.standing)")
      return
    }
    #expect(told == FailureRecord(message: "invalid_client", oauth: OAuthError(code: .invalidClient), at: at(3000)))
    grant.retryNow(at: at(3001))
    #expect(grant.due(at: at(3001), policy: steady) == .refresh)
    grant.refreshed(issued(), at: at(3001))
    #expect(grant.saved.standing == .good)
  }
}
