import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Token exchange (RFC 8693)", .atMost)
struct ExchangeTests {
  private static let types = "urn:ietf:params:oauth:token-type:"

  private static func exchange(
    _ rig: Rig, _ change: (inout TokenExchange.Params) -> Void = { _ in }
  ) async throws -> TokenExchange.Result {
    var params = TokenExchange.Params(account: "alice")
    change(&params)
    return try await rig.client.call(TokenExchange.self, params, timeout: .seconds(60))
  }

  @Test("52. an account's token is exchanged for one for an audience, and nothing of it is kept")
  func audience() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let own = try await rig.token()
      let before = try await rig.account()
      let issued = try await Self.exchange(rig) {
        $0.audience = ["reports"]
        $0.resource = ["https://api.example/one", "https://api.example/two"]
        $0.scopes = ["email"]
      }
      #expect(issued.issued_token_type == Self.types + "access_token" && issued.token_type == "Bearer")
      #expect(issued.scope == ["email"])
      #expect((290...300).contains(issued.expires_in ?? 0))
      #expect(issued.access_token != own.access_token)
      let seen = try await ResourceAnswer.get(rig.demo, token: issued.access_token)
      #expect(seen.status == 200 && seen.scopes == ["email"])
      #expect(
        seen.body?["resources"]
          == ["https://api.example/one", "https://api.example/two", "urn:audience:reports"])
      let request = try #require(rig.requests(.tokenExchange).first)
      #expect(request.parameters["subject_token"] == own.access_token)
      #expect(request.parameters["subject_token_type"] == Self.types + "access_token")
      #expect(request.parameters["actor_token_type"] == nil && request.parameters["requested_token_type"] == nil)
      #expect(request.names.filter { $0 == "resource" }.count == 2)
      // The account is as it was, and the next one is another.
      #expect(try await rig.token() == own)
      #expect(try await rig.account() == before)
      #expect(try await Self.exchange(rig) { $0.audience = ["reports"] }.access_token != issued.access_token)
      #expect(!rig.log.contains(issued.access_token))
    }
  }

  @Test("52. `token_type` may be `N_A`: the issued token is not an access token")
  func notApplicable() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let issued = try await Self.exchange(rig) { $0.requested_token_type = Self.types + "jwt" }
      #expect(issued.token_type == "N_A" && issued.issued_token_type == Self.types + "jwt")
      #expect(jwtPart(1, of: issued.access_token)?["sub"]?.string == "sub-alice")
      let (status, said) = try await Programs.run(
        Programs.grantctl,
        ["exchange", "alice", "--requested-token-type", "jwt", "--as-header", "--socket", rig.socket], in: rig.folder)
      #expect(status != 0 && said.contains("not an access token"), "\(said)")
    }
  }

  @Test("52. `issued_token_type` is required: an answer without it is an error, and its token goes nowhere")
  func noIssuedTokenType() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let own = try await rig.token()
      try rig.demo.fault(.noIssuedTokenType, at: .tokenExchange, times: 1)
      let error = try await rig.failure("token.exchange", ["account": "alice", "audience": ["reports"]])
      #expect(error.reason == .providerError, "\(error)")
      #expect(error.message.contains("issued_token_type"))
      #expect(try await rig.token() == own)
      #expect(try await rig.account().state == .ok)
      #expect(try await Self.exchange(rig).issued_token_type == Self.types + "access_token")
    }
  }

  @Test("52. an actor token goes with its type")
  func actor() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try await rig.login("bob")
      _ = try await Self.exchange(rig) { $0.actor = "bob" }
      let request = try #require(rig.requests(.tokenExchange).first)
      #expect(request.parameters["actor_token"] == (try await rig.token("bob").access_token))
      #expect(request.parameters["actor_token_type"] == Self.types + "access_token")
    }
  }

  @Test(
    "a refusal is reported with the provider's text, and stops no account",
    arguments: [
      ("invalid_target", ErrorReason.scopeNotGranted), ("invalid_scope", .scopeNotGranted),
      ("unsupported_grant_type", .unsupportedByProvider), ("temporarily_unavailable", .temporarilyUnavailable),
      ("invalid_request", .providerError),
    ])
  func refused(code: String, reason: ErrorReason) async throws {
    try await Rig.with { rig in
      try await rig.login()
      let own = try await rig.token()
      try rig.demo.fault(.oauthError, at: .tokenExchange) {
        $0.error = code
        $0.errorDescription = "not for you"
      }
      let error = try await rig.failure("token.exchange", ["account": "alice", "audience": ["reports"]])
      #expect(error.reason == reason && error.oauth?.error == code, "\(error)")
      #expect(error.message.contains("not for you") && error.hint?.isEmpty == false)
      #expect(try await rig.account().state == .ok)
      #expect(try await rig.reject(own.generation).refreshed)
    }
  }

  @Test("a target that is none is refused before anything is sent, and an account without a grant has nothing to trade")
  func impossible() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let error = try await rig.failure("token.exchange", ["account": "alice", "resource": ["https://a.example/#b"]])
      #expect(error.code == RPCError.invalidParams("").code)
      #expect(try await rig.failure("token.exchange", ["account": "carol"]).reason == .unknownAccount)
      #expect(
        try await rig.failure("token.exchange", ["account": "alice", "actor": "carol"]).reason == .unknownAccount)
      let generation = try await rig.token().generation
      try rig.demo.revoke(user: "alice")
      _ = try await rig.failure("token.report_rejected", ["account": "alice", "generation": .integer(generation)])
      #expect(try await rig.failure("token.exchange", ["account": "alice"]).reason == .loginRequired)
      #expect(rig.count(.tokenExchange) == 0)
    }
  }

  @Test("grantctl exchange prints the bare token")
  func commandLine() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let (status, said) = try await Programs.run(
        Programs.grantctl, ["exchange", "alice", "--audience", "reports", "--scope", "email", "--socket", rig.socket],
        in: rig.folder)
      #expect(status == 0, "\(said)")
      let token = said.trimmingCharacters(in: .newlines)
      #expect(token.split(whereSeparator: \.isWhitespace).count == 1)
      #expect(try await ResourceAnswer.get(rig.demo, token: token).scopes == ["email"])
    }
  }
}
