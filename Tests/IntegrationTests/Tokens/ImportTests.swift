import BrokerAPI
import DemoProvider
import Foundation
import TestHTTP
import TestSupport
import Testing

@Suite("A refresh token that is imported", .atMost)
struct ImportTests {
  /// A refresh token that the provider gave to its client elsewhere.
  private static func refreshToken(_ rig: Rig, of user: String = "alice") async throws -> String {
    rig.demo.changeSettings { $0.token.passwordGrant = true }
    let answer = try await TestRequest.form(
      "\(rig.demo.issuer)/token",
      "grant_type=password&client_id=demo&username=\(user)&password=\(user)-password&scope=openid+email"
    ).send()
    let body = answer.body.flatMap { DemoServer.JSON(text: $0) }
    guard let token = body?["refresh_token"]?.string else { throw Failed("the provider gives no refresh token") }
    return token
  }

  private static func params(_ token: String, _ account: String = "alice") -> JSON {
    ["account": .string(account), "provider": "demo", "refresh_token": .string(token)]
  }

  @Test("becomes an account that is tried at once, rotated, kept, and refreshed after a restart")
  func live() async throws {
    try await Rig.with { rig in
      let token = try await Self.refreshToken(rig)
      let view = try await rig.call("account.import", Self.params(token))
      #expect(view["state"] == "ok" && view["grant"] == "import" && view["account"] == "alice")
      #expect(rig.count(.tokenRefresh) == 1)
      let first = try await rig.token()
      #expect(try await works(first.access_token, at: rig.demo))
      #expect(try await rig.reject(first.generation).refreshed)
      try await rig.restart()
      let second = try await rig.token()
      #expect(second.generation == first.generation + 1)
      #expect(try await rig.reject(second.generation).refreshed)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      // Each refresh token was used once: strict rotation ends the grant otherwise.
      let sent = rig.requests(.tokenRefresh).compactMap { $0.parameters["refresh_token"] }
      #expect(sent.count == 3 && Set(sent).count == 3 && sent.first == token)
      #expect(rig.demo.stats().liveGrants == 1)
      #expect(!rig.log.contains(token))
    }
  }

  @Test("that is dead leaves nothing behind")
  func dead() async throws {
    try await Rig.with { rig in
      let token = try await Self.refreshToken(rig)
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure("account.import", Self.params(token))
      #expect(error.reason == .loginRequired && error.oauth?.error == "invalid_grant", "\(error)")
      #expect(!error.message.contains(token) && error.hint?.contains(token) != true)
      for _ in 1...2 {
        #expect(try await rig.call("account.list")["accounts"]?.array == [])
        #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .unknownAccount)
        try await rig.restart()
      }
      #expect(!rig.log.contains(token))
      #expect(rig.count(.tokenRefresh) == 1)
    }
  }

  @Test("takes no good account's place, and is not used up")
  func taken() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let before = try await rig.token()
      let token = try await Self.refreshToken(rig, of: "bob")
      let error = try await rig.failure("account.import", Self.params(token))
      #expect(error.code == RPCError.invalidParams("").code)
      #expect(error.hint?.contains("grantctl logout alice") == true)
      #expect(try await rig.token() == before)
      #expect(try await rig.account().identity?.email == "alice@demo.example")
      #expect(rig.count(.tokenRefresh) == 0)
      // Under another name it serves.
      #expect(try await rig.call("account.import", Self.params(token, "bob"))["state"] == "ok")
    }
  }

  @Test("replaces a grant that has ended")
  func replaced() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let generation = try await rig.token().generation
      try rig.demo.revoke(user: "alice")
      #expect(
        try await rig.failure("token.report_rejected", ["account": "alice", "generation": .integer(generation)]).reason
          == .loginRequired)
      let token = try await Self.refreshToken(rig)
      #expect(try await rig.call("account.import", Self.params(token))["state"] == "ok")
      let after = try await rig.token()
      #expect(after.generation > generation)
      #expect(try await works(after.access_token, at: rig.demo))
    }
  }

  @Test("while the provider is down is kept, over a restart too, and works when it is back")
  func down() async throws {
    try await Rig.with(Wish { $0.isRelayed = true }) { rig in
      let token = try await Self.refreshToken(rig)
      await rig.relay?.close()
      let error = try await rig.failure("account.import", Self.params(token))
      #expect(error.reason == .temporarilyUnavailable && (error.retry_after ?? 0) > 0, "\(error)")
      #expect(try await rig.account().state == .degraded)
      try await rig.restart()
      #expect(try await rig.account().grant == "import")
      try await rig.relay?.start()
      try await eventually("a token") { (try? await rig.token()) != nil }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test(
    "that no provider would have given is refused before anything is sent",
    arguments: ["", "two words", "a\nline", "caf\u{E9} ", String(repeating: "a", count: 20_000)])
  func malformed(token: String) async throws {
    try await Rig.with { rig in
      let error = try await rig.failure("account.import", Self.params(token))
      #expect(error.code == RPCError.invalidParams("").code && error.reason == nil, "\(error)")
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      #expect(rig.count(.token) + rig.count(.tokenRefresh) == 0)
    }
  }

  @Test("comes through grantctl import by standard input, and is said nowhere")
  func commandLine() async throws {
    try await Rig.with { rig in
      let token = try await Self.refreshToken(rig)
      let file = try rig.folder.write(token + "\n", to: "refresh-token")
      let (status, said) = try await Programs.run(
        "/bin/sh",
        ["-c", #""$1" import work --provider demo --socket "$2" < "$3""#, "sh", Programs.grantctl, rig.socket, file],
        in: rig.folder)
      #expect(status == 0, "\(said)")
      #expect(said.contains("Imported: work") && !said.contains(token))
      #expect(try await works(try await rig.token("work").access_token, at: rig.demo))
    }
  }
}
