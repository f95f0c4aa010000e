import Foundation
import Testing

@testable import OAuth

@Suite("A server that repeats the request")
struct EchoTests {
  static let endpoint = URL(string: "https://id.example/token")!

  private func request(
    _ body: String, headers: [HTTPRequest.Header] = [], purpose: HTTPRequest.Purpose = .token
  ) -> HTTPRequest {
    HTTPRequest(purpose: purpose, method: "POST", url: Self.endpoint, headers: headers, body: Data(body.utf8))
  }

  private func answer(_ body: String, to request: HTTPRequest, status: Int = 400) -> String {
    let response = HTTPResponse(status: status, body: Data(body.utf8)).withoutEchoes(of: request)
    return String(decoding: response.body, as: UTF8.self)
  }

  @Test(
    "Each secret of a request goes from its error, however it is written",
    arguments: [
      ("refresh_token=rt%2Fsecret%2B1", "rt/secret+1"), ("refresh_token=rt%2Fsecret%2B1", "rt\\/secret+1"),
      ("refresh_token=rt%2Fsecret%2B1", "rt%2Fsecret%2B1"), ("grant_type=x&code=code-1234", "code-1234"),
      ("client_secret=secret-1234", "secret-1234"), ("client_assertion=a.b.c-1234", "a.b.c-1234"),
      ("{\"device_code\":\"device-1234\"}", "device-1234"), ("password=p%C3%A4ssword", "pässword"),
    ])
  func bodies(body: String, echoed: String) {
    let said = "{\"error\":\"invalid_grant\",\"error_description\":\"\(echoed) and \(echoed) is over\"}"
    #expect(
      answer(said, to: request(body))
        == "{\"error\":\"invalid_grant\",\"error_description\":\"(redacted) and (redacted) is over\"}")
  }

  @Test(
    "a resource's answer has the token in no common escape",
    arguments: [
      "tok/en+1==", "tok%2Fen%2B1%3D%3D", "tok%2fen%2b1%3d%3d", "tok\\u002fen\\u002b1\\u003d\\u003d",
      "tok\\u002Fen\\u002B1\\u003D\\u003D", "tok&#x2F;en&#x2B;1&#x3D;&#x3D;", "tok&#47;en&#43;1&#61;&#61;",
    ])
  func escapes(_ echoed: String) {
    let request = request("", headers: [.init("Authorization", "Bearer tok/en+1==")], purpose: .resource)
    #expect(answer("<\(echoed)>", to: request, status: 200) == "<(redacted)>")
  }

  @Test("nor in UTF-16, with or without a charset")
  func utf16() {
    let request = request("", headers: [.init("Authorization", "Bearer tok/en+1==")], purpose: .resource)
    for isLittle in [true, false] {
      let units = Array("\u{FEFF}a tok/en+1== b".utf16)
      let bytes = units.flatMap { isLittle ? [UInt8($0 & 0xFF), UInt8($0 >> 8)] : [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
      let response = HTTPResponse(status: 200, body: Data(bytes)).withoutEchoes(of: request)
      let text = response.body.filter { $0 != 0 }
      #expect(!String(decoding: text, as: UTF8.self).contains("tok/en"))
    }
  }

  @Test("several Content-Encoding headers are read together")
  func codings() {
    let response = HTTPResponse(
      status: 200, headers: [.init("Content-Encoding", "identity"), .init("content-encoding", "br")],
      body: Data("x".utf8))
    #expect(response.unsearchable != nil)
    #expect(HTTPResponse.unsearchable(status: 200, coding: "identity, identity", type: nil) == nil)
    #expect(HTTPResponse.unsearchable(status: 200, coding: "identity,gzip", type: nil) != nil)
  }

  @Test("So do credentials of the headers")
  func headers() {
    let basic = Data("id:se%2Fcret-1".utf8).base64EncodedString()
    let request = request(
      "", headers: [.init("authorization", "Basic \(basic)"), .init("DPoP", "proof.of.it")])
    #expect(
      answer("se/cret-1 se%2Fcret-1 \(basic) proof.of.it", to: request).filter { $0 != " " }
        == String(repeating: "(redacted)", count: 4))
    let bearer = self.request("", headers: [.init("Authorization", "Bearer at-12345")], purpose: .userinfo)
    #expect(answer("no at-12345", to: bearer, status: 401) == "no (redacted)")
  }

  @Test("Cookies too, and members within the objects of a body")
  func cookies() {
    let request = request("", headers: [.init("Cookie", "short=1; session=session-1234; last=cookie-1234")])
    #expect(answer("no session-1234, no cookie-1234, 1", to: request) == "no (redacted), no (redacted), 1")
    let nested = self.request(
      #"{"validators":{"token_exchange":"state-key-1"},"attributes":{"city":"Atlantis-1"}}"#, purpose: .registration)
    #expect(answer("state-key-1 of Atlantis-1", to: nested) == "(redacted) of Atlantis-1")
  }

  @Test("A caller's headers to a resource are unchanged, except for the broker's credentials")
  func resources() {
    let request = request(
      #"{"code":"chosen-code"}"#, headers: [.init("Authorization", "Bearer token-1234")], purpose: .resource)
    #expect(answer("chosen-code is taken, token-1234", to: request) == "chosen-code is taken, (redacted)")
  }

  @Test("Texts with tokens are redacted, and texts without secrets are unchanged")
  func untouched() {
    let same = "{\"access_token\":\"a\",\"refresh_token\":\"refresh-1\"}"
    #expect(answer(same, to: request("refresh_token=refresh-1"), status: 200) == same)
    #expect(
      answer("{\"error\":\"refresh-1\"}", to: request("refresh_token=refresh-1"), status: 200).contains("redacted"))
    #expect(
      answer("scope-1234 of client-1234", to: request("scope=scope-1234&client_id=client-1234")).hasPrefix("scope-1234")
    )
    // Too short to be told from words.
    #expect(answer("an error", to: request("code=error")) == "an error")
  }
}
