import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Zephr, row by row, at the socket: sign-in", .atMost)
struct ZephrTests {
  @Test("start(provider), success, session life: a session credential with its cookie, verified by the profile")
  func login() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.profileSetsCookie = true }
      let login = try await rig.begin("news", "alice", ["idp": "apple"])
      let start = try #require(rig.requests(.zephrStart).last)
      #expect(start.method == "GET" && start.path == "/blaize/oauth/apple")
      #expect(start.parameters == ["client_type": "ios"])
      // The redirect is what is opened, and is not followed by the broker.
      #expect(login.url.hasPrefix("\(rig.demo.issuer)/zephr-idp?idp=apple"))
      #expect(rig.count(.zephrPage) == 0)
      try await rig.hand(try await rig.signIn(login))
      let account = try #require(try await rig.outcome(of: login).account)
      #expect(account.identity?.email == "alice@demo.example" && account.identity?.name?.isEmpty == false)
      let token = try await rig.call("token.get", ["account": "alice"])
      let session = try #require(token["session_id"]?.string)
      #expect(token["kind"] == "session" && token["access_token"] == nil)
      #expect(token["cookie"]?.string == "blaize_session=\(session)")
      let end = try await rig.account().expires_at ?? 0
      #expect(abs(Double(end) - Date().timeIntervalSince1970 - 86_400) < 60)
      let cookies = try #require(rig.requests(.zephrProfile).last?.headers["cookie"])
      #expect(cookies.contains("blaize_session=\(session)") && cookies.contains("blaize_tracking="))
      #expect(!rig.log.contains(session))
    }
  }

  @Test("start(provider): the identity provider is the login's, else the default; no other is asked")
  func identityProviders() async throws {
    try await Rig.withZephr("identity_providers = [\"google\", \"apple\"]") { rig in
      let error = try await rig.failure("login.start", ["provider": "news"])
      #expect(error.code == invalidParams && error.message.contains("google, apple"))
      #expect(try await rig.failure("login.start", ["provider": "news", "idp": "facebook"]).code == invalidParams)
      #expect(try await rig.failure("login.start", ["provider": "news", "idp": "../profile"]).code == invalidParams)
      #expect(rig.count(.zephrStart) == 0)
      _ = try await rig.begin("news", "alice", ["idp": "apple"])
    }
  }

  @Test("start(provider): 200 or no Location is a failure, and so is every other answer; each ends")
  func notStarted() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.startStatus = 200 }
      #expect(try await rig.failure("login.start", ["provider": "news"]).reason == .providerMisconfigured)
      rig.demo.changeSettings {
        $0.zephr.startStatus = 302
        $0.zephr.startHasLocation = false
      }
      #expect(try await rig.failure("login.start", ["provider": "news"]).reason == .providerMisconfigured)
      #expect(
        try await rig.failure("login.start", ["provider": "news", "idp": "nobody"]).reason == .providerMisconfigured)
      for (status, reason) in [
        (403, ErrorReason.loginDenied), (429, .temporarilyUnavailable), (500, .temporarilyUnavailable),
      ] {
        try rig.demo.fault(.status, at: .zephrStart, times: 1) { $0.status = status }
        #expect(try await rig.failure("login.start", ["provider": "news"]).reason == reason, "\(status)")
      }
      try rig.demo.fault(.dropBeforeCommit, at: .zephrStart, times: 1)
      #expect(try await rig.failure("login.start", ["provider": "news"]).reason == .temporarilyUnavailable)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("the paths' prefix, and the cookie's name, are settings; without a cookie of the start nothing is missing")
  func prefix() async throws {
    let lines = "default_identity_provider = \"google\"\npath_prefix = \"/zephr\""
    try await Rig.withZephr(lines) { rig in
      rig.demo.changeSettings {
        $0.zephr.prefix = "/zephr"
        $0.zephr.startSetsCookie = false
      }
      try await rig.enter("news")
      #expect(rig.requests(.zephrProfile).last?.path == "/zephr/profile")
    }
  }

  @Test("failure: the login has failed, with the server's message")
  func failure() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.message = "Not you, <b>sorry</b>." }
      let login = try await rig.begin("news")
      let address = try await rig.signIn(login, as: "deny")
      let error = try await rig.failure("login.handle_callback", ["url": .string(address)])
      #expect(error.reason == .loginDenied)
      #expect(error.message.contains("Not you, <b>sorry</b>."))
      #expect(error.oauth?.error_description == "Not you, <b>sorry</b>.")
      #expect(try await rig.failure("login.wait", ["login_id": .string(login.id)]).reason == .loginDenied)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("any other status: an invalid callback, and the login waits")
  func unknownStatus() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.outcome = .other }
      let login = try await rig.begin("news")
      let address = try await rig.signIn(login)
      let error = try await rig.failure("login.handle_callback", ["url": .string(address)])
      #expect(error.reason == .invalidCallback)
      #expect(error.message.contains("unknown auth response status “pending_review”"))
      for forged in ["", "?status=", "?status=success", "?status=partial", "?status=success&session_id=a;b"] {
        let error = try await rig.failure("login.handle_callback", ["url": .string("zephr-demo://auth\(forged)")])
        #expect(error.reason == .invalidCallback, "\(forged)")
      }
      #expect(try await rig.hand("zephr-demo://auth?status=success&session_id=s&state=x")["handled"] == false)
      #expect(try await rig.wait(login, 0)["state"] == "pending")
      #expect(rig.count(.zephrProfile) == 0)
    }
  }

  @Test("CSRF: one pending login, and a session that the profile does not know is refused; the right one still works")
  func forgery() async throws {
    try await Rig.withZephr { rig in
      let login = try await rig.begin("news")
      let second = try await rig.failure("login.start", ["provider": "news", "account": "bob"])
      #expect(second.reason == .loginInProgress && second.detail == login.id)
      let address = try await rig.signIn(login)
      let forged = "zephr-demo://auth?action=login&status=success&session_id=\(UUID().uuidString)"
      let error = try await rig.failure("login.handle_callback", ["url": .string(forged)])
      #expect(error.reason == .invalidCallback)
      // An outage of the profile does not end it either.
      try rig.demo.fault(.status, at: .zephrProfile, times: 1) { $0.status = 503 }
      let outage = try await rig.failure("login.handle_callback", ["url": .string(address)])
      #expect(outage.reason == .temporarilyUnavailable)
      #expect(try await rig.wait(login, 0)["state"] == "pending")
      try await rig.restart()
      try await rig.hand(address)
      #expect(try await rig.wait(login)["state"] == "completed")
      #expect(try await rig.hand(address)["handled"] == true)
    }
  }

  @Test("CSRF: with a nonce in the redirect's path each login has its own URL, even at the broker's endpoint")
  func nonce() async throws {
    let lines = """
      default_identity_provider = "google"
      redirect_parameter = "redirect_uri"
      nonce_in_redirect = true
      """
    try await Rig.withZephr(lines, redirect: "http://127.0.0.1/news") { rig in
      rig.demo.changeSettings {
        $0.zephr.redirect = "http://127.0.0.1:"
        $0.zephr.redirectParameter = "redirect_uri"
      }
      let first = try await rig.begin("news", "alice")
      let second = try await rig.begin("news", "bob")
      #expect(first.redirectURI != second.redirectURI && first.redirectURI.contains("/news/"))
      #expect(rig.requests(.zephrStart).last?.parameters["redirect_uri"] == second.redirectURI)
      let address = try await rig.signIn(first, as: "alice")
      #expect(address.hasPrefix(first.redirectURI))
      let other = try await rig.signIn(second, as: "bob")
      // Another nonce names no login.
      let query = address.dropFirst(first.redirectURI.count)
      let forged = first.redirectURI.dropLast(3) + "xyz" + query
      #expect(try await rig.hand(String(forged))["handled"] == false)
      #expect(try await Browser.open(String(forged)).status == 400)
      #expect(try await Browser.open(other).status == 200)
      #expect(try await rig.outcome(of: second).account?.identity?.email == "bob@demo.example")
      #expect(try await rig.wait(first, 0)["state"] == "pending")
      #expect(try await Browser.open(address).status == 200)
      #expect(try await rig.outcome(of: first).account?.identity?.email == "alice@demo.example")
    }
  }
}
