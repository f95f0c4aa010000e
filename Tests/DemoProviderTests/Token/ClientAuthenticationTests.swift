import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct ClientAuthenticationTests {
  typealias Claims = [String: DemoServer.JSON]

  private func ask(_ client: TestClient, _ assertion: [String: String]) async -> Answer? {
    await client.token("client_credentials", assertion.mapValues { $0 })
  }

  @Test(arguments: ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA", "HS256"])
  func anAssertionSignedWithTheClientsKeyIsTaken(_ algorithm: String) async throws {
    let secret = "a secret of more than thirty-two bytes"
    let key =
      switch algorithm {
      case "ES256": TestKey.es256()
      case "ES384": TestKey.es384()
      case "EdDSA": TestKey.edDSA()
      case "HS256": TestKey.secret(secret)
      default: try TestKey.rsa(algorithm)
      }
    let registered = DemoServer.Client(
      id: "demo", secret: algorithm == "HS256" ? secret : nil, keys: algorithm == "HS256" ? [] : [key.jwk],
      authenticationMethod: algorithm == "HS256" ? "client_secret_jwt" : "private_key_jwt")
    try await withServer({ $0.clients = [registered] }) { server, client in
      #expect(await ask(client, key.assertion(of: "demo", for: server.issuer))?.status == 200)
      #expect(await ask(client, TestKey.es256().assertion(of: "demo", for: server.issuer))?.status == 401)
      #expect(await client.token("client_credentials")?.json?["error"] == "invalid_client")
      #expect(await client.token("client_credentials", ["client_secret": secret])?.json?["error"] == "invalid_client")
      #expect(server.stats().count(.assertion) == 1 && server.stats().count(.assertionRefused) == 1)
    }
  }

  @Test(
    arguments: [
      ["aud": "https://elsewhere.example"], ["iss": "another"], ["sub": "another"], ["exp": 1], ["exp": .null],
      ["exp": 99_999_999_999], ["iat": 99_999_999_999], ["nbf": 99_999_999_999], ["jti": .null], ["aud": .null],
    ] as [Claims])
  func anAssertionWithAWrongClaimIsRefused(_ changes: Claims) async throws {
    let key = TestKey.es256()
    try await withServer({ $0.clients = [.init(id: "demo", keys: [key.jwk])] }) { server, client in
      let answer = await ask(client, key.assertion(of: "demo", for: server.issuer, changes))
      #expect(answer?.status == 401 && answer?.json?["error"] == "invalid_client")
      #expect(server.stats().count(.assertionRefused) == 1)
    }
  }

  @Test func anAssertionIsGoodOnce() async throws {
    let key = TestKey.es256()
    try await withServer({ $0.clients = [.init(id: "demo", keys: [key.jwk])] }) { server, client in
      let assertion = key.assertion(of: "demo", for: "\(server.issuer)/token")
      #expect(await ask(client, assertion)?.status == 200)
      #expect(await ask(client, assertion)?.json?["error"] == "invalid_client")
      #expect(server.stats().count(.replay) == 1)
    }
  }

  @Test(
    arguments: [
      ("either", true, true), ("token_endpoint", true, false), ("issuer", false, true),
    ])
  func theAudienceIsASetting(_ setting: String, _ takesEndpoint: Bool, _ takesIssuer: Bool) async throws {
    let key = TestKey.es256()
    try await withServer({ $0.clients = [.init(id: "demo", keys: [key.jwk])] }) { server, client in
      let change: DemoServer.JSON = ["assertion_audience": .string(setting)]
      #expect(await client.send(.POST, "/_control/settings", json: change)?.status == 200)
      for (audience, taken) in [("\(server.issuer)/token", takesEndpoint), (server.issuer, takesIssuer)] {
        #expect(await ask(client, key.assertion(of: "demo", for: audience))?.status == (taken ? 200 : 401))
      }
    }
  }

  @Test func twoMethodsAtOnceAreRefused() async throws {
    let key = TestKey.es256()
    try await withServer({ $0.clients = [.init(id: "demo", secret: "s", keys: [key.jwk])] }) { server, client in
      var form = key.assertion(of: "demo", for: server.issuer)
      form["client_secret"] = "s"
      #expect(await ask(client, form)?.json?["error"] == "invalid_request")
    }
  }

  @Test func basicCredentialsAreRawWhereASettingSaysSo() async throws {
    try await withServer({ $0.clients = [.init(id: "demo", secret: "p%41 +")] }) { server, client in
      for (isRaw, text) in [(false, "demo:p%2541+%2B"), (true, "demo:p%41 +")] {
        for setting in [false, true] {
          server.changeSettings { $0.token.rawBasic = setting }
          let header = ["Authorization": "Basic \(Data(text.utf8).base64EncodedString())"]
          let answer = await client.token("client_credentials", ["client_id": nil], headers: header)
          #expect(answer?.status == (setting == isRaw ? 200 : 401))
        }
      }
    }
  }

  @Test func aClientAddedAtRunTimeIsKnown() async throws {
    try await withServer { _, client in
      let key = TestKey.edDSA()
      let body: DemoServer.JSON = ["client_id": "late", "jwks": ["keys": [key.jwk]]]
      #expect(await client.send(.POST, "/_control/client", json: body)?.status == 200)
      var late = client
      late.id = "late"
      #expect(await ask(late, key.assertion(of: "late", for: client.server.issuer))?.status == 200)
      #expect(await client.send(.POST, "/_control/client", json: [:])?.status == 400)
    }
  }
}
