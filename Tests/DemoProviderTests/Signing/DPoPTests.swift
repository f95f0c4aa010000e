import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct DPoPTests {
  private func exchange(_ client: TestClient, _ headers: [String: String]) async -> Answer? {
    let code = await client.code()
    return await client.token(
      "authorization_code",
      ["code": code, "redirect_uri": client.redirectURI, "code_verifier": TestClient.verifier], headers: headers)
  }

  private func refresh(_ token: String, _ client: TestClient, _ headers: [String: String]) async -> Answer? {
    await client.token("refresh_token", ["refresh_token": token], headers: headers)
  }

  private func resource(
    _ token: String, _ client: TestClient, _ headers: [String: String], scheme: String = "DPoP"
  ) async -> Answer? {
    await client.send(.GET, "/resource?a=b", headers: headers.merging(["Authorization": "\(scheme) \(token)"]) { $1 })
  }

  @Test(arguments: ["ES256", "EdDSA", "RS256"])
  func aTokenIsBoundToTheKeyThatProvesItself(_ algorithm: String) async throws {
    let key = algorithm == "ES256" ? TestKey.es256() : algorithm == "EdDSA" ? .edDSA() : try .rsa("RS256")
    try await withServer { server, client in
      let endpoint = "\(server.issuer)/token"
      let url = "\(server.issuer)/resource"
      let answer = await exchange(client, key.proof("POST", endpoint))
      #expect(answer?.json?["token_type"] == "DPoP")
      let tokens = Tokens(answer)
      #expect(
        await resource(tokens.access, client, key.proof("GET", url, token: tokens.access))?.json?["bound"] == true)
      let looked = await client.send(.POST, "/introspect", form: ["client_id": "demo", "token": tokens.access])?.json
      #expect(looked?["token_type"] == "DPoP" && looked?["cnf"]?["jkt"]?.string?.count == 43)
      #expect(server.stats().grants.first?.isBound == true)
      let other = TestKey.es256()
      for headers in [
        [:], key.proof("GET", url), key.proof("GET", url, token: "another"),
        key.proof("POST", url, token: tokens.access),
        key.proof("GET", url + "?a=b", token: tokens.access), other.proof("GET", url, token: tokens.access),
      ] {
        let refused = await resource(tokens.access, client, headers)
        #expect(refused?.status == 401)
        #expect(refused?.header("www-authenticate")?.hasPrefix("DPoP realm=\"demo\", error=\"invalid_") == true)
      }
      let downgraded = await resource(tokens.access, client, [:], scheme: "Bearer")
      #expect(downgraded?.status == 401)
      #expect(await refresh(tokens.refresh, client, [:])?.json?["error"] == "invalid_grant")
      let stolen = await refresh(tokens.refresh, client, other.proof("POST", endpoint))
      #expect(stolen?.json?["error"] == "invalid_grant")
      #expect(await refresh(tokens.refresh, client, key.proof("POST", endpoint))?.json?["token_type"] == "DPoP")
    }
  }

  @Test(
    arguments: [
      (["htm": "GET"], [:]), (["htu": "http://127.0.0.1:1/token"], [:]), (["iat": 1], [:]), (["iat": .null], [:]),
      (["jti": .null], [:]), (["htu": .null], [:]), ([:], ["typ": "JWT"]), ([:], ["jwk": .null]),
      ([:], ["alg": "none"]), ([:], ["jwk": ["kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"]]),
      ([:], ["jwk": ["kty": "oct", "k": "AA"]]),
    ] as [([String: DemoServer.JSON], [String: DemoServer.JSON])])
  func aWrongProofIsRefused(_ claims: [String: DemoServer.JSON], _ header: [String: DemoServer.JSON]) async throws {
    try await withServer { server, client in
      let key = TestKey.es256()
      let answer = await exchange(client, key.proof("POST", "\(server.issuer)/token", claims, header: header))
      #expect(answer?.status == 400 && answer?.json?["error"] == "invalid_dpop_proof")
      #expect(server.stats().count(.proofRefused) == 1 && server.stats().count(.proof) == 0)
    }
  }

  @Test func aProofIsGoodOnce() async throws {
    try await withServer { server, client in
      let proof = TestKey.es256().proof("POST", "\(server.issuer)/token")
      #expect(await exchange(client, proof)?.status == 200)
      #expect(await exchange(client, proof)?.json?["error"] == "invalid_dpop_proof")
      #expect(server.stats().count(.replay) == 1)
    }
  }

  @Test func aConfidentialClientsRefreshTokenIsNotBound() async throws {
    try await withServer({ $0.clients = [.init(id: "demo", secret: "s")] }) { server, client in
      let code = await client.code()
      let fields = ["code": code, "redirect_uri": client.redirectURI, "client_secret": "s"]
      let answer = await client.token(
        "authorization_code", fields.merging(["code_verifier": TestClient.verifier]) { $1 },
        headers: TestKey.es256().proof("POST", "\(server.issuer)/token"))
      #expect(answer?.json?["token_type"] == "DPoP")
      let again = await client.token("refresh_token", ["refresh_token": Tokens(answer).refresh, "client_secret": "s"])
      #expect(again?.json?["token_type"] == "Bearer")
    }
  }

  @Test func aNonceIsDemandedAtTheTokenEndpointAndAtTheResource() async throws {
    try await withServer({ $0.settings.dpop.nonce = .both }) { server, client in
      let key = TestKey.es256()
      let endpoint = "\(server.issuer)/token"
      let url = "\(server.issuer)/resource"
      let refused = await exchange(client, key.proof("POST", endpoint))
      #expect(refused?.status == 400 && refused?.json?["error"] == "use_dpop_nonce")
      let nonce = refused?.header("dpop-nonce")
      let tokens = Tokens(await exchange(client, key.proof("POST", endpoint, nonce: nonce)))
      let demanded = await resource(tokens.access, client, key.proof("GET", url, token: tokens.access))
      #expect(demanded?.status == 401 && demanded?.header("dpop-nonce") == nonce)
      #expect(demanded?.header("www-authenticate")?.contains("DPoP realm=\"demo\", error=\"use_dpop_nonce\"") == true)
      let proof = key.proof("GET", url, token: tokens.access, nonce: nonce)
      #expect(await resource(tokens.access, client, proof)?.status == 200)
      server.rotateNonce()
      let stale = await refresh(tokens.refresh, client, key.proof("POST", endpoint, nonce: nonce))
      #expect(stale?.json?["error"] == "use_dpop_nonce")
      let newer = stale?.header("dpop-nonce")
      #expect(newer != nonce)
      #expect(await refresh(tokens.refresh, client, key.proof("POST", endpoint, nonce: newer))?.status == 200)
      #expect(server.stats().count(.nonceRefused) == 3 && server.stats().count(.proof) == 3)
    }
  }

  @Test func aNonceMayBeGoodOnceWithTheNextInEachAnswer() async throws {
    try await withServer({
      $0.settings.dpop.nonce = .token
      $0.settings.dpop.nonceRotation = .eachUse
    }) { server, client in
      let key = TestKey.es256()
      let endpoint = "\(server.issuer)/token"
      let first = await exchange(client, key.proof("POST", endpoint))?.header("dpop-nonce")
      let answer = await exchange(client, key.proof("POST", endpoint, nonce: first))
      #expect(answer?.status == 200)
      let again = await refresh(Tokens(answer).refresh, client, key.proof("POST", endpoint, nonce: first))
      #expect(again?.json?["error"] == "use_dpop_nonce")
      let next = answer?.header("dpop-nonce")
      #expect(await refresh(Tokens(answer).refresh, client, key.proof("POST", endpoint, nonce: next))?.status == 200)
    }
  }

  @Test func theNonceMayBeMissingWhereItIsDemanded() async throws {
    try await withServer({ $0.settings.dpop.nonce = .token }) { server, client in
      try server.fault(.noNonceHeader, at: .tokenCode, times: 1)
      let proof = TestKey.es256().proof("POST", "\(server.issuer)/token")
      let refused = await exchange(client, proof)
      #expect(refused?.json?["error"] == "use_dpop_nonce" && refused?.header("dpop-nonce") == nil)
    }
  }

  @Test func proofsAreRequiredOrIgnoredWhereASettingSaysSo() async throws {
    try await withServer { server, client in
      let key = TestKey.es256()
      server.changeSettings { $0.dpop.mode = .required }
      #expect(await exchange(client, [:])?.json?["error"] == "invalid_dpop_proof")
      server.changeSettings { $0.dpop.mode = .ignored }
      let answer = await exchange(client, key.proof("POST", "\(server.issuer)/token"))
      #expect(answer?.json?["token_type"] == "Bearer")
      let metadata = await client.send(.GET, "/.well-known/openid-configuration")?.json
      #expect(metadata?["issuer"] != nil && metadata?["dpop_signing_alg_values_supported"] == nil)
    }
  }

  @Test func aCodeIsBoundToTheKeyThatTheRequestNames() async throws {
    try await withServer { server, client in
      let key = TestKey.es256()
      let pushed = await client.send(
        .POST, "/par", form: client.authorizationRequest(), headers: key.proof("POST", "\(server.issuer)/par"))
      let query = ["client_id": "demo", "request_uri": pushed?.json?["request_uri"]?.string ?? ""]
      let code = await client.send(.GET, "/authorize?" + TestClient.encode(query))?.callback["code"]
      let fields = ["code": code, "redirect_uri": client.redirectURI, "code_verifier": TestClient.verifier]
      let proof = TestKey.es256().proof("POST", "\(server.issuer)/token")
      #expect(await client.token("authorization_code", fields, headers: proof)?.json?["error"] == "invalid_grant")
    }
  }
}
