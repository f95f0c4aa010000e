import BrokerAPI
import CryptoExtras
import DemoProvider
import Foundation
import Testing

@Suite("An account that the configuration declares", .timeLimit(.minutes(5)))
struct DeclaredAccountTests {
  private static let secret = "a-secret-of-more-than-thirty-two-bytes-for-HS256"
  private static let robot = "[account.robot]\nprovider = \"demo\"\ngrant = \"client_credentials\"\nscopes = [\"read\"]"

  /// A confidential client whose account needs nobody.
  private static func clientCredentials(_ change: (inout Wish) -> Void = { _ in }) -> Wish {
    Wish.shortLived {
      $0.client = .init(id: "demo", secret: secret)
      change(&$0)
    }
  }

  private static func grantctl(_ rig: Rig, _ arguments: String...) async throws -> (status: Int32, said: String) {
    let (status, output) = try await Programs.run(
      Programs.grantctl, arguments + ["--socket", rig.socket], in: rig.folder)
    return (status, output.split(whereSeparator: \.isWhitespace).joined(separator: " "))
  }

  private static func answer(_ rig: Rig, _ account: String = "robot") async throws -> ResourceAnswer {
    try await ResourceAnswer.get(rig.demo, token: try await rig.token(account).access_token)
  }

  private static func hasToken(_ rig: Rig, _ account: String) async throws {
    try await eventually("\(account) has a token") { (try? await rig.token(account)) != nil }
  }

  // MARK: Client credentials

  @Test("has a token without any login, refreshed by itself, also after kill -9, and goes with its section")
  func clientCredentials() async throws {
    try await Rig.with(Self.clientCredentials(), sections: { _ in Self.robot }) { rig in
      let seen = try await Self.answer(rig)
      #expect(seen.status == 200 && seen.scopes == ["read"] && seen.body?["client_id"] == "demo")
      let account = try await rig.account("robot")
      #expect(account.grant == "client_credentials" && account.identity == nil && account.refresh_expires_at == nil)
      try await eventually("two refreshes that nobody asked for") {
        try await rig.account("robot").generation >= account.generation + 2
      }
      try await rig.restart()
      #expect(try await Self.answer(rig).status == 200)
      #expect(rig.count(.tokenRefresh) == 0)
      #expect(try await rig.pendingLogins == 0)
      try rig.configure()
      try await rig.call("broker.reload")
      for _ in 1...2 {
        #expect(try await rig.failure("token.get", ["account": "robot"]).reason == .unknownAccount)
        #expect(try await rig.call("account.list")["accounts"]?.array == [])
        try await rig.restart()
      }
      // And it comes back with it.
      try rig.configure(Self.robot)
      try await rig.call("broker.reload")
      #expect(try await Self.answer(rig).status == 200)
    }
  }

  @Test("is shown by grantctl as what it is")
  func shown() async throws {
    let wish = Self.clientCredentials { $0.accessTTL = 300 }
    try await Rig.with(wish, sections: { _ in Self.robot }) { rig in
      try await Self.hasToken(rig, "robot")
      let list = try await Self.grantctl(rig, "list")
      #expect(list.status == 0 && list.said.contains("robot demo ok - "), "\(list.said)")
      let status = try await Self.grantctl(rig, "status")
      #expect(status.status == 0 && status.said.contains("robot ok"), "\(status.said)")
      #expect(!status.said.contains("login required") && !status.said.contains("grantctl login"))
      let show = try await Self.grantctl(rig, "show", "robot")
      #expect(show.status == 0 && show.said.contains("Grant client credentials"), "\(show.said)")
      let doctor = try await Self.grantctl(rig, "doctor", "demo")
      #expect(doctor.said.contains("nobody has to sign in"), "\(doctor.said)")
    }
  }

  @Test("whose client the provider refuses is misconfigured, with a hint, until that is mended")
  func invalidClient() async throws {
    let wish = Self.clientCredentials { $0.accessTTL = 300 }
    try await Rig.with(wish, sections: { _ in Self.robot }) { rig in
      rig.demo.register(DemoServer.Client(id: "demo", secret: "another"))
      try await eventually("it is refused or was quicker") {
        (try? await rig.reject(try await rig.account("robot").generation, of: "robot")) == nil
      }
      let error = try await rig.failure("token.get", ["account": "robot"])
      #expect(error.reason == .providerMisconfigured && error.oauth?.error == "invalid_client", "\(error)")
      #expect(error.hint?.contains("[provider.demo]") == true && error.hint?.contains("grantctl reload") == true)
      #expect(!error.message.contains(Self.secret))
      #expect(try await rig.account("robot").state == .actionRequired)
      let status = try await Self.grantctl(rig, "status")
      #expect(status.said.contains("robot action required") && status.said.contains("Mend"), "\(status.said)")
      rig.demo.register(wish.client)
      try await rig.call("broker.reload")
      #expect(try await Self.answer(rig).status == 200)
      #expect(try await rig.account("robot").state == .ok)
    }
  }

