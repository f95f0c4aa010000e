import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Revocation at the provider")
struct RevocationTests {
  typealias Revocation = DemoServer.Stats.Revocation

  @Test("the refresh token goes first, and each has the right hint: a wrong one leaves the token alive on some")
  func hints() async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.logout.strictHint = true }
      try await rig.login()
      let token = try await rig.token().access_token
      #expect(
        try await rig.logout().steps == ["revoke_refresh_token done", "revoke_access_token done", "forget done"])
      let stats = rig.demo.stats()
      #expect(stats.revocations.map(\.hint) == ["refresh_token", "access_token"])
      #expect(
        stats.revocations.first == Revocation(kind: "refresh_token", hint: "refresh_token", revoked: true))
      #expect(stats.liveGrants == 0)
      #expect(try await works(token, at: rig.demo) == false)
    }
  }

  @Test(
    "a provider that is down is informed later, even after a kill; the account is removed at once")
  func queued() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.status, at: .revoke)
      #expect(
        try await rig.logout().steps == ["revoke_refresh_token queued", "revoke_access_token queued", "forget done"])
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .unknownAccount)
      #expect(rig.demo.stats().liveGrants == 1)
      try rig.kill9()
      rig.demo.reset()
      try await rig.start()
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .unknownAccount)
      try await eventually("the tokens are revoked") { rig.demo.stats().revocations.count == 2 }
      #expect(rig.demo.stats().liveGrants == 0)
      #expect(Set(rig.demo.stats().revocations.map(\.hint)) == ["refresh_token", "access_token"])
    }
  }

  struct Answer: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var result: String
    var kind: DemoServer.Fault.Kind
    var change: @Sendable (inout DemoServer.Fault.Parameters) -> Void = { _ in }

    static let all = [
      Answer(testDescription: "503 with Retry-After", result: "queued", kind: .status) { $0.retryAfter = "3600" },
      Answer(testDescription: "429", result: "queued", kind: .status) { $0.status = 429 },
      Answer(testDescription: "no answer", result: "queued", kind: .dropBeforeCommit),
      Answer(testDescription: "404", result: "unsupported", kind: .status) { $0.status = 404 },
      Answer(testDescription: "unsupported_token_type", result: "unsupported", kind: .oauthError) {
        $0.error = "unsupported_token_type"
      },
      Answer(testDescription: "invalid_client", result: "refused", kind: .oauthError) {
        $0.error = "invalid_client"
        $0.status = 401
      },
      Answer(testDescription: "an error at 200", result: "refused", kind: .error200) { $0.error = "invalid_request" },
      Answer(testDescription: "an empty 400", result: "refused", kind: .empty400),
    ]
  }

  @Test("each answer has its result, and the account is forgotten with each", arguments: Answer.all)
  func answers(_ answer: Answer) async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(answer.kind, at: .revoke, answer.change)
      let steps = try await rig.logout().steps
      #expect(
        steps == ["revoke_refresh_token \(answer.result)", "revoke_access_token \(answer.result)", "forget done"])
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
    }
  }

  @Test("tokens that the provider no longer knows are revoked: it answers 200")
  func unknown() async throws {
    try await Rig.with { rig in
      let imported = try await rig.failure(
        "account.import", ["account": "alice", "provider": "demo", "refresh_token": "rt-of-nobody-0123456789"])
      #expect([.loginRequired, .providerError, .loginDenied].contains(imported.reason), "\(imported)")
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      #expect(
        try await rig.logout().steps == ["revoke_refresh_token done", "revoke_access_token done", "forget done"])
    }
  }

  /// Any endpoint that takes a token plays Dropbox's.
  private static func box(_ rig: Rig) -> String {
    rig.section("box", "revocation_style = \"bearer\"\nrevocation_endpoint = \"\(rig.demo.issuer)/resource\"")
  }

  @Test("the bearer style sends only the access token in the header; it ends the whole grant")
  func bearer() async throws {
    try await Rig.with(sections: Self.box) { rig in
      try await rig.login("alice", at: "box")
      let token = try await rig.token().access_token
      #expect(
        try await rig.logout().steps == ["revoke_access_token done", "revoke_refresh_token done", "forget done"])
      #expect(rig.count(.resource) == 1 && rig.count(.tokenRefresh) == 0)
      let request = try #require(rig.requests(.resource).last)
      #expect(request.method == "POST")
      #expect(request.headers["authorization"] == "Bearer \(token)")
      #expect(request.body.isEmpty && request.names.isEmpty)
    }
  }

  @Test("in the bearer style an access token that has ended is replaced first, also later, by a daemon that was killed")
  func bearerEnded() async throws {
    let wish = Wish {
      $0.accessTTL = 1
      $0.refresh = "share = 1\nmargin = \"0s\"\njitter = 0\nretry_delays = [\"600s\"]"
    }
    try await Rig.with(wish, sections: Self.box) { rig in
      try rig.demo.fault(.status, at: .tokenRefresh)
      try await rig.login("alice", at: "box")
      try await eventually("the access token has ended") {
        (try? await rig.failure("token.get", ["account": "alice"]))?.reason == .temporarilyUnavailable
      }
      // A token is not returned in its last second.
      try await Task.sleep(for: .seconds(1))
      #expect(try await rig.logout().steps == ["revoke_refresh_token queued", "forget done"])
      #expect(rig.count(.resource) == 0)
      try rig.kill9()
      rig.demo.reset()
      rig.demo.changeSettings { $0.accessTTL = .seconds(300) }
      try await rig.start()
      try await eventually("the revocation") { rig.count(.resource) == 1 }
      let request = try #require(rig.requests(.resource).last)
      #expect(request.method == "POST" && request.headers["authorization"]?.hasPrefix("Bearer ") == true)
      #expect(rig.count(.tokenRefresh) == 1 && rig.count(.revoke) == 0)
    }
  }

  @Test("a provider's own parameters go along")
  func parameters() async throws {
    try await Rig.with(Wish { $0.provider = "revocation_parameters = { all = \"yes\" }" }) { rig in
      try await rig.login()
      _ = try await rig.logout()
      let requests = rig.demo.requests.filter { $0.place == .revoke }
      #expect(requests.map { $0.parameters["all"] } == ["yes", "yes"])
      #expect(requests.allSatisfy { $0.parameters["client_id"] == "demo" })
    }
  }
}
