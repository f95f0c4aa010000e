import BrokerAPI
import DemoProvider
import Foundation
import Testing

/// What servers of other makes are known to do, each survived by configuration alone.
@Suite("Servers of other makes")
struct ServerQuirkTests {
  struct Quirk: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var client = DemoServer.Client(id: "demo")
    /// Of the provider's section.
    var lines: @Sendable (Rig) -> String = { _ in "" }
    var prepare: @Sendable (DemoServer) throws -> Void

    init(
      _ description: String, client: DemoServer.Client = .init(id: "demo"),
      lines: @escaping @Sendable (Rig) -> String = { _ in "" },
      _ prepare: @escaping @Sendable (DemoServer) throws -> Void
    ) {
      testDescription = description
      self.client = client
      self.lines = lines
      self.prepare = prepare
    }

    static func setting(
      _ description: String, lines: String = "", _ change: @escaping @Sendable (inout DemoServer.Settings) -> Void
    ) -> Self {
      Self(description, lines: { _ in lines }) { $0.changeSettings(change) }
    }

    static func fault(
      _ kind: DemoServer.Fault.Kind, at place: DemoServer.Fault.Place = .token, _ value: String? = nil
    ) -> Self {
      Self(value.map { "\(kind.rawValue) \($0)" } ?? kind.rawValue) { demo in
        try demo.fault(kind, at: place) { $0.value = value }
      }
    }
  }

  private static let byHand: @Sendable (Rig) -> String = { rig in
    """
    discovery = false
    authorization_endpoint = "\(rig.demo.issuer)/authorize"
    token_endpoint = "\(rig.demo.issuer)/token"
    jwks_uri = "\(rig.demo.issuer)/jwks"
    """
  }

  static let metadata: [Quirk] = [
    .setting("the endpoints are only in the RFC 8414 document", lines: "discovery = \"oauth\"") {
      $0.metadata.oidc = .missing
    },
    .setting("the other well-known path answers 200 with a web page", lines: "discovery = \"oauth\"") {
      $0.metadata.oidc = .html
    },
    .setting("the endpoints are only in the OpenID Connect document") { $0.metadata.oauth = .missing },
    .setting("nothing but the three endpoints is named") { $0.metadata.oidc = .bare },
    Quirk("the endpoints are in neither document", lines: byHand) {
      $0.changeSettings { ($0.metadata.oidc, $0.metadata.oauth) = (.missing, .html) }
    },
    Quirk("discovery is answered with a redirect", lines: byHand) { try $0.fault(.redirect, at: .discovery) },
  ]

  static let authorization: [Quirk] = [
    .setting("`iss` is sent and not advertised") { $0.metadata.issAdvertised = false },
    .setting("a nonce is required") { $0.authorization.nonceRequired = true },
    .setting("a long state breaks it") { $0.authorization.maxState = 64 },
  ]

  static let tokens: [Quirk] = [
    .setting("`bearer` in small letters") { $0.tokenExtra = ["token_type": "bearer"] },
    .setting("`BEARER` in capitals") { $0.tokenExtra = ["token_type": "BEARER"] },
    .setting("members that nobody asked for") {
      $0.tokenExtra = ["ext_expires_in": 3599, "user": ["id": 7, "tags": ["a", .null]], "not-before-policy": 0]
    },
    .setting("no scope in the answer") { $0.token.scopeAnswer = .absent },
    .setting("the scopes in another order") { $0.token.scopeAnswer = .reordered },
    .setting("fewer scopes than asked for") { $0.token.scopeAnswer = .narrowed },
    .setting("500 for a second token in the same second") { $0.token.onePerSecond = true },
    Quirk(
      "Basic credentials are taken raw", client: .init(id: "demo", secret: "p%41+ss/w:ö rd"),
      lines: {
        "client_secret_file = \"\($0.folder.path("secret"))\"\n"
          + "token_endpoint_auth_method = \"client_secret_basic_raw\""
      }
    ) { $0.changeSettings { $0.token.rawBasic = true } },
    Quirk(
      "Basic credentials are form-decoded", client: .init(id: "demo", secret: "p%41+ss/w:ö rd"),
      lines: { "client_secret_file = \"\($0.folder.path("secret"))\"" }
    ) { _ in },
    .setting("requests are JSON", lines: "body_format = \"json\"") { $0.token.jsonBodies = true },
    .setting("the answer is within a member", lines: "token_path = [\"data\"]") { $0.token.wrap = "data" },
    Quirk("answers are form-encoded", lines: { _ in "accept_form_response = true" }) {
      try $0.fault(.formEncoded, at: .token)
    },
  ]

  static let refreshing: [Quirk] = [
    .setting("a refresh ends the old access token at once") { $0.refresh.killsAccessToken = true },
    .setting("a refresh brings no ID token") { $0.idTokenOnRefresh = false },
    .setting("a refreshed ID token repeats the nonce") { $0.nonceOnRefresh = true },
    .setting("two refreshes at once end both") { $0.refresh.parallel = .bothDie },
    .setting("two refreshes at once are 500") { $0.refresh.parallel = .error500 },
  ]

  static let idTokens: [Quirk] = [
    .fault(.audienceList), .fault(.authTimeZero), .fault(.authTimeFloat), .fault(.claimAbsent, "auth_time"),
    .fault(.claimAbsent, "at_hash"), .fault(.keysWithoutAlgorithm, at: .jwks), .fault(.keysWithoutUse, at: .jwks),
    .fault(.keysWithoutIdentifier, at: .jwks), Quirk("RS512") { try $0.rotateKeys(.rs512, keepingOld: false) },
    Quirk("ES384") { try $0.rotateKeys(.es384, keepingOld: true) },
    .setting("no algorithms are advertised") {
      $0.discoveryExtra = ["id_token_signing_alg_values_supported": .null]
    },
  ]

  @Test(
    "gives a token, refreshes it once however many ask, and goes on after a restart",
    arguments: metadata + authorization + tokens + refreshing + idTokens)
  func survived(_ quirk: Quirk) async throws {
    try await Rig.with(
      Wish { $0.client = quirk.client }, sections: { $0.section("quirk", quirk.lines($0)) }
    ) { rig in
      try quirk.prepare(rig.demo)
      try await rig.login("alice", at: "quirk")
      let first = try await rig.token()
      #expect(try await works(first.access_token, at: rig.demo))
      await withTaskGroup(of: Void.self) { group in
        // A provider that fails is asked again by itself.
        for _ in 1...8 { group.addTask { _ = try? await rig.reject(1) } }
      }
      let second = try await eventually("a second token") {
        (try? await rig.token()).flatMap { $0.generation > 1 ? $0 : nil }
      }
      #expect(second.access_token != first.access_token)
      #expect(try await works(second.access_token, at: rig.demo))
      #expect(rig.demo.stats().refreshesInFlightMax <= 1)
      #expect(rig.count(.tokenRefresh) <= 2)
      #expect(rig.demo.stats().liveGrants == 1)
      try await rig.restart()
      #expect(try await rig.token().access_token == second.access_token)
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("an assertion is for the token endpoint at some and for the issuer at others", arguments: [false, true])
  func assertionAudience(isIssuer: Bool) async throws {
    let key = try ClientKeyPair()
    let wish = Wish {
      $0.client = .init(id: "demo", keys: [key.publicJWK], authenticationMethod: "private_key_jwt")
      $0.provider = "client_key_file = \"\(key.path)\"" + (isIssuer ? "\nclient_assertion_audience = \"issuer\"" : "")
    }
    try await Rig.with(wish) { rig in
      rig.demo.changeSettings { $0.token.assertionAudience = isIssuer ? .issuer : .tokenEndpoint }
      try await rig.login()
      try await rig.reject(1)
      #expect(try await rig.token().generation == 2)
      #expect(rig.demo.stats().count(.assertion) == 2 && rig.demo.stats().count(.assertionRefused) == 0)
    }
  }

  @Test("a refresh token that ends with its access token is used in time, again and again")
  func shortRefreshTokens() async throws {
    try await Rig.with(.shortLived()) { rig in
      rig.demo.changeSettings { $0.refreshTTL = .seconds(2) }
      try await rig.login()
      try await eventually("two lifetimes") { try await rig.account().generation >= 3 }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  static let ends: [(DemoServer.Settings.Refresh.BadToken, String)] = [
    (.invalidGrant, ""), (.invalidRequest, "permanent_errors = [\"invalid_request\"]"),
    (.empty400, "permanent_errors = [\"http_400\"]"), (.empty403, "permanent_errors = [\"http_403\"]"),
  ]

  @Test("a refresh token that is not good asks for a login, whatever the provider calls that", arguments: ends.indices)
  func badRefreshToken(_ index: Int) async throws {
    let (answer, lines) = Self.ends[index]
    try await Rig.with(Wish { $0.provider = lines }) { rig in
      rig.demo.changeSettings { $0.refresh.badToken = answer }
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      #expect(
        try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1]).reason == .loginRequired)
      try await rig.login()
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }

  @Test(
    "the same answers end no grant that does not say so: they may pass",
    arguments: [DemoServer.Settings.Refresh.BadToken.invalidRequest, .empty400, .empty403])
  func passing(_ answer: DemoServer.Settings.Refresh.BadToken) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.refresh.badToken = answer }
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason != .loginRequired, "\(error)")
      #expect(try await rig.account().state != .loginRequired)
    }
  }

  struct Refusal: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Nil: the person stays at the provider.
    var ending: ErrorReason?
    /// Comes back all the same, with an answer that is not taken.
    var isBack = false
    var change: @Sendable (inout DemoServer.Settings) -> Void

    static let all = [
      Refusal(testDescription: "consent_required", ending: .loginDenied) {
        $0.authorization.refusal = .consentRequired
      },
      // RFC 9207 §2.4 has it refused, since anybody could have made it: the login waits.
      Refusal(testDescription: "`iss` advertised and missing on errors", ending: nil, isBack: true) {
        $0.authorization.issOnErrors = false
      },
      Refusal(testDescription: "nothing at all", ending: nil) { $0.authorization.refusal = .page },
      Refusal(testDescription: "an error page at 200", ending: nil) { $0.authorization.errorPage = true },
    ]
  }

  @Test("a refusal ends the login, or leaves it to its time-out; the next one works", arguments: Refusal.all)
  func refusals(_ refusal: Refusal) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings(refusal.change)
      let login = try await rig.startLogin("alice", as: "deny")
      let page = try await Browser.open(login.url)
      if let ending = refusal.ending {
        let shown = try await Browser.open(try #require(page.location))
        #expect(shown.body.contains("declined"), "\(shown.body)")
        #expect(try await rig.failure("login.wait", ["login_id": .string(login.id), "timeout": 2]).reason == ending)
      } else {
        #expect((page.location != nil) == refusal.isBack)
        if let location = page.location { #expect(try await Browser.open(location).status == 400) }
        #expect(try await rig.pendingLogins == 1)
        try await rig.call("login.cancel", ["login_id": .string(login.id)])
      }
      #expect(try await rig.pendingLogins == 0)
      try await rig.login()
    }
  }

  @Test(
    "401s of every shape fail one request, and say so",
    arguments: [DemoServer.Settings.Resource.Unauthorized.challenge, .empty, .noScheme, .jsonAsHTML])
  func unauthorized(_ shape: DemoServer.Settings.Resource.Unauthorized) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.resource.unauthorized = shape }
      try await rig.login()
      try rig.demo.revoke(user: "alice")
      let error = try await rig.failure("account.userinfo", ["account": "alice"])
      #expect(error.reason == .providerError, "\(error)")
      #expect(error.hint?.isEmpty == false)
    }
  }

  struct Device: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Nil: the login completes.
    var ending: ErrorReason?
    var change: @Sendable (inout DemoServer.Settings.Device) -> Void

    static let all = [
      Device(testDescription: "no slow_down, no ID token, no complete link, and the link by its old name") {
        ($0.slowDown, $0.idToken, $0.complete, $0.verificationURL) = (false, false, false, true)
      },
      Device(testDescription: "invalid_grant on expiry", ending: .loginExpired) {
        ($0.ttl, $0.expired) = (.milliseconds(1200), .invalidGrant)
      },
    ]
  }

  @Test("a login on another device works where the provider says less", arguments: Device.all)
  func device(_ device: Device) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings {
        $0.device.interval = .seconds(1)
        device.change(&$0.device)
      }
      let login = try await rig.call(
        "login.start", ["provider": "demo", "account": "alice", "destinations": ["device"]])
      let id = try #require(login["login_id"])
      if let ending = device.ending {
        #expect(try await rig.failure("login.wait", ["login_id": id, "timeout": 20]).reason == ending)
      } else {
        try rig.demo.answerDevice()
        #expect(try await rig.call("login.wait", ["login_id": id, "timeout": 20])["state"]?.string == "completed")
        #expect(try await works(try await rig.token().access_token, at: rig.demo))
      }
    }
  }
}
