import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("The polling for a login on another device (RFC 8628 §3.5)", .atMost)
struct DeviceEndingTests {
  struct Ending: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var reason = ErrorReason.loginExpired
    var settings: @Sendable (inout DemoServer.Settings.Device) -> Void = { _ in }
    var status: Int?

    /// The provider says that there is time yet, and then it is over.
    static let all = [
      Ending(testDescription: "expired_token") {
        $0.ttl = .milliseconds(500)
        $0.extra = ["expires_in": 600]
      },
      Ending(testDescription: "invalid_grant in its place") {
        $0.ttl = .milliseconds(500)
        $0.expired = .invalidGrant
        $0.extra = ["expires_in": 600]
      },
      Ending(testDescription: "404 for an unknown code") {
        $0.unknown = .notFound
        $0.extra = ["device_code": "of-nobody"]
      },
      Ending(testDescription: "invalid_grant for an unknown code") { $0.extra = ["device_code": "of-nobody"] },
      Ending(testDescription: "the time that the provider gave", settings: { $0.ttl = .seconds(2) }),
      Ending(testDescription: "410", status: 410),
      Ending(testDescription: "a permanent error", reason: .providerError, status: 400),
    ]
  }

  @Test("49. `expired_token` stops, however the provider says it", arguments: Ending.all)
  func expired(_ ending: Ending) async throws {
    try await DeviceLogin.with { rig in
      rig.demo.changeSettings { ending.settings(&$0.device) }
      if let status = ending.status { try rig.demo.fault(.status, at: .tokenDevice) { $0.status = status } }
      let shown = try await DeviceLogin.start(rig)
      let error = try await DeviceLogin.failure(rig, shown)
      #expect(error.reason == ending.reason, "\(error)")
      #expect(error.hint?.isEmpty == false)
      try await DeviceLogin.expectNothingLeft(rig)
    }
  }

  @Test("a code that the server forgets during the login ends it with that message")
  func forgotten() async throws {
    try await DeviceLogin.with { rig in
      let shown = try await DeviceLogin.start(rig)
      try await eventually("a poll with the answer to wait") { rig.count(.tokenDevice) >= 1 }
      try rig.demo.fault(.status, at: .tokenDevice, times: 1) { $0.status = 404 }
      let error = try await DeviceLogin.failure(rig, shown)
      #expect(error.reason == .loginExpired && error.message.contains("forgot"), "\(error)")
      #expect(error.hint?.contains("grantctl login") == true, "\(error)")
      try await DeviceLogin.expectNothingLeft(rig)
      let next = try await DeviceLogin.start(rig)
      try rig.demo.answerDevice(next.place.user_code)
      #expect(try await DeviceLogin.wait(rig, next).state == .completed)
    }
  }

  struct Trouble: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var kind: DemoServer.Fault.Kind
    var change: @Sendable (inout DemoServer.Fault.Parameters) -> Void = { _ in }

    static let all = [
      Trouble(testDescription: "503", kind: .status),
      Trouble(testDescription: "500", kind: .status) { $0.status = 500 },
      Trouble(testDescription: "408", kind: .status) { $0.status = 408 },
      Trouble(testDescription: "429 with Retry-After", kind: .status) {
        $0.status = 429
        $0.retryAfter = "1"
      },
      Trouble(testDescription: "a web page at 200", kind: .html200),
      Trouble(testDescription: "an error that passes", kind: .oauthError) { $0.error = "temporarily_unavailable" },
      Trouble(testDescription: "a redirect", kind: .redirect),
      Trouble(testDescription: "a connection cut before", kind: .dropBeforeCommit),
      Trouble(testDescription: "a connection cut after", kind: .dropAfterCommit),
      Trouble(testDescription: "an answer cut short", kind: .truncated),
    ]
  }

  @Test("49. a network error backs off, and ends nothing", arguments: Trouble.all)
  func trouble(_ trouble: Trouble) async throws {
    try await DeviceLogin.with { rig in
      try rig.demo.fault(trouble.kind, at: .tokenDevice, times: 1, trouble.change)
      let shown = try await DeviceLogin.start(rig)
      // A request is counted on arrival; the lost answer must be "wait", not the tokens.
      let isJudged = trouble.kind == .dropAfterCommit || trouble.kind == .truncated
      try await eventually("the poll that fails") {
        isJudged ? rig.demo.stats().events[.poll, default: 0] >= 1 : rig.count(.tokenDevice) >= 1
      }
      try rig.demo.answerDevice(shown.place.user_code)
      #expect(try await DeviceLogin.wait(rig, shown).state == .completed)
      let polls = rig.requests(.tokenDevice).map(\.at)
      try #require(polls.count >= 2)
      // The interval is one second.
      #expect(polls[1] - polls[0] > .seconds(1.9), "asked again without a longer wait")
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }
}
