import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Pushed authorization requests (RFC 9126)")
struct PushedRequestTests {
  private static let always = Wish { $0.provider = "par = \"always\"" }

  /// The parameters of the address that the browser opens.
  private func front(_ login: Rig.Pending) -> [URLQueryItem] { Callback(url: login.url).parameters }

  @Test("the whole request goes by the back channel, and the front channel has client_id and request_uri alone")
  func pushed() async throws {
    try await Rig.with(Self.always) { rig in
      let login = try await rig.startLogin()
      let seen = try #require(rig.requests(.par).first)
      #expect(seen.method == "POST")
      let expected: Set = [
        "client_id", "response_type", "redirect_uri", "scope", "state", "nonce", "code_challenge",
        "code_challenge_method", "login_hint", "prompt",
      ]
      #expect(Set(seen.names) == expected)
      #expect(Set(seen.names).count == seen.names.count)
      #expect(seen.parameters["redirect_uri"] == login.redirectURI)
      #expect(seen.parameters["code_challenge_method"] == "S256")
      #expect(Set(front(login).map(\.name)) == ["client_id", "request_uri"])
      #expect(front(login).first { $0.name == "client_id" }?.value == "demo")
      let page = try await Browser.open(try await rig.callback(of: login).url)
      #expect(page.status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      let stats = rig.demo.stats()
      #expect(stats.count(.push) == 1 && stats.count(.pushUsed) == 1)
      #expect(rig.requests(.authorize).map { Set($0.names) } == [["client_id", "request_uri"]])
    }
  }

