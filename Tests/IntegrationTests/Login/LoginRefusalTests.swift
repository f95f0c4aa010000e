import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("An invalid callback")
struct LoginRefusalTests {
  struct Forgery: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var status: Int
    var host: String?
    var forge: @Sendable (Callback) -> Callback

    init(
      _ description: String, status: Int = 400, host: String? = nil, _ forge: @escaping @Sendable (Callback) -> Callback
    ) {
      testDescription = description
      self.status = status
      self.host = host
      self.forge = forge
    }

    static let all = [
      Forgery("a forged state") { $0.replacing("state", "forged") },
      Forgery("no state") { $0.without("state") },
      Forgery("an empty state") { $0.replacing("state", "") },
      Forgery("two codes") { $0.adding("code", "code-of-a-stranger") },
      Forgery("two states") { $0.adding("state", "forged") },
      Forgery("a wrong iss") { $0.replacing("iss", "https://evil.example") },
      Forgery("no iss, which the provider promises") { $0.without("iss") },
      Forgery("no code") { $0.without("code") },
      Forgery("a token through the browser") { $0.adding("access_token", "at-of-a-stranger") },
      Forgery("an error with a forged state") {
        $0.without("code").replacing("state", "forged").adding("error", "access_denied")
      },
      Forgery("an error with a wrong iss") {
        $0.without("code").replacing("iss", "https://evil.example").adding("error", "access_denied")
      },
      Forgery("a foreign Host header", status: 421, host: "evil.example") { $0 },
      Forgery("a wrong path", status: 404) { $0.at(path: "/other") },
    ]
  }

  @Test("is refused, nothing is sent to the provider, and the real one still completes", arguments: Forgery.all)
  func refused(_ forgery: Forgery) async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      let page = try await Browser.open(forgery.forge(callback).url, host: forgery.host)
      #expect(page.status == forgery.status)
      #expect(!page.body.contains("Signed in"))
      #expect(!page.body.contains("<script>"))
      #expect(rig.demo.stats().requests["token.code"] == nil)
      #expect(try await rig.call("login.list")["logins"]?.array?.count == 1)
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      #expect(rig.demo.stats().requests["token.code"] == 1)
    }
  }

  @Test("24. a second use says that the login is completed, and exchanges nothing")
  func secondUse() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      // Browsers do open an address twice at once.
      async let one = Browser.open(callback.url)
      async let two = Browser.open(callback.url)
      let pages = try await [one, two]
      #expect(pages.allSatisfy { $0.status == 200 })
      let third = try await Browser.open(callback.url)
      #expect(third.status == 200)
      #expect(third.body.contains("Already completed"))
      #expect(rig.demo.stats().requests["token.code"] == 1)
      #expect(rig.demo.stats().liveGrants == 1)
      try await rig.restart()
      #expect(try await Browser.open(callback.url).status == 400)
      #expect(rig.demo.stats().requests["token.code"] == 1)
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("a login that the user denies ends with login_denied")
  func denied() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin(as: "deny")
      let page = try await Browser.open(try await rig.callback(of: login).url)
      #expect(page.body.contains("declined"))
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect(error.reason == .loginDenied)
      #expect(error.oauth?.error == "access_denied")
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      try await rig.login()
    }
  }

  @Test("a cancelled login ends for its callers and for its callback")
  func cancelled() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      let waiting = Task { try await rig.failure("login.wait", ["login_id": .string(login.id)]) }
      #expect(try await rig.call("login.cancel", ["login_id": .string(login.id)])["cancelled"]?.bool == true)
      #expect(try await waiting.value.reason == .loginCancelled)
      #expect(try await Browser.open(callback.url).status == 400)
      #expect(rig.demo.stats().requests["token.code"] == nil)
      #expect(try await rig.call("login.cancel", ["login_id": .string(login.id)])["cancelled"]?.bool == false)
    }
  }

  @Test("an incomplete login expires in time, also across a restart")
  func expired() async throws {
    try await Rig.with(Wish { $0.provider = "login_timeout = \"20s\"" }) { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id), "timeout": 50])
      #expect(error.reason == .loginExpired)
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(rig.demo.stats().requests["token.code"] == nil)
      try await rig.login()
    }
  }

  @Test("login.handle_callback completes a login by hand, and ignores URLs of other programs")
  func byHand() async throws {
    try await Rig.with { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      #expect(
        try await rig.call("login.handle_callback", ["url": "https://elsewhere.example/?code=1&state=2"])["handled"]?
          .bool
          == false)
      #expect(
        try await rig.failure("login.handle_callback", ["url": .string(callback.replacing("state", "x").url)]).reason
          == .invalidCallback)
      #expect(try await rig.call("login.handle_callback", ["url": .string(callback.url)])["handled"]?.bool == true)
      #expect(try await rig.outcome(of: login).state == .completed)
    }
  }

  @Test(
    "an ID token that cannot be trusted fails the login, and nothing is stored",
    arguments: [
      DemoServer.Fault.Kind.algNone, .wrongNonce, .wrongAudience, .badSignature, .unknownKid, .wrongIssuer,
      .clockOffset,
    ])
  func idToken(fault: DemoServer.Fault.Kind) async throws {
    try await Rig.with { rig in
      try rig.demo.fault(fault, at: .tokenCode, times: 1) {
        if fault == .clockOffset { $0.seconds = -7200 }
      }
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      let page = try await Browser.open(callback.url)
      #expect(page.status == 502)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect(error.reason == .providerError)
      #expect(error.message.contains("ID token"), "\(error.message)")
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      #expect(try await rig.failure("token.get", ["account": "alice"]).reason == .unknownAccount)
      try await rig.login()
    }
  }

  @Test("keys that the provider rotates are fetched again")
  func keyRotation() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.rotateKeys(keepingOld: false)
      try await rig.login("bob")
      #expect(
        try await rig.call("token.report_rejected", ["account": "alice", "generation": 1])["refreshed"]?.bool == true)
    }
  }

  @Test("another user cannot take over an account by signing in to it")
  func anotherPerson() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let login = try await rig.startLogin("alice", as: "bob")
      #expect(try await Browser.open(try await rig.callback(of: login).url).status != 500)
      #expect(try await rig.failure("login.wait", ["login_id": .string(login.id)]).reason == .loginDenied)
      #expect(try await rig.account().identity?.subject == "sub-alice")
      // The other user's tokens are revoked.
      try await eventually("bob's grant is revoked") { rig.demo.stats().liveGrants == 1 }
    }
  }
}
