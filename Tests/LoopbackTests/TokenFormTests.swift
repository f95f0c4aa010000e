import BrokerAPI
import HTTPServer
import NIOCore
import Principals
import Testing

@testable import Loopback

@Suite struct TokenFormTests {
  /// RFC 8693 §2.1.
  private static func exchange(_ subject: String) -> String {
    "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=\(subject)"
      + "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Arefresh_token"
  }

  private func outcome(_ form: String, _ authorization: String? = nil) -> Result<TokenForm, TokenRefusal> {
    Result { () throws(TokenRefusal) in try TokenForm(form: form, authorization: authorization) }
  }

  private func code(_ form: String, _ authorization: String? = nil) -> TokenRefusal.Code? {
    if case .failure(let refusal) = outcome(form, authorization) { refusal.code } else { nil }
  }

  @Test(
    "The handle is the client id, or the refresh token",
    arguments: [
      ("grant_type=client_credentials&client_id=work", nil, "work"),
      ("grant_type=client_credentials&client_id=me%40example.com&client_secret=x", nil, "me@example.com"),
      ("grant_type=client_credentials", "Basic d29yazp4", "work"),
      ("grant_type=client_credentials&client_id=work", "basic d29yazo=", "work"),
      // `me%40example.com:x` and `a+b:x`: encoded as RFC 6749 has it, and not.
      ("grant_type=client_credentials", "Basic bWUlNDBleGFtcGxlLmNvbTp4", "me@example.com"),
      ("grant_type=client_credentials", "Basic YStiOng=", "a+b"),
      ("grant_type=refresh_token&refresh_token=work&client_id=x&client_secret=y", nil, "work"),
      ("grant_type=refresh_token&refresh_token=work", "Basic eDp5", "work"),
    ] as [(String, String?, String)])
  func handles(_ form: String, _ authorization: String?, _ handle: String) throws {
    #expect(try outcome(form, authorization).get() == TokenForm(handle: handle))
  }

  @Test("Scopes and the resource are the client's")
  func wishes() throws {
    let request = try outcome("grant_type=client_credentials&client_id=w&scope=a+b&resource=https%3A%2F%2Fx").get()
    #expect(request == TokenForm(handle: "w", scopes: ["a", "b"], resource: "https://x"))
    #expect(try outcome("grant_type=client_credentials&client_id=w&scope=").get().scopes == nil)
    #expect(try outcome("grant_type=client_credentials&client_id=w&scope=+").get().scopes == nil)
  }

  @Test(
    "An invalid request is refused with the codes of RFC 6749",
    arguments: [
      ("", .invalidRequest), ("grant_type=", .invalidRequest),
      ("grant_type=password&username=u", .unsupportedGrantType),
      ("grant_type=authorization_code&code=c", .unsupportedGrantType),
      ("grant_type=client_credentials", .invalidRequest), ("grant_type=refresh_token", .invalidRequest),
      ("grant_type=client_credentials&grant_type=client_credentials&client_id=w", .invalidRequest),
      ("grant_type=client_credentials&client_id=a&client_id=b", .invalidRequest),
      ("grant_type=%zz", .invalidRequest), ("grant_type=client_credentials&client_id=%ff", .invalidRequest),
      ("grant_type=client_credentials&client_id=w&scope=a%22b", .invalidScope),
      ("grant_type=client_credentials&client_id=w&scope=a+b%5C", .invalidScope),
      ("grant_type=client_credentials&client_id=w&scope=%C3%A4", .invalidScope),
      (Self.exchange("work") + "&client_id=other", .invalidRequest),
      ("grant_type=client_credentials&client_id=" + String(repeating: "a", count: 129), .invalidClient),
    ] as [(String, TokenRefusal.Code)])
  func refused(_ form: String, _ expected: TokenRefusal.Code) { #expect(code(form) == expected) }

  @Test("The client of a token exchange is the subject, or is left out")
  func exchanges() throws {
    for form in [Self.exchange("work"), Self.exchange("work") + "&client_id=work"] {
      #expect(try outcome(form).get() == TokenForm(handle: "work", exchangesFor: .accessToken))
    }
  }

  @Test("Two clients are none") func twoClients() {
    #expect(code("grant_type=client_credentials&client_id=other", "Basic d29yazp4") == .invalidRequest)
  }

  @Test("An Authorization header that is Basic is one", arguments: ["Basic !", "Basic d29yaw==", "Basic /w=="])
  func badHeaders(_ header: String) {
    #expect(code("grant_type=client_credentials&client_id=w", header) == .invalidRequest)
  }

  @Test("Only a grant that has ended has a client tell its person to sign in")
  func codes() {
    for reason in ErrorReason.allCases {
      let refusal = TokenRefusal(RPCError(reason, "it is so"))
      #expect((refusal.code == .invalidGrant) == (reason == .loginRequired))
      #expect((refusal.retryAfter != nil) == (refusal.code == .temporarilyUnavailable))
      #expect(refusal.description.contains("it is so") && refusal.description.count > 20)
    }
    #expect(TokenRefusal(.invalidRequest, "say \"a\\b\" – ü").safeDescription == "say 'a/b'       ")
  }

  @Test("A token is returned as in RFC 6749, for at most five minutes")
  func replies() throws {
    var token = TokenGet.Result(
      access_token: "t\"k", token_type: "bearer", expires_at: 1, expires_in: 3600, scope: ["a", "b"], account: "w",
      provider: "p", issuer: nil, generation: 1)
    func text(_ life: Int64?) -> String? { TokenReply(token).map { String(buffer: $0.http(expiresIn: life).body) } }
    #expect(
      text(3600) == #"{"access_token":"t\"k","token_type":"Bearer","expires_in":300,"scope":"a b"}"#)
    #expect(text(9)?.contains(#""expires_in":9,"#) == true)
    #expect(text(nil)?.contains(#""expires_in":300,"#) == true)
    token.scope = []
    #expect(text(-1) == #"{"access_token":"t\"k","token_type":"Bearer","expires_in":0}"#)
    let body = CachedReply.Body(head: JSON(encoding: token).serialized(), tail: [])
    let cached = try #require(TokenReply(body))
    #expect(String(buffer: cached.http(expiresIn: 5).body).hasSuffix(#""expires_in":5}"#))
    token.token_type = "DPoP"
    #expect(TokenReply(token) == nil)
  }
}
