import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// The daemon logs at debug level; its secrets must appear only in the answers that release them.
@Suite("Secrets occur only in the answers that return them")
struct SecretLeakTests {
  private static let clientSecret = "client-secret-4f1b7c0a9d"

  /// Requests that return all data of an account, a login and a provider, and requests that fail.
  private static func look(_ rig: Rig, _ leaks: Leaks, accounts: [String]) async throws {
    let client = try RawClient(rig.socket)
    for method in ["account.list", "login.list", "provider.list", "broker.status", "broker.metrics", "rpc.discover"] {
      try await leaks.ask(client, method)
    }
    for provider in ["demo", "nobody"] { try await leaks.ask(client, "provider.get", ["provider": .string(provider)]) }
    for account in accounts + ["nobody"] {
      for method in ["account.get", "account.userinfo", "token.introspect"] {
        try await leaks.ask(client, method, ["account": .string(account)])
      }
    }
    try await leaks.ask(client, "token.get", ["account": "nobody"])
    try await leaks.ask(client, "provider.check", ["provider": "demo"])
  }

  private static func check(_ rig: Rig, _ leaks: Leaks, atLeast count: Int) async throws {
    leaks.learn(from: rig.demo.requests)
    if let relay = rig.relay { leaks.learn(from: relay.record) }
    #expect(try leaks.foundInFiles(of: rig).isEmpty)
    _ = try await rig.terminate()
    #expect(leaks.count >= count, "\(leaks.count) secrets")
    #expect(leaks.found().isEmpty, "\(leaks.found().prefix(5))")
    let found = try leaks.foundInFiles(of: rig)
    #expect(found.isEmpty, "\(found.prefix(5))")
    // The search finds a present secret.
    leaks.know(rig.demo.issuer)
    #expect(leaks.found().isEmpty == false)
  }

  @Test(
    "logins in the browser: pushed, signed and plain ones, forged callbacks, refreshes that fail, the end of it all")
  func browser() async throws {
    let leaks = Leaks()
    let wish = Wish {
      $0.client = .init(id: "demo", secret: Self.clientSecret)
      $0.isRelayed = true
      $0.provider = "par = \"always\"\nresponse_mode = \"jwt\"\nbackchannel_logout = true"
    }
    try await Rig.with(wish) { rig in
      leaks.know(Self.clientSecret)
      let events = try RawClient(rig.socket)
      _ = try await leaks.ask(events, "events.subscribe")
      for account in ["alice", "bob"] {
        let login = try await rig.startLogin(account)
        let callback = try await rig.callback(of: login)
        leaks.know(callback.value("response"))
        for url in [callback.adding("state", "forged").url, callback.url, callback.url] {
          leaks.record(try await Browser.open(url).body, at: "the callback's page")
        }
        leaks.know(try await rig.token(account).access_token)
      }
      let pending = try await rig.callback(of: try await rig.startLogin("user-1"))
      leaks.know(pending.value("response"))
      let client = try RawClient(rig.socket)
      try await leaks.ask(
        client, "login.handle_callback", ["url": .string("http://127.0.0.1:1/callback?code=code-by-hand-1&state=x")])
      leaks.know("code-by-hand-1")
      for kind in [DemoServer.Fault.Kind.status, .oauthError, .html200, .truncated, .badSignature] {
        let before = rig.demo.stats().requests["token.refresh", default: 0]
        try rig.demo.fault(kind, at: .tokenRefresh, times: 1) { $0.error = "temporarily_unavailable" }
        // The next attempt waits for its time.
        try await eventually("a refresh met \(kind)", every: .milliseconds(200)) {
          try await leaks.ask(client, "token.report_rejected", ["account": "alice", "generation": 1])
          return rig.demo.stats().requests["token.refresh", default: 0] > before
        }
        try await leaks.ask(client, "account.get", ["account": "alice"])
      }
      try await Self.look(rig, leaks, accounts: ["alice", "bob"])
      for arguments in [
        ["list"], ["show", "alice"], ["status"], ["provider", "show", "demo"], ["doctor"], ["refresh", "bob"],
      ] {
        try await leaks.run(rig, arguments)
      }
      let port = try #require(URLComponents(string: pending.url)?.port)
      let answer = try await rig.demo.sendLogout(.init(to: "http://127.0.0.1:\(port)/backchannel-logout/demo"))
      leaks.know(answer.token)
      leaks.record(answer.body, at: "the answer to a logout token")
      try await leaks.ask(client, "account.logout", ["account": "bob"])
      while let line = try? await events.line(within: .milliseconds(100)) { leaks.record(line, at: "an event") }
      try await Self.check(rig, leaks, atLeast: 25)
    }
  }