  @Test("cannot be signed in to, imported to or logged out")
  func refusals() async throws {
    try await Rig.with(Self.clientCredentials(), sections: { _ in Self.robot }) { rig in
      for (method, params) in [
        ("login.start", ["provider": "demo", "account": "robot"]), ("account.logout", ["account": "robot"]),
        ("account.import", ["provider": "demo", "account": "robot", "refresh_token": "rt"]),
      ] as [(String, BrokerAPI.JSON)] {
        let error = try await rig.failure(method, params)
        #expect(error.code == RPCError.invalidParams("").code, "\(method): \(error)")
        #expect(error.hint?.contains("[account.robot]") == true, "\(method): \(error)")
      }
      let (status, said) = try await Self.grantctl(rig, "login", "demo", "robot")
      #expect(status != 0 && said.contains("declared in the configuration"), "\(said)")
      #expect(try await Self.answer(rig).status == 200)
      #expect(try await rig.pendingLogins == 0)
    }
  }

  @Test("does not take the account of a person, and says so")
  func shadowed() async throws {
    let wish = Wish { $0.client = .init(id: "demo", secret: Self.secret) }
    try await Rig.with(wish) { rig in
      try await rig.login("robot", as: "alice")
      let before = try await rig.token("robot")
      try rig.configure(Self.robot)
      try await rig.call("broker.reload")
      #expect(try await rig.token("robot") == before)
      #expect(try await rig.account("robot").grant == "authorization_code")
      #expect(rig.log.contains("[account.robot] is not in force"))
    }
  }

  // MARK: JWT bearer

  @Test("gets tokens by assertions that its key signs, each with a new jti")
  func jwtBearer() async throws {
    let keys = try ClientKeyPair()
    let wish = Wish()
    try await Rig.with(
      wish,
      sections: { rig in
        rig.demo.register(DemoServer.ServiceAccount(issuer: "robot@demo.example", keys: [keys.publicJWK]))
        return """
          [account.robot]
          provider = "demo"
          grant = "jwt_bearer"
          scopes = ["read", "write"]
          key_file = "\(keys.path)"
          issuer = "robot@demo.example"
          subject = "bob"
          assertion_lifetime = "2m"
          """
      }
    ) { rig in
      let seen = try await Self.answer(rig)
      #expect(seen.scopes == ["read", "write"] && seen.body?["sub"] == "sub-bob")
      #expect(try await rig.reject(try await rig.token("robot").generation, of: "robot").refreshed)
      try await rig.restart()
      #expect(try await Self.answer(rig).status == 200)
      let requests = rig.requests(.tokenAssertion)
      #expect(requests.count == 2 && requests.allSatisfy { $0.parameters["scope"] == "read write" })
      let claims = requests.compactMap { jwtPart(1, of: $0.parameters["assertion"] ?? "") }
      #expect(Set(claims.compactMap { $0["jti"]?.string }).count == 2)
      for claims in claims {
        #expect(claims["iss"] == "robot@demo.example" && claims["sub"] == "bob" && claims["scope"] == nil)
        #expect(claims["aud"]?.string == rig.demo.issuer + "/token")
        #expect((claims["exp"]?.number ?? 0) - (claims["iat"]?.number ?? 0) == 120)
      }
    }
  }

  @Test("is a service account by the JSON that Google gives for its key, and by nothing else")
  func google() async throws {
    let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
    let numbers = try key.publicKey.getKeyPrimitives()
    let public_ = DemoServer.JSON.object([
      "kty": "RSA", "kid": "google-1", "alg": "RS256", "n": .string(numbers.modulus.base64URLText),
      "e": .string(numbers.publicExponent.base64URLText),
    ])
    try await Rig.with(sections: { rig in
      rig.demo.register(DemoServer.ServiceAccount(issuer: "robot@project.example", keys: [public_]))
      let json = DemoServer.JSON.object([
        "type": "service_account", "project_id": "project", "private_key_id": "google-1",
        "private_key": .string(key.pemRepresentation), "client_email": "robot@project.example", "client_id": "1234",
        "token_uri": .string(rig.demo.issuer + "/token"),
      ])
      let file = try rig.folder.write(json.text, to: "google.json")
      return "[account.robot]\nprovider = \"demo\"\ngrant = \"jwt_bearer\"\nscopes = [\"read\"]\nkey_file = \"\(file)\""
    }) { rig in
      #expect(try await Self.answer(rig).scopes == ["read"])
      let request = try #require(rig.requests(.tokenAssertion).first)
      let assertion = try #require(request.parameters["assertion"])
      #expect(request.parameters["scope"] == nil)
      #expect(jwtPart(0, of: assertion)?["kid"] == "google-1" && jwtPart(0, of: assertion)?["alg"] == "RS256")
      let claims = try #require(jwtPart(1, of: assertion))
      #expect(claims["scope"] == "read" && claims["iss"] == "robot@project.example" && claims["sub"] == nil)
      #expect((claims["exp"]?.number ?? 0) - (claims["iat"]?.number ?? 0) == 3600)
    }
  }

