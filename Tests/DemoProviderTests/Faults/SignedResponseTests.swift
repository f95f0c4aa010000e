import DemoProvider
import Foundation
import Testing

@Suite struct SignedResponseTests {
  private func response(_ answer: Answer?) -> String { answer?.callback["response"] ?? "" }

  private typealias Shows = @Sendable (DemoServer.JSON) -> Bool

  private static let flaws: [(kind: DemoServer.Fault.Kind, shows: Shows)] = [
    (.wrongIss, { $0["iss"] == "http://wrong-issuer.example" }),
    (.missingIss, { $0["iss"] == nil }),
    (.wrongAudience, { $0["aud"] == "another-client" }),
    (.expired, { ($0["exp"]?.number ?? .infinity) < TestClock.now.timeIntervalSince1970 }),
    (.claimAbsent, { $0["exp"] == nil }),
    (.wrongState, { $0["state"] == "wrong-state" }),
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

  @Test func userinfoMayBeSignedAndWrong() async throws {
    try await withServer({ $0.settings.resource.userinfoSigned = true }) { server, client in
      let token = await client.signIn(user: "bob").access
      func look(_ fault: DemoServer.Fault.Kind?) async throws -> String {
        if let fault { try server.fault(fault, at: .userinfo, times: 1) }
        let answer = try #require(await client.userinfo(token))
        #expect(answer.header("content-type") == "application/jwt")
        return answer.body ?? ""
      }
      let good = try await look(nil)
      #expect(await client.verifies(good))
      let claims = try #require(JWT.part(1, of: good))
      #expect(claims["iss"] == .string(server.issuer) && claims["aud"] == "demo" && claims["sub"] == "sub-bob")
      for fault in [DemoServer.Fault.Kind.algNone, .badSignature, .unknownKid, .algHS256] {
        #expect(await client.verifies(try await look(fault)) == false)
      }
      #expect(JWT.part(1, of: try await look(.wrongIssuer))?["iss"] == "http://wrong-issuer.example")
      #expect(JWT.part(1, of: try await look(.wrongAudience))?["aud"] == "another-client")
    }
  }
}
