import Testing

@testable import CredentialHelpers

@Suite struct GoogleExecutableTests {
  private static let jwt = IssuedToken(text: "eyJh.b.c", expiresAt: 9)

  @Test("the token's account is that of Google's STS, or named") func requests() throws {
    #expect(try request(GoogleExecutable.self, [], "") == token("https://sts.googleapis.com"))
    let call = Invocation(arguments: [], account: "work")
    #expect(try GoogleExecutable(call, input: []).request == token("https://sts.googleapis.com", account: "work"))
  }

  @Test("the answer has the type that was asked for") func theAnswer() throws {
    for type in ["urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"] {
      #expect(
        try answer(GoogleExecutable.self, [], "", Self.jwt, environment: ["GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE": type])
          == "{\"version\":1,\"success\":true,\"token_type\":\"\(type)\",\"id_token\":\"eyJh.b.c\",\"expiration_time\":9}\n"
      )
    }
  }

  @Test("other types, and tokens that are no JWT, are refused") func refused() {
    let saml = ["GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE": "urn:ietf:params:oauth:token-type:saml2"]
    #expect(throws: Malformed.self) { try request(GoogleExecutable.self, [], "", environment: saml) }
    for text in ["ya29.x", "a.b.c", "eyJ.b", "eyJ..c", "eyJ.b.c.d"] {
      #expect(throws: Malformed.self) { try answer(GoogleExecutable.self, [], "", .init(text: text)) }
    }
  }

  @Test("a failure is an answer of the protocol, with status 0") func refusal() {
    let reply = GoogleExecutable.refusal(Problem("x"), Invocation(arguments: []))
    #expect(reply == Reply(text: "{\"version\":1,\"success\":false,\"code\":\"grantd\",\"message\":\"x\"}\n"))
  }
}
