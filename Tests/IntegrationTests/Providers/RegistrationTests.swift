import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("A provider from its issuer only")
struct RegistrationTests {
  private static func register(_ rig: Rig, _ name: String? = "mine", _ more: [(String, JSON)] = []) async throws -> JSON
  {
    try await rig.call("provider.register", params(rig, name, more))
  }

  private static func params(_ rig: Rig, _ name: String?, _ more: [(String, JSON)] = []) -> JSON {
    var members: [(String, JSON)] = [("issuer", .string(rig.demo.issuer))] + more
    if let name { members.append(("provider", .string(name))) }
    return .object(members.map { JSON.Member(name: $0.0, value: $0.1) })
  }

  @Test(
    "an issuer URL makes a provider that logs in, gives tokens, refreshes and survives a restart; it can be ended again"
  )
  func wholeLife() async throws {
    try await Rig.with { rig in
      let made = try await Self.register(rig, nil)
      let name = try #require(made["provider"]?.string)
      #expect(name == "127.0.0.1")
      let client = try #require(made["client_id"]?.string)
      #expect(client.hasPrefix("client-"))
      #expect(made["issuer"]?.string == rig.demo.issuer)
      #expect(made["warnings"]?.array == [])
      try await rig.login("alice", at: name)
      let first = try await rig.token()
      #expect(first.provider == name)
      #expect(try await works(first.access_token, at: rig.demo))
      #expect(rig.demo.stats().grants.map(\.clientID) == [client])

      try await rig.restart()
      _ = try await rig.call("token.report_rejected", ["account": "alice", "generation": .integer(first.generation)])
      #expect(try await rig.token().generation > first.generation)
      try await rig.login("bob", at: name)
      #expect(rig.demo.stats().count(.registration) == 1)

      let refused = try await rig.failure("provider.unregister", ["provider": .string(name)])
      #expect(refused.message.contains("has accounts: alice, bob"))
      for account in ["alice", "bob"] { _ = try await rig.logout(account) }
      let steps = try await rig.call("provider.unregister", ["provider": .string(name)])["steps"]?.array ?? []
      #expect(steps.map { $0["step"]?.string } == ["delete_registration", "forget"])
      #expect(steps.map { $0["result"]?.string } == ["done", "done"])
      #expect(rig.demo.stats().count(.registrationDeleted) == 1)
      for isRestarted in [false, true] {
        if isRestarted { try await rig.restart() }
        let error = try await rig.failure("login.start", ["provider": .string(name), "account": "alice"])
        #expect(error.reason == .unknownProvider)
      }
    }
  }

  struct Refusal: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var reason: ErrorReason
    var oauth: String?
    var prepare: @Sendable (DemoServer) throws -> Void

    init(
      _ description: String, _ reason: ErrorReason, oauth: String? = nil,
      _ prepare: @escaping @Sendable (DemoServer) throws -> Void
    ) {
      testDescription = description
      self.reason = reason
      self.oauth = oauth
      self.prepare = prepare
    }

