import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Uber, by its template")
struct UberTests {
  @Test("native order, prefill: the applications in order, then the browser with the same request_uri and parameters")
  func order() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber") { $0.prefill = ["email": "bob@demo.example", "first_name": "Bob"] }
      #expect(login.kinds == ["native rides", "native eats", "native driver", "browser", "manual"])
      #expect(login.warnings.count == 1 && login.warnings[0].hasPrefix("short_link"))
      #expect(
        rig.demo.stats().prefills == [["email": "bob@demo.example", "first_name": "Bob"]])
      let references = Set(login.destinations.compactMap { Callback(url: $0.url ?? "").value("request_uri") })
      #expect(references.count == 1 && references.first?.isEmpty == false)
      // No application could be opened.
      try await rig.opened(login.login_id, "browser")
      try await rig.hand(try await rig.address(try login.url("browser")))
      let result = try await rig.ended(login.login_id)
      #expect(result.destination_used == .init(kind: "browser") && result.fell_back == true)
      #expect(rig.demo.stats().count(.pushUsed) == 1)
      let some = try await rig.start("uber", "bob") { $0.apps = ["driver", "rides"] }
      #expect(some.kinds.prefix(2) == ["native driver", "native rides"])
    }
  }

  @Test("native order: the first that opens signs in at its own page")
  func native() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      try await rig.opened(login.login_id, "native", app: "rides")
      let address = try await rig.address(try login.url("native", app: "rides"), as: "alice")
      try await rig.hand(address)
      let result = try await rig.ended(login.login_id)
      #expect(result.destination_used == .init(kind: "native", app: "rides") && result.fell_back == false)
      #expect(rig.requests(.authorize).last?.path == "/oauth/v2/riders/authorize")
    }
  }

  @Test("prefill: a push that fails is passed over with a warning, and is an error where the settings say strict")
  func dropped() async throws {
    try await Rig.withUber { rig in
      try rig.demo.fault(.status, at: .par)
      let login = try await rig.start("uber") { $0.prefill = ["email": "bob@demo.example"] }
      #expect(login.warnings.count == 1 && login.warnings[0].hasPrefix("prefill_dropped"))
      try await rig.hand(try await rig.address(try login.url("browser"), as: "alice"))
      #expect(try await rig.ended(login.login_id).state == .completed)
    }
    try await Rig.withUber("prefill = \"strict\"") { rig in
      try rig.demo.fault(.oauthError, at: .par) { $0.error = "invalid_request" }
      let error = try await rig.refusedStart("uber") { $0.prefill = ["email": "bob@demo.example"] }
      #expect(error.oauth?.error == "invalid_request")
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("prompt: both words in the browser, login is not asked of the applications, and another word is refused")
  func prompt() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber") { $0.prompt = "login consent" }
      #expect(Callback(url: try login.url("browser")).value("prompt") == "login consent")
      #expect(Callback(url: try login.url("native", app: "eats")).value("prompt") == "consent")
      #expect(login.warnings.count == 1 && login.warnings[0].hasPrefix("prompt_stripped"))
      try await rig.hand(try await rig.address(try login.url("browser"), as: "alice"))
      #expect(try await rig.ended(login.login_id).state == .completed)
      let plain = try await rig.start("uber") { $0.prompt = "" }
      #expect(Callback(url: try plain.url("browser")).value("prompt") == nil)
      _ = try await rig.call("login.cancel", ["login_id": .string(plain.login_id)])
      #expect(
        try await rig.refusedStart("uber") { $0.prompt = "select_account" }.code == RPCError.invalidParams("").code)
    }
  }

  @Test("exchange or not: the result is the code, nothing is stored, and any holder can exchange it")
  func bareCode() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber") { $0.exchange = false }
      #expect(Callback(url: try login.url("browser")).value("code_challenge") == nil)
      try await rig.hand(try await rig.address(try login.url("browser"), as: "alice"))
      let result = try await rig.ended(login.login_id)
      #expect(result.state == .completed && result.account == nil)
      let code = try #require(result.authorization_code)
      #expect(try await rig.failure("account.get", ["account": "alice"]).reason == .unknownAccount)
      #expect(rig.count(.tokenCode) == 0)
      let form = "grant_type=authorization_code&client_id=demo&code=\(code)&redirect_uri=myapp%3A%2F%2Foauth%2Fconsumer"
      #expect(try await Browser.post("\(rig.demo.issuer)/oauth/v2/token", form).status == 200)
    }
  }

  @Test("exchange or not: each login with an exchange has its own verifier")
  func verifiers() async throws {
    try await Rig.withUber { rig in
      for name in ["alice", "bob"] { try await rig.enterByBrowser("uber", name) }
      let verifiers = rig.requests(.tokenCode).compactMap { $0.parameters["code_verifier"] }
      #expect(verifiers.count == 2 && Set(verifiers).count == 2)
    }
  }

  @Test("handle(url): a URL of another program is not handled, and the path is compared too")
  func handle() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      let address = try await rig.address(try login.url("browser"), as: "alice")
      for foreign in [
        "myapp://oauth/other?code=c&state=s", "other://oauth/consumer?code=c", "https://x.example/?code=c",
      ] {
        #expect(try await rig.hand(foreign)["handled"]?.bool == false)
      }
      let elsewhere = address.replacing("/consumer", with: "/other")
      #expect(try await rig.refusedCallback(elsewhere).reason == .invalidCallback)
      let handled = try await rig.hand(address)
      #expect(handled["handled"]?.bool == true && handled["login_id"]?.string == login.login_id)
    }
  }

  @Test(
    "result: scope as a string or an array, expires_in as a number or a string",
    arguments: [DemoServer.Settings.Token.ScopeShape.string, .array],
    [DemoServer.Settings.Token.NumberShape.number, .string])
  func shapes(
    scope: DemoServer.Settings.Token.ScopeShape, number: DemoServer.Settings.Token.NumberShape
  ) async throws {
    try await Rig.withUber { rig in
      rig.demo.changeSettings {
        $0.token.scopeShape = scope
        $0.token.expiresInShape = number
      }
      try await rig.enterByBrowser("uber")
      let token = try await rig.token()
      #expect(token.scope == ["profile"])
      #expect((token.expires_in ?? 0) > 2_500_000)
    }
  }

  @Test("token errors: code, description and page are read from the body")
  func tokenErrors() async throws {
    try await Rig.withUber { rig in
      try rig.demo.fault(.oauthError, at: .tokenCode, times: 1) {
        $0.error = "invalid_grant"
        $0.errorDescription = "the code is old"
      }
      let login = try await rig.start("uber")
      let error = try await rig.refusedCallback(try await rig.address(try login.url("browser"), as: "alice"))
      #expect(error.oauth?.error == "invalid_grant" && error.oauth?.error_description == "the code is old")
    }
  }

  @Test("cold start: a login that waits survives a restart, with its verifier")
  func coldStart() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      try await rig.restart()
      try await rig.hand(try await rig.address(try login.url("browser"), as: "alice"))
      #expect(try await rig.ended(login.login_id).state == .completed)
    }
  }

  @Test("login button: a token or none, and both results as events and in the account's state")
  func button() async throws {
    try await Rig.withUber { rig in
      let events = try RawClient(rig.socket)
      _ = try await events.ask(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"events.subscribe\",\"params\":{\"events\":[\"login.completed\","
          + "\"login.failed\"]}}")
      #expect(try await rig.failure("account.get", ["account": "alice"]).reason == .unknownAccount)
      try await rig.enterByBrowser("uber")
      #expect(try await rig.account().state == .ok)
      #expect(try await events.json()["params"]?["type"] == "login.completed")
      _ = try await rig.logout()
      #expect(try await rig.failure("account.get", ["account": "alice"]).reason == .unknownAccount)
      let login = try await rig.start("uber")
      _ = try await rig.call("login.cancel", ["login_id": .string(login.login_id)])
      #expect(try await events.json()["params"]?["type"] == "login.failed")
    }
  }

  // MARK: UberAuthError

  @Test("UberAuthError.cancelled: a cancelled login reports it")
  func cancelled() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      _ = try await rig.call("login.cancel", ["login_id": .string(login.login_id)])
      #expect(try await rig.failedLogin(login.login_id).reason == .loginCancelled)
    }
  }

  @Test("UberAuthError.couldNotOpenApp: the first application and the used destination are reported")
  func couldNotOpen() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      try await rig.opened(login.login_id, "native", app: "eats")
      try await rig.hand(try await rig.address(try login.url("native", app: "eats"), as: "alice"))
      let result = try await rig.ended(login.login_id)
      #expect(result.destination_used == .init(kind: "native", app: "eats") && result.fell_back == true)
    }
  }

  @Test("UberAuthError.existingAuthSession: a second login is refused with the id of the first, until that ends")
  func existing() async throws {
    try await Rig.withUber { rig in
      let first = try await rig.start("uber")
      let error = try await rig.refusedStart("uber", "bob")
      #expect(error.reason == .loginInProgress && error.detail == first.login_id)
      _ = try await rig.call("login.cancel", ["login_id": .string(first.login_id)])
      _ = try await rig.start("uber", "bob")
    }
  }

  @Test("UberAuthError.invalidAuthCode, invalidResponse: without a code, or with an unreadable one, the login waits")
  func invalid() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      let address = Callback(url: try await rig.address(try login.url("browser"), as: "alice"))
      for broken in [address.without("code").url, address.url.replacing("code=", with: "code=%")] {
        #expect(try await rig.refusedCallback(broken).reason == .invalidCallback)
      }
      try await rig.hand(address.url)
      #expect(try await rig.ended(login.login_id).state == .completed)
    }
  }

  @Test("UberAuthError.oAuth: an error comes with its code, its description and its page")
  func oauth() async throws {
    try await Rig.withUber { rig in
      let login = try await rig.start("uber")
      let address = Callback(url: try await rig.address(try login.url("browser"), as: "alice")).without("code")
        .adding("error", "server_error").adding("error_description", "why").adding("error_uri", "https://u.example/e")
      let error = try await rig.refusedCallback(address.url)
      #expect(error.reason == .temporarilyUnavailable)
      #expect(
        error.oauth == OAuthDetail(error: "server_error", error_description: "why", error_uri: "https://u.example/e"))
    }
  }

  @Test(
    "UberAuthError.serviceError, other: a success that cannot be read, and the network, are told apart from a refusal",
    arguments: [DemoServer.Fault.Kind.html200, .dropBeforeCommit])
  func service(kind: DemoServer.Fault.Kind) async throws {
    try await Rig.withUber { rig in
      try rig.demo.fault(kind, at: .tokenCode, times: 1)
      let login = try await rig.start("uber")
      let error = try await rig.refusedCallback(try await rig.address(try login.url("browser"), as: "alice"))
      #expect(error.reason == .temporarilyUnavailable && error.oauth == nil)
    }
  }
}