  @Test("whose key the provider does not know is alone in that: nobody else's refresh stops")
  func wrongKey() async throws {
    let keys = try ClientKeyPair()
    let wish = Wish.shortLived()
    func section(_ rig: Rig) -> String {
      "[account.robot]\nprovider = \"demo\"\ngrant = \"jwt_bearer\"\nscopes = [\"read\"]\nissuer = \"robot\"\n"
        + "key_file = \"\(keys.path)\""
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      try rig.configure(section(rig))
      try await rig.call("broker.reload")
      try await rig.wait(for: "robot", toBe: .actionRequired)
      let error = try await rig.failure("token.get", ["account": "robot"])
      #expect(error.reason == .providerMisconfigured && error.oauth?.error == "invalid_grant", "\(error)")
      #expect(error.hint?.contains("[account.robot]") == true)
      let before = try await rig.account().generation
      try await eventually("alice's token is refreshed") { try await rig.account().generation >= before + 2 }
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      // The provider learns of the key.
      rig.demo.register(DemoServer.ServiceAccount(issuer: "robot", keys: [keys.publicJWK]))
      try await rig.call("broker.reload")
      #expect(try await Self.answer(rig).status == 200)
    }
  }

  // MARK: Token exchange

  @Test("is derived from another account as soon as that is there, and no longer than it is")
  func derived() async throws {
    let section = """
      [account.reports]
      provider = "demo"
      grant = "token_exchange"
      from = "alice"
      audience = "reports"
      scopes = ["email"]
      """
    try await Rig.with(sections: { _ in section }) { rig in
      let early = try await rig.failure("token.get", ["account": "reports"])
      #expect(early.reason == .temporarilyUnavailable && early.message.contains("alice"), "\(early)")
      try await rig.login()
      try await Self.hasToken(rig, "reports")
      let seen = try await Self.answer(rig, "reports")
      #expect(seen.body?["sub"] == "sub-alice" && seen.scopes == ["email"])
      #expect(seen.body?["resources"] == ["urn:audience:reports"])
      #expect(try await rig.account("reports").grant == "token_exchange")
      let first = try await rig.token("reports")
      #expect(try await rig.reject(first.generation, of: "reports").refreshed)
      try await rig.restart()
      #expect(try await Self.answer(rig, "reports").status == 200)
      #expect(try await rig.token("reports").generation == first.generation + 1)
      #expect(rig.count(.tokenExchange) == 2)
      try await rig.call("account.logout", ["account": "alice"])
      let generation = try await rig.token("reports").generation
      let late = try await rig.failure(
        "token.report_rejected", ["account": "reports", "generation": .integer(generation)])
      #expect(late.reason == .temporarilyUnavailable, "\(late)")
    }
  }
}

@Suite("A client that proves itself by an assertion (RFC 7523 §2.2)", .timeLimit(.minutes(5)))
struct ClientAssertionTests {
  struct Way: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var method: String
    var lines = ""
    var audience = DemoServer.Settings.Token.Audience.tokenEndpoint

    static let all = [
      Way(testDescription: "private_key_jwt", method: "private_key_jwt"),
      Way(
        testDescription: "private_key_jwt for the issuer", method: "private_key_jwt",
        lines: "client_assertion_audience = \"issuer\"", audience: .issuer),
      Way(testDescription: "client_secret_jwt", method: "client_secret_jwt"),
      Way(
        testDescription: "client_secret_jwt by HS512", method: "client_secret_jwt",
        lines: "client_assertion_algorithm = \"HS512\""),
    ]
  }

  @Test(
    "54. private_key_jwt, client_secret_jwt: iss = sub = client_id, aud, exp ≤ 60 s, unique jti for every attempt",
    arguments: Way.all)
  func assertion(_ way: Way) async throws {
    let keys = try ClientKeyPair()
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
        let claims = try #require(jwtPart(1, of: request.parameters["client_assertion"] ?? ""))
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