    static let all = [
      Refusal("invalid_client_metadata", .registrationRejected, oauth: "invalid_client_metadata") {
        try $0.fault(.oauthError, at: .register) { $0.error = "invalid_client_metadata" }
      },
      Refusal("invalid_redirect_uri", .registrationRejected, oauth: "invalid_redirect_uri") {
        try $0.fault(.oauthError, at: .register) { $0.error = "invalid_redirect_uri" }
      },
      Refusal("no initial access token", .registrationRejected) {
        $0.changeSettings { $0.registration.token = "initial-token-1" }
      },
      Refusal("an empty 400", .registrationRejected) { try $0.fault(.empty400, at: .register) },
      Refusal("403", .registrationRejected) { try $0.fault(.status, at: .register) { $0.status = 403 } },
      Refusal("an error at 200", .registrationRejected, oauth: "invalid_client_metadata") {
        try $0.fault(.error200, at: .register) { $0.error = "invalid_client_metadata" }
      },
      Refusal("a client without an id", .registrationRejected) {
        $0.changeSettings { $0.registration.extra = ["client_id": .null] }
      },
      Refusal("a method that was not asked for", .registrationRejected) {
        $0.changeSettings { $0.registration.extra = ["token_endpoint_auth_method": "private_key_jwt"] }
      },
      Refusal("503", .temporarilyUnavailable) { try $0.fault(.status, at: .register) },
      Refusal("a web page", .temporarilyUnavailable) { try $0.fault(.html200, at: .register) },
      Refusal("no answer", .temporarilyUnavailable) { try $0.fault(.dropBeforeCommit, at: .register) },
      Refusal("no registration endpoint", .unsupportedByProvider) {
        $0.changeSettings { $0.discoveryExtra = ["registration_endpoint": .null] }
      },
      Refusal("another issuer's metadata", .providerMisconfigured) { try $0.fault(.wrongIssuer, at: .discovery) },
    ]
  }

  @Test("a failed registration leaves nothing behind, and repeats the issuer's message", arguments: Refusal.all)
  func refused(_ refusal: Refusal) async throws {
    try await Rig.with { rig in
      try refusal.prepare(rig.demo)
      let error = try await rig.failure("provider.register", Self.params(rig, "mine"))
      #expect(error.reason == refusal.reason, "\(error)")
      #expect(error.oauth?.error == refusal.oauth)
      #expect(error.hint?.isEmpty == false)
      let names = try await rig.call("provider.list")["providers"]?.array?.compactMap { $0["provider"]?.string }
      #expect(names == ["demo"])
    }
  }

  @Test("what is wrong with the request is said before anything is sent")
  func misused() async throws {
    try await Rig.with { rig async throws in
      let wrong: [JSON] = [
        ["issuer": "http://idp.example", "provider": "mine"], ["issuer": "idp", "provider": "mine"],
        Self.params(rig, "demo"), Self.params(rig, "bad name"), Self.params(rig, "mine", [("redirect_uri", "here")]),
      ]
      for params in wrong {
        #expect(try await rig.failure("provider.register", params).code == RPCError.invalidParams("").code)
      }
      #expect(rig.demo.stats().count(.registration) == 0)
      #expect(try await rig.failure("provider.unregister", ["provider": "demo"]).reason == .unsupportedByProvider)
      #expect(try await rig.failure("provider.unregister", ["provider": "mine"]).reason == .unknownProvider)
    }
  }

  @Test("an initial access token opens a closed registration; 200 is as good as 201")
  func initialToken() async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings {
        $0.registration.token = "initial-token-1"
        $0.registration.status = 200
      }
      let wrong = try await rig.failure(
        "provider.register", Self.params(rig, "mine", [("initial_access_token", "initial-token-2")]))
      #expect(wrong.reason == .registrationRejected)
      _ = try await Self.register(rig, "mine", [("initial_access_token", "initial-token-1")])
      try await rig.login("alice", at: "mine")
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test(
    "a server that takes only clients with a secret gives one, which is used as it says",
    arguments: ["client_secret_basic", "client_secret_post"])
  func secret(method: String) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings {
        $0.discoveryExtra = ["token_endpoint_auth_methods_supported": [.string(method)]]
      }
      _ = try await Self.register(rig)
      try await rig.login("alice", at: "mine")
      try await rig.restart()
      _ = try await rig.call("token.report_rejected", ["account": "alice", "generation": 1])
      let request = try #require(rig.demo.requests.last { $0.place == .tokenRefresh })
      #expect((request.headers["authorization"]?.hasPrefix("Basic ") == true) == (method == "client_secret_basic"))
      #expect((request.parameters["client_secret"] != nil) == (method == "client_secret_post"))
      #expect(try await rig.token().generation == 2)
    }
  }

  @Test("the configured provider of the same name takes precedence; the registered one returns after its removal")
  func configurationWins() async throws {
    try await Rig.with { rig in
      let client = try await Self.register(rig)["client_id"]?.string
      func configured() async throws -> String? {
        try await rig.call("provider.get", ["provider": "mine"])["provider"]?["client_id"]?.string
      }
      #expect(try await configured() == client)
      try rig.configure(rig.section("mine"))
      try await rig.call("broker.reload")
      #expect(try await configured() == "demo")
      try await rig.restart()
      #expect(try await configured() == "demo")
      try rig.configure()
      try await rig.call("broker.reload")
      #expect(try await configured() == client)
      try await rig.login("alice", at: "mine")
      #expect(rig.demo.stats().grants.last?.clientID == client)
    }
  }

  @Test("a client that the server knows only after some seconds is waited for: the same login completes then")
  func lateClient() async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.registration.delay = .seconds(6) }
      _ = try await Self.register(rig)
      let login = try await rig.startLogin("alice", at: "mine")
      #expect(try await Browser.open(login.url).location == nil)
      let callback = try await eventually("the server knows the client") { try? await rig.callback(of: login) }
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
    }
  }

  @Test("an unusable management URL: unregister removes the provider here regardless of the issuer's answer")
  func unmanaged() async throws {
    try await Rig.with { rig in
      for fault in [DemoServer.Fault.Kind.status, .dropBeforeCommit, nil] {
        rig.demo.reset()
        if fault == nil {
          rig.demo.changeSettings {
            $0.registration.extra = ["registration_access_token": .null, "registration_client_uri": .null]
          }
        }
        let made = try await Self.register(rig)
        #expect(made["warnings"]?.array?.isEmpty == (fault != nil))
        if let fault { try rig.demo.fault(fault, at: .register) }
        let steps = try await rig.call("provider.unregister", ["provider": "mine"])["steps"]?.array ?? []
        #expect(steps.map { $0["result"]?.string } == [fault == nil ? "unsupported" : "refused", "done"])
        #expect(try await rig.failure("provider.get", ["provider": "mine"]).reason == .unknownProvider)
      }
    }
  }
}
