import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Token answers outside the specification, and faults during a login")
struct OddAnswerTests {
  typealias Kind = DemoServer.Fault.Kind

  /// Whether the expiry is known after a login whose token answer is so.
  @Test(
    "an odd lifetime or a missing refresh token fails no login",
    arguments: [
      (Kind.expiresInString, true), (.expiresInAbsent, false), (.expiresInHuge, true), (.expiresInNegative, false),
      (.noRefreshToken, true), (.emptyRefreshToken, true),
    ])
  func harmless(kind: Kind, isExpiryKnown: Bool) async throws {
    try await Rig.with { rig in
      try rig.demo.fault(kind, at: .tokenCode, times: 1)
      try await rig.login()
      let token = try await rig.token()
      #expect((token.expires_at != nil) == isExpiryKnown)
      #expect((token.expires_in != nil) == isExpiryKnown)
      if kind == .expiresInString { #expect((290...300).contains(token.expires_in ?? 0)) }
      #expect(try await works(token.access_token, at: rig.demo))
      #expect(rig.demo.stats().requests["token.refresh"] == nil)
    }
  }

  @Test("a grant without a refresh token serves its one token, and then asks for a login and says why")
  func noRefreshToken() async throws {
    try await Rig.with(Wish { $0.accessTTL = 6 }) { rig in
      try rig.demo.fault(.noRefreshToken, at: .tokenCode, times: 1)
      try await rig.login()
      #expect(try await rig.token().generation == 1)
      try await rig.wait(toBe: .loginRequired)
      let error = try await rig.failure("token.get", ["account": "alice"])
      #expect(error.reason == .loginRequired)
      #expect(error.detail == "no_refresh_token")
      #expect(rig.demo.stats().requests["token.refresh"] == nil)
    }
  }

  @Test("tokens that are over when they come cause no storm of refreshes")
  func overAtOnce() async throws {
    let wish = Wish {
      $0.accessTTL = 4
      $0.rotation = .none
      $0.provider = "rotation = \"none\""
      $0.refresh = "share = 0.25\njitter = 0\nretry_delays = [\"1s\"]"
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      try rig.demo.fault(.expiresInZero, at: .tokenRefresh)
      try await eventually("the first odd answer") { (rig.demo.stats().requests["token.refresh"] ?? 0) >= 1 }
      let before = rig.demo.stats().requests["token.refresh"] ?? 0
      func further() -> Int { (rig.demo.stats().requests["token.refresh"] ?? 0) - before }
      let begun = ContinuousClock.now
      try await eventually("a storm, or 2 s") { further() > 4 || ContinuousClock.now >= begun + .seconds(2) }
      let refreshes = further()
      // This machine may have paused during this time, and two refreshes in a second are not a storm.
      let seconds = max(2, Int((ContinuousClock.now - begun) / .seconds(1)))
      #expect(refreshes <= 2 * seconds, "\(refreshes) refreshes within \(seconds) s")
      rig.demo.reset()
      rig.demo.changeSettings { $0.accessTTL = .seconds(300) }
      // A caller waits for seconds, not for the scheduler's minute.
      try await eventually("it recovers") {
        (try? await rig.token())?.expires_in.map { $0 > 100 } ?? false
      }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test(
    "a token answer that cannot be used fails the login, stores nothing, and sends no code twice",
    arguments: [
      Kind.status, .html200, .error200, .empty400, .redirect, .truncated, .dropBeforeCommit, .dropAfterCommit,
      .hugeBody, .tokenType, .formEncoded,
    ])
  func failedExchange(kind: Kind) async throws {
    try await Rig.with { rig in
      try rig.demo.fault(kind, at: .tokenCode, times: 1)
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      let page = try await Browser.open(callback.url)
      #expect(page.status == 502)
      #expect(page.body.contains("grantctl login"))
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect([.providerError, .temporarilyUnavailable].contains(error.reason), "\(error)")
      #expect(error.hint?.isEmpty == false)
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      #expect(try await rig.call("login.list")["logins"]?.array == [])
      // The same URL again, even after a restart, which leaves no data of the login.
      #expect(try await Browser.open(callback.url).status == 400)
      try await rig.restart()
      #expect(try await Browser.open(callback.url).status == 400)
      #expect(rig.demo.stats().requests["token.code"] == 1)
      try await rig.login()
      #expect(rig.demo.stats().requests["token.code"] == 2)
    }
  }

  @Test(
    "without metadata no login starts, the error says what to look at, and the next attempt works",
    arguments: [Kind.status, .html200, .dropBeforeCommit, .truncated, .redirect, .wrongIssuer])
  func metadata(kind: Kind) async throws {
    try await Rig.with { rig in
      try rig.demo.fault(kind, at: .discovery)
      let error = try await rig.failure("login.start", ["provider": "demo", "account": "alice"])
      #expect(
        [.temporarilyUnavailable, .providerError, .providerMisconfigured].contains(error.reason), "\(error)")
      #expect(error.hint?.isEmpty == false, "\(error)")
      #expect(try await rig.call("login.list")["logins"]?.array == [])
      rig.demo.reset()
      try await eventually("a login") { (try? await rig.startLogin()) != nil }
      try await rig.login()
    }
  }

  @Test(
    "without the provider's keys an ID token is not trusted", arguments: [Kind.status, .html200, .dropBeforeCommit])
  func keys(kind: Kind) async throws {
    try await Rig.with { rig in
      try rig.demo.fault(kind, at: .jwks)
      let login = try await rig.startLogin()
      let page = try await Browser.open(try await rig.callback(of: login).url)
      #expect(page.status == 502)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect([.providerError, .temporarilyUnavailable].contains(error.reason), "\(error)")
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      rig.demo.reset()
      try await eventually("a login") { (try? await rig.login()) != nil }
    }
  }
}
