import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct SignedResponseTests {
  private func response(_ answer: Answer?) -> String { answer?.callback["response"] ?? "" }

  @Test(arguments: ["jwt", "query.jwt"])
  func aResponseIsSignedWhereThatIsAsked(_ mode: String) async throws {
    try await withServer { server, client in
      let answer = await client.authorize(["response_mode": mode])
      #expect(Set(answer?.callback.keys.map { $0 } ?? []) == ["response"])
      let claims = try #require(JWT.part(1, of: response(answer)))
      #expect(await client.verifies(response(answer)))
      #expect(claims["iss"] == .string(server.issuer) && claims["aud"] == "demo" && claims["state"] == "state-1")
      #expect((claims["exp"]?.number ?? 0) > TestClock.now.timeIntervalSince1970)
      #expect(await client.exchange(claims["code"]?.string ?? "")?.status == 200)
      let refused = await client.authorize(["response_mode": mode, "login_hint": "deny"])
      #expect(JWT.part(1, of: response(refused))?["error"] == "access_denied")
      #expect(server.stats().count(.signedResponse) == 2)
    }
  }

  private struct Flaw: Sendable {
    var kind: DemoServer.Fault.Kind
    var shows: @Sendable (DemoServer.JSON) -> Bool
  }

  private static let flaws: [Flaw] = [
    Flaw(kind: .wrongIss) { $0["iss"] == "http://wrong-issuer.example" },
    Flaw(kind: .missingIss) { $0["iss"] == nil },
    Flaw(kind: .wrongAudience) { $0["aud"] == "another-client" },
    Flaw(kind: .expired) { ($0["exp"]?.number ?? .infinity) < TestClock.now.timeIntervalSince1970 },
    Flaw(kind: .claimAbsent) { $0["exp"] == nil },
    Flaw(kind: .wrongState) { $0["state"] == "wrong-state" },
  ]

  @Test(arguments: flaws.indices) func aSignedResponseMayBeWrong(_ index: Int) async throws {
    let flaw = Self.flaws[index]
    try await withServer { server, client in
      try server.fault(flaw.kind, at: .authorize, times: 1) { if flaw.kind == .claimAbsent { $0.value = "exp" } }
      let answer = response(await client.authorize(["response_mode": "jwt"]))
      #expect(flaw.shows(try #require(JWT.part(1, of: answer))))
      #expect(await client.verifies(answer))
    }
  }

  @Test(arguments: [DemoServer.Fault.Kind.algNone, .algHS256, .badSignature, .unknownKid])
  func aSignatureMayBeWrong(_ kind: DemoServer.Fault.Kind) async throws {
    try await withServer { server, client in
      try server.fault(kind, at: .authorize, times: 1)
      let answer = response(await client.authorize(["response_mode": "jwt"]))
      #expect(JWT.part(1, of: answer) != nil)
      #expect(await client.verifies(answer) == false)
    }
  }

  @Test func aPlainResponseMayComeWhereASignedOneWasAsked() async throws {
    try await withServer { server, client in
      try server.fault(.plainResponse, at: .authorize, times: 1)
      let callback = await client.authorize(["response_mode": "jwt"])?.callback
      #expect(callback?["code"] != nil && callback?["response"] == nil)
      #expect(await client.authorize(["response_mode": "fragment.jwt"])?.callback["error"] == "invalid_request")
    }
  }
}
