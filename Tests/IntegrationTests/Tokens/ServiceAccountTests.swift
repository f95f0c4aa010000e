import BrokerAPI
import CryptoExtras
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("An account with its own assertion, or with another account's token, for an exchange", .atMost)
struct ServiceAccountTests {
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
      let seen = try await rig.answer()
      #expect(seen.scopes == ["read", "write"] && seen.body?["sub"] == "sub-bob")
      #expect(try await rig.reject(try await rig.token("robot").generation, of: "robot").refreshed)
      try await rig.restart()
      #expect(try await rig.answer().status == 200)
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

  @Test("is a service account only with Google's JSON for its key")
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
      #expect(try await rig.answer().scopes == ["read"])
      let request = try #require(rig.requests(.tokenAssertion).first)
      let assertion = try #require(request.parameters["assertion"])
      #expect(request.parameters["scope"] == nil)
      #expect(jwtPart(0, of: assertion)?["kid"] == "google-1" && jwtPart(0, of: assertion)?["alg"] == "RS256")
      let claims = try #require(jwtPart(1, of: assertion))
      #expect(claims["scope"] == "read" && claims["iss"] == "robot@project.example" && claims["sub"] == nil)
      #expect((claims["exp"]?.number ?? 0) - (claims["iat"]?.number ?? 0) == 3600)
    }
  }

  @Test("whose key the provider does not know fails without an effect on other accounts")
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
      // It lives for two seconds.
      try await eventually("a token works") { try await works(try await rig.token().access_token, at: rig.demo) }
      // The provider gets the key.
      rig.demo.register(DemoServer.ServiceAccount(issuer: "robot", keys: [keys.publicJWK]))
      try await rig.call("broker.reload")
      #expect(try await rig.answer().status == 200)
    }
  }

  @Test("is derived from another account while that account exists")
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
      try await rig.hasToken("reports")
      let seen = try await rig.answer("reports")
      #expect(seen.body?["sub"] == "sub-alice" && seen.scopes == ["email"])
      #expect(seen.body?["resources"] == ["urn:audience:reports"])
      #expect(try await rig.account("reports").grant == "token_exchange")
      let first = try await rig.token("reports")
      #expect(try await rig.reject(first.generation, of: "reports").refreshed)
      try await rig.restart()
      #expect(try await rig.answer("reports").status == 200)
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
