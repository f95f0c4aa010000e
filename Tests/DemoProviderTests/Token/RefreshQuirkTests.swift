import DemoProvider
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@Suite struct RefreshQuirkTests {
  typealias Settings = DemoServer.Settings
  private static let full = "openid profile email offline_access api.read"

  @Test func aNarrowedRefreshMayLeaveTheRefreshTokenAlone() async throws {
    try await withServer({ $0.settings.refresh.narrowedRotates = false }) { _, client in
      let first = await client.signIn()
      let narrow = await client.refresh(first.refresh, ["scope": "api.read"])
      #expect(narrow?.json?["scope"] == "api.read" && narrow?.json?["refresh_token"] == nil)
      #expect(Tokens(await client.refresh(first.refresh)).refresh != first.refresh)
    }
  }

  @Test(
    arguments: [
      (Settings.Refresh.Narrowing.refused, ["scope": "api.read"], nil, "invalid_scope"),
      (.refused, ["resource": "https://a.example"], nil, "invalid_target"), (.refused, ["scope": full], full, nil),
      (.ignored, ["scope": "api.read", "resource": "https://a.example"], full, nil),
    ] as [(Settings.Refresh.Narrowing, [String: String?], String?, String?)])
  func narrowingMayBeRefusedOrIgnored(
    _ setting: Settings.Refresh.Narrowing, _ fields: [String: String?], _ scope: String?, _ error: String?
  ) async throws {
    try await withServer({ $0.settings.refresh.narrowing = setting }) { _, client in
      let token = await client.signIn().refresh
      let answer = await client.refresh(token, fields)
      #expect(answer?.json?["scope"] == scope.map { .string($0) })
      #expect(answer?.json?["error"] == error.map { .string($0) })
      let after = await client.refresh(token)
      #expect(answer?.status == 200 || after?.status == 200)
    }
  }

  @Test(
    arguments: [
      (.invalidGrant, 400, "invalid_grant"), (.invalidRequest, 400, "invalid_request"), (.empty400, 400, nil),
      (.empty403, 403, nil),
    ] as [(Settings.Refresh.BadToken, Int, String?)])
  func aBadRefreshTokenIsToldInManyWays(
    _ setting: Settings.Refresh.BadToken, _ status: Int, _ error: String?
  ) async throws {
    try await withServer({ $0.settings.refresh.badToken = setting }) { _, client in
      let answer = await client.refresh("unknown")
      #expect(answer?.status == status && answer?.json?["error"] == error.map { .string($0) })
      #expect(error != nil || (answer?.body == "" && answer?.header("content-type") == nil))
    }
  }

  @Test func twoRefreshesOfOneTokenMayBothDie() async throws {
    try await withServer({ $0.settings.refresh.parallel = .bothDie }) { server, client in
      let first = await client.signIn()
      let second = Tokens(await client.refresh(first.refresh))
      let third = Tokens(await client.refresh(first.refresh))
      #expect(!third.access.isEmpty && third.refresh != second.refresh)
      for tokens in [second, third] {
        #expect(await client.userinfo(tokens.access)?.status == 401)
        #expect(await client.refresh(tokens.refresh)?.json?["error"] == "invalid_grant")
      }
      #expect(server.stats().count(.reuse) == 1)
      #expect(server.stats().grants.first?.ended == "refreshed twice in parallel")
    }
  }

  @Test(.timeLimit(.minutes(5))) func refreshesAtOnceMayBe500s() async throws {
    try await withServer({ $0.settings.refresh.parallel = .error500 }) { server, client in
      let token = await client.signIn().refresh
      try server.fault(.delay, at: .tokenRefresh, times: 1) { $0.seconds = 3600 }
      let held = Task { await client.refresh(token) }
      #expect(await eventually { server.stats().refreshesInFlight > 0 })
      let answer = await client.refresh(token)
      #expect(answer?.status == 500 && answer?.json?["error"] == "server_error")
      #expect(server.stats().refreshes == 0)
      await server.stop()
      #expect(await held.value == nil)
    }
  }

  @Test func aSecondTokenInOneSecondMayBeA500() async throws {
    let clock = StepClock()
    try await withServer({
      $0.now = { clock.now }
      $0.settings.token.onePerSecond = true
    }) { _, client in
      let token = await client.signIn().refresh
      clock.advance(0.9)
      #expect(await client.refresh(token)?.status == 500)
      clock.advance(0.1)
      #expect(await client.refresh(token)?.status == 200)
    }
  }

  @Test func theOldAccessTokenMayDieAtOnce() async throws {
    try await withServer({ $0.settings.refresh.killsAccessToken = true }) { _, client in
      let first = await client.signIn()
      let second = Tokens(await client.refresh(first.refresh))
      #expect(await client.userinfo(first.access)?.status == 401)
      #expect(await client.userinfo(second.access)?.status == 200)
    }
  }
}