  @Test("each login pushes its own request, which the provider takes once")
  func once() async throws {
    try await Rig.with(Self.always) { rig in
      let first = try await rig.startLogin()
      let second = try await rig.startLogin("bob")
      #expect(rig.demo.stats().count(.push) == 2)
      let references = [first, second].map { login in front(login).first { $0.name == "request_uri" }?.value }
      #expect(references[0] != references[1])
      let callback = try await rig.callback(of: first)
      // The browser goes back and opens the address again.
      #expect(try await Browser.open(first.url).status == 400)
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.outcome(of: first).account?.account == "alice")
      #expect(try await Browser.open(try await rig.callback(of: second).url).status == 200)
      #expect(try await rig.outcome(of: second).account?.account == "bob")
      #expect(rig.demo.stats().count(.pushUsed) == 2)
    }
  }

  @Test(
    "without a setting a request is pushed where the metadata demand it, and not elsewhere", arguments: [false, true])
  func whenRequired(isRequired: Bool) async throws {
    try await Rig.with(starting: false) { rig in
      rig.demo.changeSettings { $0.authorization.requirePAR = isRequired }
      try await rig.start()
      try await rig.login()
      #expect(rig.demo.stats().count(.push) == (isRequired ? 1 : 0))
      #expect(rig.requests(.authorize).first?.names.contains("request_uri") == isRequired)
    }
  }

  @Test("if the settings forbid a requirement of the metadata, a login reports it and nothing is sent")
  func forbidden() async throws {
    try await Rig.with(Wish { $0.provider = "par = \"never\"" }, starting: false) { rig in
      rig.demo.changeSettings { $0.authorization.requirePAR = true }
      try await rig.start()
      let error = try await rig.failure("login.start", ["provider": "demo", "account": "alice"])
      #expect(error.reason == .providerMisconfigured)
      #expect(error.message.contains("par = \"never\""), "\(error.message)")
      #expect(rig.count(.par) == 0 && rig.count(.authorize) == 0)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("if the metadata have no endpoint for pushed requests, a login reports it")
  func noEndpoint() async throws {
    try await Rig.with(Self.always, starting: false) { rig in
      rig.demo.changeSettings { $0.discoveryExtra = ["pushed_authorization_request_endpoint": .null] }
      try await rig.start()
      let error = try await rig.failure("login.start", ["provider": "demo", "account": "alice"])
      #expect(error.reason == .providerMisconfigured)
      #expect(error.message.contains("pushed_authorization_request_endpoint"), "\(error.message)")
    }
  }

  @Test("200 is accepted like 201 with a request_uri: some servers return it")
  func ok() async throws {
    try await Rig.with(Self.always) { rig in
      rig.demo.changeSettings { $0.authorization.parStatus = 200 }
      try await rig.login()
      #expect(rig.count(.par) == 1 && rig.demo.stats().count(.pushUsed) == 1)
    }
  }

  struct Answer: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var reason: ErrorReason
    /// The provider's error text, if it has one.
    var code: String?
    var give: @Sendable (DemoServer) throws -> Void

    init(
      _ description: String, _ reason: ErrorReason, code: String? = nil,
      _ give: @escaping @Sendable (DemoServer) throws -> Void
    ) {
      testDescription = description
      self.reason = reason
      self.code = code
      self.give = give
    }

    private static func refusal(_ code: String, _ reason: ErrorReason) -> Answer {
      Answer(code, reason, code: code) { try $0.fault(.oauthError, at: .par) { $0.error = code } }
    }

    private static func odd(_ description: String, _ members: [String: DemoServer.JSON]) -> Answer {
      Answer(description, .temporarilyUnavailable) { demo in
        demo.changeSettings { $0.authorization.parExtra = members }
      }
    }

    static let all = [
      refusal("invalid_request", .providerError), refusal("invalid_client", .providerMisconfigured),
      refusal("unauthorized_client", .providerMisconfigured), refusal("invalid_scope", .providerMisconfigured),
      refusal("invalid_target", .providerMisconfigured), refusal("invalid_grant", .providerError),
      refusal("temporarily_unavailable", .temporarilyUnavailable), refusal("slow_down", .temporarilyUnavailable),
      refusal("some_new_error", .providerError),
      odd("no request_uri", ["request_uri": .null]), odd("an empty request_uri", ["request_uri": ""]),
      odd("a request_uri that is not a text", ["request_uri": 7]), odd("no expires_in", ["expires_in": .null]),
      odd("expires_in 0", ["expires_in": 0]), odd("a negative expires_in", ["expires_in": -5]),
      Answer("an error with status 200", .providerError, code: "invalid_request") {
        try $0.fault(.error200, at: .par) { $0.error = "invalid_request" }
      },
      Answer("an outage", .temporarilyUnavailable) { try $0.fault(.status, at: .par) { $0.status = 503 } },
      Answer("too many requests", .temporarilyUnavailable) { try $0.fault(.status, at: .par) { $0.status = 429 } },
      Answer("a page with status 200", .temporarilyUnavailable) { try $0.fault(.html200, at: .par) },
      Answer("an empty 400", .temporarilyUnavailable) { try $0.fault(.empty400, at: .par) },
      Answer("a redirect", .temporarilyUnavailable) { try $0.fault(.redirect, at: .par) },
      Answer("half an answer", .temporarilyUnavailable) { try $0.fault(.truncated, at: .par) },
      Answer("more than is read", .temporarilyUnavailable) { try $0.fault(.hugeBody, at: .par) },
      Answer("no answer", .temporarilyUnavailable) { try $0.fault(.dropAfterCommit, at: .par) },
    ]
  }

  @Test("any other answer than a good one starts no login, and the next one works")
  func refused() async throws {
    try await Rig.with(Self.always) { rig in
      for answer in Answer.all {
        try answer.give(rig.demo)
        let error = try await rig.failure("login.start", ["provider": "demo", "account": "alice"])
        #expect(error.reason == answer.reason, "\(answer.testDescription): \(error.reason as Any) \(error.message)")
        if let code = answer.code { #expect(error.oauth?.error == code, "\(answer.testDescription)") }
        #expect(error.hint != nil || answer.reason != .providerMisconfigured, "\(answer.testDescription)")
        #expect(try await rig.pendingLogins == 0, "\(answer.testDescription)")
        rig.demo.reset()
      }
      #expect(rig.count(.authorize) == 0)
      try await rig.login()
    }
  }

  @Test("the client authenticates at the back channel as at the token endpoint, with a new assertion each time")
  func assertion() async throws {
    let key = try ClientKeyPair()
    let wish = Wish {
      $0.client = DemoServer.Client(id: "demo", keys: [key.publicJWK], authenticationMethod: "private_key_jwt")
      $0.provider = "par = \"always\"\nclient_key_file = \"\(key.path)\""
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      let stats = rig.demo.stats()
      #expect(stats.count(.push) == 1 && stats.count(.pushUsed) == 1)
      #expect(stats.count(.assertion) == 2 && stats.count(.assertionRefused) == 0 && stats.count(.replay) == 0)
      let pushed = try #require(rig.requests(.par).first)
      let claims = try #require(jwtPart(1, of: pushed.parameters["client_assertion"] ?? ""))
      #expect(claims["iss"] == "demo" && claims["sub"] == "demo")
      let exchanged = try #require(rig.requests(.tokenCode).first)
      #expect(jwtPart(1, of: exchanged.parameters["client_assertion"] ?? "")?["jti"] != claims["jti"])
      #expect(rig.requests(.authorize).map { Set($0.names) } == [["client_id", "request_uri"]])
      try await rig.reject(1)
      #expect(rig.demo.stats().count(.assertion) == 3)
    }
  }

  @Test("a client with a secret proves itself to the back channel too, and the secret is nowhere else")
  func secret() async throws {
    let wish = Wish {
      $0.client = DemoServer.Client(id: "demo", secret: "the secret of the client")
      $0.provider = "par = \"always\""
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      let pushed = try #require(rig.requests(.par).first)
      #expect(pushed.headers["authorization"]?.hasPrefix("Basic ") == true)
      #expect(pushed.parameters["client_secret"] == nil)
      #expect(
        rig.requests(.authorize).allSatisfy { !$0.path.contains("secret") && $0.parameters["client_secret"] == nil })
    }
  }

  @Test("a pushed request names the key that the tokens will be bound to")
  func bound() async throws {
    try await Rig.with(Wish { $0.provider = "par = \"always\"\ndpop = true" }) { rig in
      rig.demo.changeSettings { $0.dpop.nonce = .token }
      try await rig.login()
      let thumbprint = try #require(try await rig.token().dpop_thumbprint)
      #expect(rig.requests(.par).last?.parameters["dpop_jkt"] == thumbprint)
      // It was asked for once, and then known to be the same server's.
      #expect(rig.demo.stats().count(.nonceRefused) == 1)
      #expect(rig.count(.par) == 2 && rig.count(.tokenCode) == 1)
    }
  }
}
