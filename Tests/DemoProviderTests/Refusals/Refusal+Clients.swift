import DemoProvider
import Foundation
import NIOHTTP1

// Client authentication and DPoP proofs.
extension Refusal {
  static let key = TestKey()
  private static let secret = DemoServer.Client(id: "demo", secret: "p%41 +")
  private static let keyed = DemoServer.Client(id: "demo", keys: [key.jwk])

  static let clients: [Refusal] = [
    ownGrant("no authentication", keyed), ownGrant("a secret and no assertion", keyed, ["client_secret": "s"]),
    ownGrant("a wrong secret", secret, ["client_secret": "guess"]),
    ownGrant("raw credentials", secret, ["client_id": nil], basic: "demo:p%41 +"),
    ownGrant("encoded credentials", secret, ["client_id": nil], basic: "demo:p%2541+%2B", isRaw: true),
    ownGrant(
      "two secrets", secret, ["client_secret": "p%41 +"], basic: "demo:p%2541+%2B", status: 400,
      error: "invalid_request"),
    ownGrant("a public client", .init(id: "demo"), status: 400, error: "unauthorized_client"),
    .init("an assertion of another key", 401, "invalid_client", with: { $0.clients = [keyed] }) { server, client in
      await authenticate(client, TestKey().assertion(of: "demo", for: server.issuer))
    },
    .init("an assertion and a secret", 400, "invalid_request", with: { $0.clients = [keyed] }) { server, client in
      await authenticate(client, key.assertion(of: "demo", for: server.issuer).merging(["client_secret": "s"]) { $1 })
    },
    .init("a used assertion", 401, "invalid_client", with: { $0.clients = [keyed] }) { server, client in
      let assertion = key.assertion(of: "demo", for: server.issuer)
      _ = await authenticate(client, assertion)
      return await authenticate(client, assertion)
    },
  ]

  /// The client credentials grant.
  ///
  /// - Parameter isRaw: the server takes Basic credentials without decoding.
  private static func ownGrant(
    _ name: String, _ registered: DemoServer.Client, _ fields: [String: String?] = [:], basic: String? = nil,
    isRaw: Bool = false, status: Int = 401, error: String = "invalid_client"
  ) -> Refusal {
    let change: Change = {
      $0.clients = [registered]
      $0.settings.token.rawBasic = isRaw
    }
    return Refusal(name, status, error, with: change) { _, client in
      let credentials = basic.map { ["Authorization": "Basic \(Data($0.utf8).base64EncodedString())"] }
      return await client.token("client_credentials", fields, headers: credentials ?? [:])
    }
  }

  private static let claims: [[String: JSON]] = [
    ["aud": "https://elsewhere.example"], ["iss": "another"], ["sub": "another"], ["exp": 1], ["exp": .null],
    ["exp": 99_999_999_999], ["iat": 99_999_999_999], ["nbf": 99_999_999_999], ["jti": .null], ["aud": .null],
  ]

  static let assertions: [Refusal] = claims.map { changes in
    Refusal(
      "an assertion with \(JSON.object(changes).text)", 401, "invalid_client", with: { $0.clients = [keyed] }
    ) { server, client in
      await authenticate(client, key.assertion(of: "demo", for: server.issuer, changes))
    }
  }

  private static func authenticate(_ client: TestClient, _ assertion: [String: String]) async -> Answer? {
    await client.token("client_credentials", assertion.mapValues { $0 })
  }

  // MARK: Proofs

  private static let proofChanges: [(claims: [String: JSON], header: [String: JSON])] = [
    (["htm": "GET"], [:]), (["htu": "http://127.0.0.1:1/token"], [:]), (["iat": 1], [:]), (["iat": .null], [:]),
    (["jti": .null], [:]), (["htu": .null], [:]), ([:], ["typ": "JWT"]), ([:], ["jwk": .null]),
    ([:], ["alg": "none"]), ([:], ["jwk": ["kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"]]),
    ([:], ["jwk": ["kty": "oct", "k": "AA"]]),
  ]

  static let proofs: [Refusal] = [
    .init("a used proof", 400, "invalid_dpop_proof") { server, client in
      let proof = key.proof("POST", "\(server.issuer)/token")
      _ = await prove(client, proof)
      return await prove(client, proof)
    },
    .init("no proof", 400, "invalid_dpop_proof", with: { $0.settings.dpop.mode = .required }) { _, client in
      await prove(client, [:])
    },
    .init("a code that is bound to another key", 400, "invalid_grant") { server, client in
      let pushed = await client.send(
        .POST, "/par", form: client.authorizationRequest(), headers: key.proof("POST", "\(server.issuer)/par"))
      let query = ["client_id": "demo", "request_uri": pushed?.json?["request_uri"]?.string ?? ""]
      let code = await client.send(.GET, "/authorize?" + TestClient.encode(query))?.callback["code"]
      return await prove(client, TestKey().proof("POST", "\(server.issuer)/token"), code: code ?? "")
    },
  ]

  static let wrongProofs: [Refusal] = proofChanges.map { wrong in
    Refusal(
      "a proof with \(JSON.object(wrong.claims).text) \(JSON.object(wrong.header).text)", 400, "invalid_dpop_proof"
    ) { server, client in
      await prove(client, key.proof("POST", "\(server.issuer)/token", wrong.claims, header: wrong.header))
    }
  }

  /// The exchange of a code with a proof; nil: a new code.
  static func prove(_ client: TestClient, _ headers: [String: String], code: String? = nil) async -> Answer? {
    let fields = ["redirect_uri": client.redirectURI, "code_verifier": TestClient.verifier]
    let own = if let code { code } else { await client.code() }
    return await client.token("authorization_code", fields.merging(["code": own]) { $1 }, headers: headers)
  }
}
