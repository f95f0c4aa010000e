import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// Known behaviour of other servers, each supported only by configuration.
@Suite("Servers of other makes")
struct ServerQuirkTests {
  struct Quirk: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var client = DemoServer.Client(id: "demo")
    /// Lines of the provider's section.
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
    .setting("unrequested members") {
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
    "returns a token, refreshes it once for many callers, and continues after a restart",
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
    let wish = Wish {
      $0.accessTTL = 20
      $0.refresh = "share = 0.1\njitter = 0\nretry_delays = [\"1s\"]"
    }
    try await Rig.with(wish) { rig in
      rig.demo.changeSettings { $0.refreshTTL = .seconds(20) }
      try await rig.login()
      try await eventually("two lifetimes") { try await rig.account().generation >= 3 }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
    }
  }
}
