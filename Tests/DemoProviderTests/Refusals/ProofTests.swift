import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct ProofTests {
  private func refresh(_ token: String, _ client: TestClient, _ headers: [String: String]) async -> Answer? {
    await client.token("refresh_token", ["refresh_token": token], headers: headers)
  }

  private func resource(
    _ token: String, _ client: TestClient, _ headers: [String: String], scheme: String = "DPoP"
  ) async -> Answer? {
    await client.send(.GET, "/resource?a=b", headers: headers.merging(["Authorization": "\(scheme) \(token)"]) { $1 })
  }

  @Test func aTokenIsBoundToTheKeyThatProvesItself() async throws {
    let key = TestKey()
    try await withServer { server, client in
      let endpoint = "\(server.issuer)/token"
      let url = "\(server.issuer)/resource"
      let answer = await Refusal.prove(client, key.proof("POST", endpoint))
      #expect(answer?.json?["token_type"] == "DPoP")
      let tokens = Tokens(answer)
      #expect(
        await resource(tokens.access, client, key.proof("GET", url, token: tokens.access))?.json?["bound"] == true)
      #expect(server.stats().grants.first?.isBound == true)
      let other = TestKey()
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

  @Test func aNonceIsDemandedAtTheTokenEndpointAndAtTheResource() async throws {
    try await withServer({ $0.settings.dpop.nonce = .both }) { server, client in
      let key = TestKey()
      let endpoint = "\(server.issuer)/token"
      let url = "\(server.issuer)/resource"
      let refused = await Refusal.prove(client, key.proof("POST", endpoint))
      #expect(refused?.status == 400 && refused?.json?["error"] == "use_dpop_nonce")
      let nonce = refused?.header("dpop-nonce")
      let tokens = Tokens(await Refusal.prove(client, key.proof("POST", endpoint, nonce: nonce)))
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

  @Test func theNonceMayBeMissingWhereItIsDemanded() async throws {
    try await withServer({ $0.settings.dpop.nonce = .token }) { server, client in
      try server.fault(.noNonceHeader, at: .tokenCode, times: 1)
      let proof = TestKey().proof("POST", "\(server.issuer)/token")
      let refused = await Refusal.prove(client, proof)
      #expect(refused?.json?["error"] == "use_dpop_nonce" && refused?.header("dpop-nonce") == nil)
    }
  }
}