  @Test("accounts without a browser: devices, clients, service accounts, exchanges, imports, bound tokens")
  func others() async throws {
    let leaks = Leaks()
    let key = try ClientKeyPair()
    leaks.learn(from: key)
    let wish = Wish {
      $0.client = .init(id: "demo", keys: [key.publicJWK], authenticationMethod: "private_key_jwt")
      $0.isRelayed = true
      $0.provider = "client_key_file = \"\(key.path)\"\nclient_assertion_audience = \"issuer\"\ndevice_parameters = {}"
    }
    try await Rig.with(
      wish,
      sections: { rig in
        rig.demo.register(DemoServer.ServiceAccount(issuer: "robot", keys: [key.publicJWK]))
        rig.demo.changeSettings { $0.device.interval = .seconds(1) }
        return rig.section("bound", "dpop = true\nclient_key_file = \"\(key.path)\"") + """
          [account.client]
          provider = "demo"
          grant = "client_credentials"
          scopes = ["email"]
          [account.robot]
          provider = "demo"
          grant = "jwt_bearer"
          key_file = "\(key.path)"
          issuer = "robot"
          audience = "\(rig.demo.issuer)"
          scopes = ["email"]
          """
      }
    ) { rig in
      let client = try RawClient(rig.socket)
      let login = try await rig.call(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      try rig.demo.answerDevice()
      try await rig.login("bound", at: "bound", as: "bob")
      let device = try await leaks.ask(
        client, "login.wait", ["login_id": try #require(login["login_id"]), "timeout": 20])
      #expect(device["result"]?["state"]?.string == "completed")
      for account in ["alice", "client", "robot", "bound"] { leaks.know(try await rig.token(account).access_token) }
      let proof = try await rig.call(
        "dpop.proof", ["account": "bound", "method": "GET", "url": .string(rig.demo.issuer + "/resource")])
      leaks.know(proof["proof"]?.string)
      let exchanged = try await rig.call("token.exchange", ["account": "alice", "audience": ["demo"]])
      leaks.know(exchanged["access_token"]?.string)
      try rig.demo.fault(.oauthError, at: .tokenExchange) { $0.error = "invalid_target" }
      try await leaks.ask(client, "token.exchange", ["account": "alice", "audience": ["demo"]])
      leaks.learn(from: try #require(rig.relay).record)
      let token = try #require(rig.relay?.record.matches(of: /"refresh_token" ?: ?"([^"]+)"/).last?.1)
      try await leaks.ask(
        client, "account.import", ["account": "in", "provider": "demo", "refresh_token": .string(String(token))])
      try await leaks.ask(
        client, "account.import",
        ["account": "out", "provider": "demo", "refresh_token": "refresh-token-of-nobody-1"])
      leaks.know("refresh-token-of-nobody-1")
      try await Self.look(rig, leaks, accounts: ["in", "client", "robot", "bound"])
      for arguments in [["show", "bound"], ["userinfo", "bound"], ["introspect", "in"], ["exchange", "in"]] {
        try await leaks.run(rig, arguments)
      }
      try await Self.check(rig, leaks, atLeast: 25)
    }
  }

  @Test("registered clients: the initial access token, the secret that came, the token that manages it")
  func registered() async throws {
    let leaks = Leaks()
    try await Rig.with { rig in
      let initial = "initial-access-token-1"
      leaks.know(initial, "initial-access-token-2")
      rig.demo.changeSettings {
        $0.registration.token = initial
        $0.discoveryExtra = ["token_endpoint_auth_methods_supported": ["client_secret_post"]]
      }
      let client = try RawClient(rig.socket)
      for token in ["initial-access-token-2", initial] {
        try await leaks.ask(
          client, "provider.register",
          ["issuer": .string(rig.demo.issuer), "provider": "mine", "initial_access_token": .string(token)])
      }
      try await rig.login("alice", at: "mine")
      leaks.know(try await rig.token().access_token)
      try await rig.reject(1)
      let file = try rig.folder.write("initial-access-token-2\n", to: "initial")
      try await leaks.run(
        rig, ["provider", "register", rig.demo.issuer, "--name", "other", "--initial-access-token-file", file])
      try await leaks.run(rig, ["provider", "show", "mine"])
      try await Self.look(rig, leaks, accounts: ["alice"])
      try await leaks.run(rig, ["logout", "alice"])
      try await leaks.run(rig, ["provider", "unregister", "mine"])
      #expect(rig.demo.stats().count(.registrationDeleted) == 1)
      leaks.learn(from: rig.demo.requests)
      #expect(rig.demo.requests.contains { $0.parameters["client_secret"]?.hasPrefix("secret-") == true })
      try await Self.check(rig, leaks, atLeast: 10)
    }
  }

  @Test("a provider whose errors repeat the request")
  func echoes() async throws {
    let leaks = Leaks()
    let wish = Wish {
      $0.client = .init(id: "demo", secret: Self.clientSecret)
      $0.isRelayed = true
    }
    try await Rig.with(wish) { rig in
      leaks.know(Self.clientSecret)
      try await rig.login()
      leaks.learn(from: try #require(rig.relay).record)
      let token = try #require(rig.relay?.record.matches(of: /"refresh_token" ?: ?"([^"]+)"/).last?.1)
      try rig.demo.fault(.oauthError, at: .tokenRefresh) {
        $0.errorDescription = "refresh token \(token) of a client with the secret \(Self.clientSecret) is over"
      }
      let client = try RawClient(rig.socket)
      let answer = try await leaks.ask(client, "token.report_rejected", ["account": "alice", "generation": 1])
      #expect(answer["error"]?["data"]?["oauth"]?["error"]?.string == "invalid_grant")
      try await leaks.ask(client, "account.get", ["account": "alice"])
      for arguments in [["show", "alice"], ["token", "alice"]] { try await leaks.run(rig, arguments) }
      try await Self.check(rig, leaks, atLeast: 5)
    }
  }
}
