import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct LogoutTests {
  /// Another server stands for a client: any endpoint that answers a post will do.
  private func logout(
    _ client: TestClient, to other: DemoServer, _ body: [String: DemoServer.JSON] = [:]
  ) async throws -> (answer: DemoServer.JSON, sent: DemoServer.SeenRequest) {
    let request: DemoServer.JSON = ["url": .string("\(other.issuer)/revoke?a=b")]
    let answer = await client.send(.POST, "/_control/backchannel_logout", json: request.merging(body))
    return (try #require(answer?.json), try #require(other.requests.last))
  }

  @Test func aLogoutTokenIsPostedToTheClient() async throws {
    try await withServer { server, client in
      try await withServer { other, _ in
        _ = await client.signIn(user: "alice")
        let id = await client.signIn(user: "bob").id
        let (answer, sent) = try await logout(client, to: other)
        #expect(answer["status"] == 401 && answer["body"]?.string?.contains("invalid_client") == true)
        #expect(sent.method == "POST" && sent.headers["content-type"] == "application/x-www-form-urlencoded")
        let token = try #require(sent.parameters["logout_token"])
        #expect(answer["logout_token"] == .string(token))
        #expect(await client.verifies(token))
        #expect(JWT.part(0, of: token)?["typ"] == "logout+jwt")
        let claims = try #require(JWT.part(1, of: token))
        #expect(claims["iss"] == .string(server.issuer) && claims["aud"] == "demo" && claims["sub"] == "sub-bob")
        #expect(claims["sid"] != nil && claims["sid"] == JWT.part(1, of: id)?["sid"])
        #expect(claims["events"] == ["http://schemas.openid.net/event/backchannel-logout": [:]])
        #expect(claims["jti"] != nil && claims["nonce"] == nil)
        #expect(server.stats().count(.logoutToken) == 1 && server.stats().liveGrants == 2)
        let first = try await logout(client, to: other, ["grant": 1, "end": true])
        #expect(JWT.part(1, of: first.sent.parameters["logout_token"] ?? "")?["sub"] == "sub-alice")
        #expect(server.stats().grants.map(\.ended) == ["logged out", nil])
      }
    }
  }

  private struct Case: Sendable {
    var flaw: DemoServer.Logout.Flaw
    var shows: @Sendable (_ header: DemoServer.JSON, _ claims: DemoServer.JSON) -> Bool

    init(
      _ flaw: DemoServer.Logout.Flaw, shows: @escaping @Sendable (DemoServer.JSON, DemoServer.JSON) -> Bool
    ) {
      self.flaw = flaw
      self.shows = shows
    }
  }

  private static let now = TestClock.now.timeIntervalSince1970
  private static let cases: [Case] = [
    Case(.wrongIssuer) { $1["iss"] == "http://wrong-issuer.example" },
    Case(.wrongAudience) { $1["aud"] == "another-client" },
    Case(.wrongSubject) { $1["sub"] == "sub-somebody" },
    Case(.expired) { ($1["exp"]?.number ?? .infinity) < now },
    Case(.noExpiry) { $1["exp"] == nil },
    Case(.issuedLater) { ($1["iat"]?.number ?? 0) > now + 3000 },
    Case(.nonce) { $1["nonce"] != nil },
    Case(.noEvents) { $1["events"] == nil },
    Case(.wrongEvent) { $1["events"] == ["http://schemas.openid.net/event/other": [:]] },
    Case(.noSubjectNoSession) { $1["sub"] == nil && $1["sid"] == nil },
    Case(.noSubject) { $1["sub"] == nil && $1["sid"] != nil },
    Case(.noSession) { $1["sid"] == nil && $1["sub"] != nil },
    Case(.noIdentifier) { $1["jti"] == nil },
    Case(.algNone) { header, _ in header["alg"] == "none" },
    Case(.algHS256) { header, _ in header["alg"] == "HS256" },
    Case(.unknownKid) { header, _ in header["kid"] == "key-unknown" },
    Case(.wrongType) { header, _ in header["typ"] == "at+jwt" },
  ]

  @Test(arguments: cases.indices) func aLogoutTokenMayBeFlawed(_ index: Int) async throws {
    let flawed = Self.cases[index]
    try await withServer { server, client in
      _ = await client.signIn()
      for (flaws, shows) in [([], false), ([flawed.flaw], true)] as [(Set<DemoServer.Logout.Flaw>, Bool)] {
        let token = try await server.sendLogout(.init(to: "\(server.issuer)/jwks", flaws: flaws)).token
        let header = try #require(JWT.part(0, of: token))
        let claims = try #require(JWT.part(1, of: token))
        #expect(flawed.shows(header, claims) == shows, "\(flawed.flaw)")
      }
    }
  }

  @Test func aLogoutTokenMayBeReplayedOrBadlySigned() async throws {
    try await withServer { server, client in
      _ = await client.signIn()
      try await withServer { other, _ in
        let first = try await logout(client, to: other).sent.parameters["logout_token"] ?? ""
        let replayed = try await logout(client, to: other, ["flaws": ["replayed_jti"]]).sent
        let second = replayed.parameters["logout_token"] ?? ""
        #expect(JWT.part(1, of: second)?["jti"] == JWT.part(1, of: first)?["jti"])
        let again = try await logout(client, to: other, ["logout_token": .string(first)]).sent
        #expect(again.parameters["logout_token"] == first)
        let bad = try await logout(client, to: other, ["flaws": ["bad_signature"]]).sent
        #expect(await client.verifies(bad.parameters["logout_token"] ?? "") == false)
      }
    }
  }

  @Test func aLogoutThatCannotBeSentIsRefused() async throws {
    try await withServer { server, client in
      let unsent = DemoServer.Logout(to: "\(server.issuer)/jwks")
      await #expect(throws: DemoServer.Misuse.self) { try await server.sendLogout(unsent) }
      _ = await client.signIn()
      for body in [[:], ["url": "http://example.com/"], ["url": "http://127.0.0.1:1/", "flaws": ["odd"]]]
        as [DemoServer.JSON]
      {
        #expect(await client.send(.POST, "/_control/backchannel_logout", json: body)?.status == 400)
      }
      let headers = ["Origin": "http://evil.example"]
      #expect(await client.send(.POST, "/_control/backchannel_logout", json: [:], headers: headers)?.status == 403)
      let answer = try await server.sendLogout(.init(to: "http://127.0.0.1:1/nobody"))
      #expect(answer.status == 0)
    }
  }

  @Test(
    arguments: [
      (false, "access_token", true), (true, "access_token", false), (true, "refresh_token", true), (true, nil, true),
    ] as [(Bool, String?, Bool)])
  func aWrongHintMayLeaveTheTokenAlive(_ isStrict: Bool, _ hint: String?, _ isRevoked: Bool) async throws {
    try await withServer({ $0.settings.logout.strictHint = isStrict }) { server, client in
      let token = await client.signIn().refresh
      var form = ["client_id": "demo", "token": token]
      form["token_type_hint"] = hint
      #expect(await client.send(.POST, "/revoke", form: form)?.status == 200)
      #expect(server.stats().revocations == [.init(kind: "refresh_token", hint: hint, revoked: isRevoked)])
      #expect(await client.refresh(token)?.status == (isRevoked ? 400 : 200))
    }
  }

  @Test(arguments: [false, true]) func theEndOfASessionMayEndTheGrant(_ ends: Bool) async throws {
    try await withServer({ $0.settings.logout.endSessionEndsGrants = ends }) { server, client in
      let other = await client.signIn()
      let tokens = await client.signIn()
      #expect(await client.send(.GET, "/end_session?id_token_hint=\(tokens.id)&state=s")?.status == 200)
      #expect(server.stats().count(.endSession) == 1)
      #expect(await client.refresh(tokens.refresh)?.status == (ends ? 400 : 200))
      #expect(await client.refresh(other.refresh)?.status == 200)
    }
  }
}
