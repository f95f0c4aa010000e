import Testing

@testable import CredentialHelpers

@Suite struct SASLTests {
  @Test(
    "the response is that of the mechanism",
    arguments: [
      (SASL.xoauth2, "ada@example.com", nil, nil, "user=ada@example.com\u{1}auth=Bearer T\u{1}\u{1}"),
      (.xoauth2, "ada", "imap.example.com", 993, "user=ada\u{1}auth=Bearer T\u{1}\u{1}"),
      (.oauthbearer, "ada@example.com", nil, nil, "n,a=ada@example.com,\u{1}auth=Bearer T\u{1}\u{1}"),
      (
        .oauthbearer, "a,b=c", "imap.example.com", 993,
        "n,a=a=2Cb=3Dc,\u{1}host=imap.example.com\u{1}port=993\u{1}auth=Bearer T\u{1}\u{1}"
      ),
    ] as [(SASL, String, String?, Int?, String)])
  func theResponse(mechanism: SASL, user: String, host: String?, port: Int?, text: String) throws {
    let bytes = try mechanism.response(user: user, token: "T", host: host, port: port)
    #expect(String(decoding: bytes, as: UTF8.self) == text)
  }

  @Test("nothing can end a part early") func controls() {
    for (user, token, host) in [("a\u{1}auth=x", "T", "h"), ("a", "T\n", "h"), ("a", "T", "h\u{1}")] {
      #expect(throws: Malformed.self) { try SASL.oauthbearer.response(user: user, token: token, host: host) }
    }
  }
}
