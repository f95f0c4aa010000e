import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("An account that the configuration declares", .atMost)
struct DeclaredAccountTests {
  private static let secret = "a-secret-of-more-than-thirty-two-bytes-for-HS256"
  private static let robot = "[account.robot]\nprovider = \"demo\"\ngrant = \"client_credentials\"\nscopes = [\"read\"]"

  /// A confidential client whose account is unattended.
  private static func clientCredentials(_ change: (inout Wish) -> Void = { _ in }) -> Wish {
    Wish.shortLived {
      $0.client = .init(id: "demo", secret: secret)
      change(&$0)
    }
  }

  private static func grantctl(_ rig: Rig, _ arguments: String...) async throws -> (status: Int32, said: String) {
    let (status, output) = try await Programs.run(
      Programs.grantctl, arguments + ["--socket", rig.socket], in: rig.folder)
    return (status, output.split(whereSeparator: \.isWhitespace).joined(separator: " "))
  }

  @Test("has a token without a login, refreshed automatically, even after kill -9, and removed with its section")
  func clientCredentials() async throws {
    try await Rig.with(Self.clientCredentials(), sections: { _ in Self.robot }) { rig in
      let seen = try await rig.answer()
      #expect(seen.status == 200 && seen.scopes == ["read"] && seen.body?["client_id"] == "demo")
      let account = try await rig.account("robot")
      #expect(account.grant == "client_credentials" && account.identity == nil && account.refresh_expires_at == nil)
      try await eventually("two refreshes without a request") {
        try await rig.account("robot").generation >= account.generation + 2
      }
      try await rig.restart()
      try await eventually("its token works") { try await rig.answer().status == 200 }
      #expect(rig.count(.tokenRefresh) == 0)
      #expect(try await rig.pendingLogins == 0)
      try rig.configure()
      try await rig.call("broker.reload")
      for _ in 1...2 {
        #expect(try await rig.failure("token.get", ["account": "robot"]).reason == .unknownAccount)
        #expect(try await rig.call("account.list")["accounts"]?.array == [])
        try await rig.restart()
      }
      // And it comes back with it.
      try rig.configure(Self.robot)
      try await rig.call("broker.reload")
      try await eventually("its token works") { try await rig.answer().status == 200 }
    }
  }

  @Test("whose section goes is forgotten, and its token is revoked where the provider can", arguments: [false, true])
  func revoked(byRestart: Bool) async throws {
    let wish = Self.clientCredentials { $0.accessTTL = 300 }
    try await Rig.with(wish, sections: { _ in Self.robot }) { rig in
      let token = try await rig.token("robot").access_token
      #expect(try await ResourceAnswer.get(rig.demo, token: token).status == 200)
      try rig.configure()
      if byRestart {
        try await rig.restart()
      } else {
        // The revocation is sent later if the provider is unavailable.
        try rig.demo.fault(.status, at: .revoke, times: 1)
        try await rig.call("broker.reload")
      }
      #expect(try await rig.failure("token.get", ["account": "robot"]).reason == .unknownAccount)
      try await eventually("the token is revoked") { rig.demo.stats().revocations.count == 1 }
      #expect(
        rig.demo.stats().revocations.first == .init(kind: "access_token", hint: "access_token", revoked: true))
      #expect(try await ResourceAnswer.get(rig.demo, token: token).status == 401)
    }
  }

  @Test("is shown by grantctl with its kind")
  func shown() async throws {
    let wish = Self.clientCredentials { $0.accessTTL = 300 }
    try await Rig.with(wish, sections: { _ in Self.robot }) { rig in
      try await rig.hasToken("robot")
      let list = try await Self.grantctl(rig, "list")
      #expect(list.status == 0 && list.said.contains("robot demo ok - "), "\(list.said)")
      let status = try await Self.grantctl(rig, "status")
      #expect(status.status == 0 && status.said.contains("robot ok"), "\(status.said)")
      #expect(!status.said.contains("login required") && !status.said.contains("grantctl login"))
      let show = try await Self.grantctl(rig, "show", "robot")
      #expect(show.status == 0 && show.said.contains("Grant client credentials"), "\(show.said)")
      let doctor = try await Self.grantctl(rig, "doctor", "demo")
      #expect(doctor.said.contains("is issued without a login"), "\(doctor.said)")
    }
  }

  @Test("whose client the provider refuses is misconfigured, with a hint, until the correction")
  func invalidClient() async throws {
    let wish = Self.clientCredentials { $0.accessTTL = 300 }
    try await Rig.with(wish, sections: { _ in Self.robot }) { rig in
      rig.demo.register(DemoServer.Client(id: "demo", secret: "another"))
      try await eventually("it is refused or was quicker") {
        (try? await rig.call("account.refresh", ["account": "robot"])) == nil
      }
      let error = try await rig.failure("token.get", ["account": "robot"])
      #expect(error.reason == .providerMisconfigured && error.oauth?.error == "invalid_client", "\(error)")
      #expect(error.hint?.contains("[provider.demo]") == true && error.hint?.contains("grantctl reload") == true)
      #expect(!error.message.contains(Self.secret))
      #expect(try await rig.account("robot").state == .actionRequired)
      let status = try await Self.grantctl(rig, "status")
      #expect(status.said.contains("robot action required"), "\(status.said)")
      #expect(status.said.contains("Correct [provider.demo]"), "\(status.said)")
      rig.demo.register(wish.client)
      try await rig.call("broker.reload")
      try await eventually("its token works") { try await rig.answer().status == 200 }
      #expect(try await rig.account("robot").state == .ok)
    }
  }

  @Test("cannot be signed in to, imported to or logged out")
  func refusals() async throws {
    try await Rig.with(Self.clientCredentials(), sections: { _ in Self.robot }) { rig in
      for (method, params) in [
        ("login.start", ["provider": "demo", "account": "robot"]), ("account.logout", ["account": "robot"]),
        ("account.import", ["provider": "demo", "account": "robot", "refresh_token": "rt"]),
      ] as [(String, JSON)] {
        let error = try await rig.failure(method, params)
        #expect(error.code == RPCError.invalidParams("").code, "\(method): \(error)")
        #expect(error.hint?.contains("[account.robot]") == true, "\(method): \(error)")
      }
      let (status, said) = try await Self.grantctl(rig, "login", "demo", "robot")
      #expect(status != 0 && said.contains("declared in the configuration"), "\(said)")
      try await eventually("its token works") { try await rig.answer().status == 200 }
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("does not replace a user's account, and reports it")
  func shadowed() async throws {
    let wish = Wish { $0.client = .init(id: "demo", secret: Self.secret) }
    try await Rig.with(wish) { rig in
      try await rig.login("robot", as: "alice")
      let before = try await rig.token("robot")
      try rig.configure(Self.robot)
      try await rig.call("broker.reload")
      #expect(try await rig.token("robot") == before)
      #expect(try await rig.account("robot").grant == "authorization_code")
      #expect(await eventually { rig.log.contains("[account.robot] is not in force") })
    }
  }
}
