import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// Rows of the systems' tables that the other suites touch on the way, each by itself.
@Suite("Rows of the five systems, at the socket", .atMost)
struct SystemRowTests {
  @Test("VMS, neither key nor code: refused, and nothing is sent")
  func neitherKeyNorCode() async throws {
    try await Rig.withVMS { rig in
      rig.demo.changeSettings { $0.vms.sessionLimit = 1 }
      _ = try rig.demo.addVMSSession()
      let login = try await rig.begin("cameras")
      #expect(
        try await rig.failure("login.handle_callback", ["url": .string(login.redirectURI)]).reason == .invalidCallback)
      #expect(rig.count(.vmsLogin) == 0)
      try await rig.hand(try await rig.signIn(login))
      #expect(try await rig.wait(login)["state"] == "action_required")
      let error = try await rig.failure("login.continue", ["login_id": .string(login.id)])
      #expect(error.code == invalidParams)
      #expect(rig.count(.vmsLogin) == 1)
    }
  }

  @Test("VMS, replace: killed while the answer is under way, the login asks again after the restart")
  func killedWithin() async throws {
    try await Rig.withVMS { rig in
      rig.demo.changeSettings { $0.vms.sessionLimit = 1 }
      let added = try rig.demo.addVMSSession()
      let login = try await rig.begin("cameras")
      try await rig.hand(try await rig.signIn(login))
      #expect(try await rig.wait(login)["state"] == "action_required")
      try rig.demo.fault(.delay, at: .vmsLogin, times: 1) { $0.seconds = 20 }
      let asked = rig.count(.vmsLogin)
      let cut = Task { _ = try? await rig.resume(login, "session_id", .string(added)) }
      try await eventually("the request has arrived") { rig.count(.vmsLogin) > asked }
      try await rig.restart()
      await cut.value
      #expect(try await rig.wait(login, 0)["state"] == "action_required")
      #expect(try await rig.resume(login, "session_id", .string(added))["state"] == "completed")
    }
  }

  @Test("7Pass, discovery: the recorded metadata do, with hybrids, two methods and no revocation endpoint")
  func discovery() async throws {
    try await Rig.withSevenPass("trusted_audiences = [\"7pass-service\"]") { rig in
      _ = try await rig.enterByBrowser("7pass")
      #expect(rig.count(.discovery) > 0)
      #expect(try await rig.token().access_token.isEmpty == false)
    }
  }

  @Test("7Pass, exchange: an older server takes JSON and the client's secret in the header")
  func jsonExchange() async throws {
    let secret = "seven-pass-secret"
    let wish = Wish {
      $0.client = DemoServer.Client(id: "demo", secret: secret, redirectURIs: [Rig.sevenPassRedirect])
    }
    try await Rig.with(
      wish,
      sections: { rig in
        rig.demo.changeSettings {
          $0.use(.sevenPass)
          $0.token.jsonBodies = true
        }
        return """
          [provider.7pass]
          profile = "7pass"
          issuer = "\(rig.demo.issuer)"
          client_id = "demo"
          redirect_uri = "\(Rig.sevenPassRedirect)"
          trusted_audiences = ["7pass-service"]
          body_format = "json"
          client_secret_file = "\(try rig.folder.write(secret, to: "7pass.secret"))"

          """
      }
    ) { rig in
      _ = try await rig.enterByBrowser("7pass")
      let exchange = try #require(rig.requests(.tokenCode).last)
      #expect(exchange.headers["content-type"]?.hasPrefix("application/json") == true)
      #expect(exchange.headers["authorization"]?.hasPrefix("Basic ") == true)
      #expect(exchange.body.hasPrefix("{") && exchange.body.contains("\"code_verifier\""))
      #expect(!exchange.body.contains(secret))
    }
  }

  @Test("7Pass, state kept: an OAuth error ends it until a new login, and a failed connection does not")
  func stateKept() async throws {
    try await Rig.withSevenPass("trusted_audiences = [\"7pass-service\"]") { rig in
      _ = try await rig.enterByBrowser("7pass")
      func report() async throws -> ErrorReason? {
        let generation = try await rig.account().generation
        return try? await rig.failure(
          "token.report_rejected", ["account": "alice", "generation": .integer(Int(generation))]
        ).reason
      }
      try rig.demo.fault(.dropBeforeCommit, at: .tokenRefresh, times: 1)
      #expect(try await report() == .temporarilyUnavailable)
      #expect(try await rig.account().state != .loginRequired)
      try await eventually("a token") { (try? await rig.token().access_token.isEmpty) == false }
      try rig.demo.fault(.oauthError, at: .tokenRefresh, times: 2) { $0.error = "invalid_grant" }
      #expect(try await report() == .loginRequired)
      #expect(try await rig.failure("account.refresh", ["account": "alice", "now": true]).reason == .loginRequired)
      try await rig.restart()
      #expect(try await rig.account().state == .loginRequired)
      _ = try await rig.enterByBrowser("7pass")
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("Dropbox, app URL: the code form, with the challenge in the state and separately, under both schemes")
  func appURL() async throws {
    try await Rig.withDropbox { rig in
      let login = try await rig.start("dropbox")
      let challenge = try #require(Callback(url: try login.url("browser")).value("code_challenge"))
      for (app, place) in [("dropbox", "dbapi-2://1/connect?"), ("dropbox-emm", "dbapi-8-emm://1/connect?")] {
        let url = try login.url("native", app: app)
        let asked = Callback(url: url)
        #expect(url.hasPrefix(place) && asked.value("k") == "demo" && asked.value("s") == "")
        #expect(asked.value("state") == "oauth2code:\(challenge):S256:offline")
        let more = Callback(url: "x:?\(asked.value("extra_query_params") ?? "")")
        #expect(more.value("code_challenge") == challenge && more.value("code_challenge_method") == "S256")
        #expect(more.value("response_type") == "code" && more.value("token_access_type") == "offline")
      }
    }
    try await Rig.withDropbox(DropboxTests.implicit) { rig in
      let asked = Callback(url: try (try await rig.start("dropbox")).url("native", app: "dropbox"))
      #expect(asked.value("state")?.hasPrefix("oauth2:") == true && asked.value("extra_query_params") == nil)
    }
  }

  @Test("Dropbox, web URL: client, redirect, disable_signup, challenge and always a state")
  func webURL() async throws {
    try await Rig.withDropbox { rig in
      let asked = Callback(url: try (try await rig.start("dropbox")).url("browser"))
      #expect(asked.value("client_id") == "demo" && asked.value("redirect_uri") == Rig.dropboxRedirect)
      #expect(asked.value("response_type") == "code" && asked.value("disable_signup") == "true")
      #expect(asked.value("code_challenge_method") == "S256" && asked.value("token_access_type") == "offline")
      #expect((asked.value("state") ?? "").utf8.count >= 22)
    }
  }

  @Test("Dropbox, app token callback: one without an identity does not replace an account with one")
  func nobody() async throws {
    try await Rig.withDropbox(DropboxTests.implicit) { rig in
      let known = try await rig.start("dropbox")
      try await rig.hand(try await rig.address(try known.url("browser"), as: "alice"))
      #expect(try await rig.ended(known.login_id).account?.identity?.subject == "dbid:AAH-alice")
      let token = try await rig.token().access_token
      let other = try await rig.start("dropbox")
      let address = try rig.demo.openDropboxApp(try other.url("native", app: "dropbox"), user: "bob")
      #expect(try await rig.refusedCallback(address).reason == .loginDenied)
      #expect(try await rig.token().access_token == token)
    }
  }

  @Test("Uber, authorize: the path of each destination, the standard scope, a challenge and a state")
  func authorize() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      let urls = try ["rides", "eats", "driver"].map { try login.url("native", app: $0) } + [try login.url("browser")]
      for (url, name) in zip(urls, ["riders", "eats", "drivers", "universal"]) {
        #expect(url.hasPrefix("\(rig.demo.issuer)/oauth/v2/\(name)/authorize?"))
        let asked = Callback(url: url)
        #expect(asked.value("response_type") == "code" && asked.value("client_id") == "demo")
        #expect(asked.value("redirect_uri") == Rig.uberRedirect && asked.value("scope") == "profile")
        #expect(asked.value("code_challenge_method") == "S256" && (asked.value("state") ?? "").utf8.count >= 22)
        #expect(asked.value("prompt") == nil && asked.value("request_uri") == nil)
      }
    }
  }

  @Test("Uber, token: a form without a secret")
  func token() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      try await rig.hand(try await rig.address(try login.url("browser"), as: "alice"))
      #expect(try await rig.ended(login.login_id).state == .completed)
      let exchange = try #require(rig.requests(.tokenCode).last)
      #expect(exchange.method == "POST" && exchange.path == "/oauth/v2/token")
      #expect(exchange.headers["content-type"]?.hasPrefix("application/x-www-form-urlencoded") == true)
      #expect(exchange.headers["authorization"] == nil && exchange.parameters["client_secret"] == nil)
      #expect(exchange.parameters["grant_type"] == "authorization_code" && exchange.parameters["code_verifier"] != nil)
    }
  }

  @Test("Uber, UberAuthError.invalidRequest: a bad base or redirect URI is an error of the configuration")
  func invalidRequest() async throws {
    for line in ["redirect_uri = \"no uri\"", "authorization_endpoint = \"oauth/v2\""] {
      try await Rig.withUber { rig in
        let name = String(line.prefix { $0 != " " })
        let text = try String(contentsOfFile: rig.configurationFile, encoding: .utf8)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map {
          $0.hasPrefix(name) ? line : String($0)
        }
        try lines.joined(separator: "\n").write(toFile: rig.configurationFile, atomically: true, encoding: .utf8)
        let error = try await rig.failure("broker.reload")
        #expect(error.reason == .invalidConfiguration && error.message.contains(name))
        // The old one stays active.
        #expect(try await rig.start("uber").kinds.contains("browser"))
      }
    }
  }
}
