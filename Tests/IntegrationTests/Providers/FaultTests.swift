import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("A provider that fails")
struct FaultTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var kind: DemoServer.Fault.Kind
    var change: @Sendable (inout DemoServer.Fault.Parameters) -> Void = { _ in }

    static let all: [Case] = [
      Case(testDescription: "500", kind: .status) { $0.status = 500 },
      Case(testDescription: "503", kind: .status),
      Case(testDescription: "503 after the rotation", kind: .status) { $0.moment = .after },
      Case(testDescription: "429 with Retry-After", kind: .status) {
        $0.status = 429
        $0.retryAfter = "1"
      },
      Case(testDescription: "404", kind: .status) { $0.status = 404 },
      Case(testDescription: "a web page at 200", kind: .html200),
      Case(testDescription: "an OAuth error that passes", kind: .oauthError) { $0.error = "temporarily_unavailable" },
      Case(testDescription: "400 without a body", kind: .empty400),
      Case(testDescription: "an answer cut short", kind: .truncated),
      Case(testDescription: "a connection cut before", kind: .dropBeforeCommit),
      Case(testDescription: "a connection cut after", kind: .dropAfterCommit),
      Case(testDescription: "8 MiB", kind: .hugeBody),
      Case(testDescription: "a redirect", kind: .redirect),
    ]
  }

  /// Refreshed after two seconds, so that most of the life is left when that fails.
  private static let early = Wish {
    $0.accessTTL = 20
    $0.rotation = .none
    $0.provider = "rotation = \"none\""
    $0.refresh = "share = 0.1\njitter = 0\nretry_delays = [\"1s\"]"
  }
  private static let short = Wish {
    $0 = early
    $0.accessTTL = 8
    $0.refresh = "share = 0.1\njitter = 0\nretry_delays = [\"1s\"]"
  }

  @Test("degrades the account while its token is good, callers never notice, and it recovers", arguments: Case.all)
  func degrades(_ fault: Case) async throws {
    try await Rig.with(Self.early) { rig in
      try rig.demo.fault(fault.kind, at: .tokenRefresh, fault.change)
      try await rig.login()
      let first = try await rig.token()
      try await rig.wait(toBe: .degraded)
      let account = try await rig.account()
      #expect(account.last_error?.reason == .temporarilyUnavailable)
      #expect(account.last_error?.message.isEmpty == false)
      for _ in 1...5 { #expect(try await rig.token().access_token == first.access_token) }
      #expect(try await rig.token(minTTL: 60).access_token == first.access_token)
      rig.demo.reset()
      try await rig.wait(toBe: .ok)
      #expect(try await rig.account().last_error == nil)
      #expect(try await rig.token().generation > first.generation)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test("an OAuth error at status 200 is an error too: invalid_grant ends the grant")
  func errorAt200() async throws {
    try await Rig.with(Self.short) { rig in
      try rig.demo.fault(.error200, at: .tokenRefresh) { $0.error = "invalid_grant" }
      try await rig.login()
      try await rig.wait(toBe: .loginRequired)
      rig.demo.reset()
      try await rig.login()
      #expect(try await rig.account().state != .loginRequired)
    }
  }

  @Test("Retry-After is obeyed")
  func retryAfter() async throws {
    try await Rig.with(Self.short) { rig in
      try rig.demo.fault(.status, at: .tokenRefresh) {
        $0.status = 429
        $0.retryAfter = "120"
      }
      try await rig.login()
      try await rig.wait(toBe: .degraded)
      let retry = try #require(try await rig.account().next_refresh_at)
      #expect(Double(retry) - Date().timeIntervalSince1970 > 100)
      // After the token has expired, callers get the wait, and no request is sent during it.
      let expiry = Double(try #require(try await rig.account().expires_at))
      try await eventually("the token is over") { Date().timeIntervalSince1970 > expiry + 1.1 }
      let error = try await rig.failure("token.get", ["account": "alice"])
      #expect(error.reason == .temporarilyUnavailable)
      #expect((error.retry_after ?? 0) > 80)
      #expect(rig.demo.stats().requests["token.refresh"] == 1)
    }
  }

  @Test("a slow answer is awaited, and delays no caller with a token")
  func slowBody() async throws {
    try await Rig.with(Self.early) { rig in
      try rig.demo.fault(.slowBody, at: .tokenRefresh, times: 1) { $0.bytesPerSecond = 300 }
      try await rig.login()
      try await eventually("the slow refresh is under way") { try await rig.account().state == .refreshing }
      #expect(try await rig.token().generation == 1)
      try await eventually("the slow refresh ends well") { try await rig.token().generation > 1 }
    }
  }

  @Test(
    "an answer lost after the rotation costs a login under strict rotation, and nothing otherwise",
    arguments: DemoServer.Rotation.allCases)
  func lostAnswer(rotation: DemoServer.Rotation) async throws {
    let wish = Wish {
      // The first token is asked for before it is refreshed.
      $0 = Self.early
      $0.rotation = rotation
      $0.provider = "rotation = \"\(rotation == .grace ? "grace 60s" : rotation.rawValue)\""
    }
    try await Rig.with(wish) { rig in
      try rig.demo.fault(.dropAfterCommit, at: .tokenRefresh, times: 1)
      try await rig.login()
      let first = try await rig.token()
      if rotation == .strict {
        try await rig.wait(toBe: .loginRequired)
        let error = try await rig.failure(
          "token.report_rejected", ["account": "alice", "generation": .integer(first.generation)])
        #expect(error.reason == .loginRequired)
        #expect(error.detail == "lost_rotation")
        try await rig.login()
      }
      try await eventually("it goes on") { try await rig.token().generation > first.generation }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("an answer lost with a killed daemon: strict rotation asks for a login and says why")
  func lostWithDaemon() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.delay, at: .tokenRefresh) {
        $0.seconds = 60
        $0.moment = .after
      }
      let rejected = Task {
        try? await rig.call("token.report_rejected", ["account": "alice", "generation": 1])
      }
      try await eventually("the provider has rotated") { rig.demo.stats().refreshes == 1 }
      try rig.kill9()
      _ = await rejected.value
      rig.demo.reset()
      try await rig.start()
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason == .loginRequired)
      #expect(error.detail == "lost_rotation")
      #expect(error.hint?.contains("`grantctl login demo alice`") == true)
    }
  }

  @Test("invalid_grant requires a login, names the exact command, and no further request is sent")
  func invalidGrant() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      let refused = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(refused.reason == .loginRequired)
      let asked = rig.demo.stats().requests["token.refresh"]
      for _ in 1...20 {
        let error = try await rig.failure("token.get", ["account": "alice"])
        #expect(error.reason == .loginRequired)
        #expect(error.hint == "Sign in again with `grantctl login demo alice`.")
        #expect(error.oauth?.error == "invalid_grant")
        #expect(error.detail == "refused")
      }
      try await rig.restart()
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .loginRequired)
      #expect(rig.demo.stats().requests["token.refresh"] == asked)
    }
  }

  @Test("invalid_client for one account does not stop the other, until that is refused too; a reload tries again")
  func invalidClient() async throws {
    let wish = Wish {
      $0.accessTTL = 12
      $0.client = .init(id: "demo", secret: "s3cret-of-this-client")
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      try await rig.login("bob")
      try rig.demo.fault(.oauthError, at: .tokenRefresh) {
        $0.error = "invalid_client"
        $0.status = 401
      }
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason == .providerMisconfigured)
      #expect(error.hint?.contains("[provider.demo]") == true)
      let rested = try await rig.account("bob")
      #expect(rested.state == .ok)
      // Bob's token has less than half of its life left, and is good nevertheless.
      let expiry = Double(try #require(rested.expires_at))
      try await eventually("bob's token is old") { Date().timeIntervalSince1970 > expiry - 5 }
      #expect(try await rig.token("bob").generation == 1)
      try await eventually("bob's token is over") { Date().timeIntervalSince1970 > expiry + 1.1 }
      #expect(try await rig.failure("token.get", ["account": "bob"]).reason == .providerMisconfigured)
      #expect((2...4).contains(rig.demo.stats().requests["token.refresh"] ?? 0))
      rig.demo.reset()
      rig.demo.changeSettings { $0.accessTTL = .seconds(300) }
      try await rig.call("broker.reload")
      #expect(try await rig.token("bob").generation == 2)
      #expect(try await rig.token("alice").generation == 2)
    }
  }

  @Test("a provider that is down at the start: the daemon starts, serves stored tokens, and recovers")
  func downAtStart() async throws {
    let wish = Wish {
      // The token outlives a start, also on a busy machine.
      $0 = Self.early
      $0.isRelayed = true
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      try rig.kill9()
      await rig.relay?.close()
      // Nor is there any metadata.
      try rig.demo.fault(.dropBeforeCommit, at: .discovery)
      try await rig.start()
      try await rig.wait(toBe: .degraded)
      _ = try await rig.token()
      let expiry = Double(try #require(try await rig.account().expires_at))
      try await eventually("the token is over") { Date().timeIntervalSince1970 > expiry + 1.1 }
      let error = try await rig.failure("token.get", ["account": "alice"])
      #expect(error.reason == .temporarilyUnavailable)
      #expect((error.retry_after ?? 0) >= 1)
      rig.demo.reset()
      try await rig.relay?.start()
      // By itself it tries every 30 seconds, once the outage has lasted.
      try await rig.wait(toBe: .ok, within: .seconds(90))
      #expect(try await rig.token().generation > 1)
    }
  }
}
