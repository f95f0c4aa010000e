import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct LogoutTokenTests {
  /// The token that the client got. Another server stands for the client: any endpoint that answers a post will do.
  private func logout(
    _ client: TestClient, to other: DemoServer, _ body: [String: DemoServer.JSON] = [:]
  ) async throws -> String {
    let request: DemoServer.JSON = ["url": .string("\(other.issuer)/revoke?a=b")]
    _ = await client.send(.POST, "/_control/backchannel_logout", json: request.merging(body))
    return try #require(other.requests.last?.parameters["logout_token"])
  }

  private typealias Shows = @Sendable (_ header: DemoServer.JSON, _ claims: DemoServer.JSON) -> Bool
  private typealias Flaw = DemoServer.Logout.Flaw

  private static let now = TestClock.now.timeIntervalSince1970
  private static let cases: [(flaw: Flaw, shows: Shows)] = [
    (.wrongIssuer, { $1["iss"] == "http://wrong-issuer.example" }),
    (.wrongAudience, { $1["aud"] == "another-client" }),
    (.wrongSubject, { $1["sub"] == "sub-somebody" }),
    (.expired, { ($1["exp"]?.number ?? .infinity) < now }),
    (.noExpiry, { $1["exp"] == nil }),
    (.issuedLater, { ($1["iat"]?.number ?? 0) > now + 3000 }),
    (.nonce, { $1["nonce"] != nil }),
    (.noEvents, { $1["events"] == nil }),
    (.wrongEvent, { $1["events"] == ["http://schemas.openid.net/event/other": [:]] }),
    (.noSubjectNoSession, { $1["sub"] == nil && $1["sid"] == nil }),
    (.noSubject, { $1["sub"] == nil && $1["sid"] != nil }),
    (.noSession, { $1["sid"] == nil && $1["sub"] != nil }),
    (.noIdentifier, { $1["jti"] == nil }),
    (.algNone, { header, _ in header["alg"] == "none" }),
    (.algHS256, { header, _ in header["alg"] == "HS256" }),
    (.unknownKid, { header, _ in header["kid"] == "key-unknown" }),
    (.wrongType, { header, _ in header["typ"] == "at+jwt" }),
  ]

  @Test(arguments: cases.indices) func aLogoutTokenMayBeFlawed(_ index: Int) async throws {
    let flawed = Self.cases[index]
    try await withServer { server, client in
      _ = await client.signIn()
      for (flaws, shows) in [([], false), ([flawed.flaw], true)] as [(Set<Flaw>, Bool)] {
        let token = try await server.sendLogout(.init(to: "\(server.issuer)/jwks", flaws: flaws)).token
        let header = try #require(JWT.part(0, of: token))
        let claims = try #require(JWT.part(1, of: token))
        #expect(flawed.shows(header, claims) == shows, "\(flawed.flaw)")
      }
    }
  }

  @Test func aLogoutTokenMayBeReplayedOrBadlySigned() async throws {
    try await withServer { _, client in
      _ = await client.signIn()
      try await withServer { other, _ in
        let first = try await logout(client, to: other)
        let second = try await logout(client, to: other, ["flaws": ["replayed_jti"]])
        #expect(JWT.part(1, of: second)?["jti"] == JWT.part(1, of: first)?["jti"])
        #expect(try await logout(client, to: other, ["logout_token": .string(first)]) == first)
        let bad = try await logout(client, to: other, ["flaws": ["bad_signature"]])
        #expect(await client.verifies(bad) == false)
      }
    }
  }
}
