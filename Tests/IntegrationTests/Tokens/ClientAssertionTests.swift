import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("A client that proves itself by an assertion (RFC 7523 §2.2)", .atMost)
struct ClientAssertionTests {
  struct Way: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var method: String
    var lines = ""
    var audience = DemoServer.Settings.Token.Audience.tokenEndpoint
    var kind = ClientKeyPair.Kind.p256
    /// Members of its header.
    var algorithm: String

    static let all = [
      Way(testDescription: "private_key_jwt", method: "private_key_jwt", algorithm: "ES256"),
      Way(
        testDescription: "private_key_jwt for the issuer", method: "private_key_jwt",
        lines: "client_assertion_audience = \"issuer\"", audience: .issuer, algorithm: "ES256"),
      Way(
        testDescription: "private_key_jwt by PS256", method: "private_key_jwt",
        lines: "client_assertion_algorithm = \"PS256\"", kind: .rsa, algorithm: "PS256"),
      Way(testDescription: "private_key_jwt by RS256", method: "private_key_jwt", kind: .rsa, algorithm: "RS256"),
      Way(testDescription: "private_key_jwt by EdDSA", method: "private_key_jwt", kind: .ed25519, algorithm: "EdDSA"),
      Way(testDescription: "client_secret_jwt", method: "client_secret_jwt", algorithm: "HS256"),
      Way(
        testDescription: "client_secret_jwt by HS512", method: "client_secret_jwt",
        lines: "client_assertion_algorithm = \"HS512\"", algorithm: "HS512"),
    ]
  }

  @Test(
    "54. private_key_jwt, client_secret_jwt: iss = sub = client_id, aud, exp ≤ 60 s, unique jti for every attempt",
    arguments: Way.all)
  func assertion(_ way: Way) async throws {
    let keys = try ClientKeyPair(way.kind)
    let isKey = way.method == "private_key_jwt"
    let secret = String(repeating: "0123456789abcdef", count: 4)
    let wish = Wish {
      $0.client =
        isKey
        ? .init(id: "demo", keys: [keys.publicJWK], authenticationMethod: way.method)
        : .init(id: "demo", secret: secret, authenticationMethod: way.method)
      $0.provider =
        "token_endpoint_auth_method = \"\(way.method)\"\n\(way.lines)\n"
        + (isKey ? "client_key_file = \"\(keys.path)\"" : "")
    }
    let robot = "[account.robot]\nprovider = \"demo\"\ngrant = \"client_credentials\"\nscopes = [\"read\"]"
    try await Rig.with(wish, starting: false) { rig in
      rig.demo.changeSettings { $0.token.assertionAudience = way.audience }
      try rig.configure(robot)
      try await rig.start()
      #expect(try await ResourceAnswer.get(rig.demo, token: try await rig.token("robot").access_token).status == 200)
      try await rig.login()
      // The same refresh is tried again: its assertion is another.
      try rig.demo.fault(.status, at: .tokenRefresh, times: 1)
      let generation = try await rig.token().generation
      _ = try await rig.failure("token.report_rejected", ["account": "alice", "generation": .integer(generation)])
      try await eventually("the second attempt") { (try? await rig.token())?.generation ?? 0 > generation }
      try await rig.call("account.logout", ["account": "alice"])
      let asserted = rig.demo.requests.filter { $0.parameters["client_assertion"] != nil }
      let places = Set(asserted.map(\.place))
      #expect(places.isSuperset(of: [.tokenClient, .tokenCode, .tokenRefresh, .revoke]), "\(places)")
      #expect(asserted.filter { $0.place == .tokenRefresh }.count == 2)
      var identifiers: [String] = []
      for request in asserted {
        #expect(request.headers["authorization"] == nil && request.parameters["client_secret"] == nil)
        #expect(
          request.parameters["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        let assertion = request.parameters["client_assertion"] ?? ""
        #expect(jwtPart(0, of: assertion)?["alg"]?.string == way.algorithm)
        let claims = try #require(jwtPart(1, of: assertion))
        #expect(claims["iss"] == "demo" && claims["sub"] == "demo")
        #expect(claims["aud"]?.string == rig.demo.issuer + (way.audience == .issuer ? "" : "/token"))
        let life = (claims["exp"]?.number ?? 1e9) - (claims["iat"]?.number ?? 0)
        #expect(life > 0 && life <= 60)
        identifiers.append(claims["jti"]?.string ?? "")
      }
      #expect(Set(identifiers).count == identifiers.count && !identifiers.contains(""))
      let stats = rig.demo.stats()
      #expect(stats.count(.assertionRefused) == 0 && stats.count(.replay) == 0)
      #expect(!rig.log.contains(secret))
    }
  }

  @Test("whose key the provider does not know is misconfigured, and no other way is tried (29)")
  func unknownKey() async throws {
    let (keys, others) = (try ClientKeyPair(), try ClientKeyPair())
    let wish = Wish {
      $0.client = .init(id: "demo", keys: [others.publicJWK])
      $0.provider = "client_key_file = \"\(keys.path)\""
    }
    try await Rig.with(wish) { rig in
      let login = try await rig.startLogin()
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 502)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect(error.reason == .providerMisconfigured && error.oauth?.error == "invalid_client", "\(error)")
      #expect(error.hint?.contains("[provider.demo]") == true)
      #expect(rig.count(.tokenCode) == 1)
    }
  }
}
