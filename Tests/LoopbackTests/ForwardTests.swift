import FoundationEssentials
import NIOCore
import NIOHTTP1
import OAuth
import TestSupport
import Testing

@testable import Loopback

@Suite struct ForwardTests {
  @Test(
    "The path names the account, and the host if it has one",
    arguments: [
      ("/forward/work/a/b?c", "work", nil, "/a/b?c"), ("/forward/work", "work", nil, "/"),
      ("/forward/work?x", "work", nil, "/?x"), ("/forward/me%40example.com/a", "me@example.com", nil, "/a"),
      ("/forward/a+b/x", "a+b", nil, "/x"), ("/forward/work/@api.example.com/v1", "work", "api.example.com", "/v1"),
      ("/forward/work/@127.0.0.1:80", "work", "127.0.0.1:80", "/"),
      ("/forward/work/@API.example.com?x", "work", "api.example.com", "/?x"),
      ("/forward/work/@types/node", "work", nil, "/@types/node"), ("/forward/work//x", "work", nil, "//x"),
    ] as [(String, String, String?, String)])
  func targets(_ uri: String, _ account: String, _ host: String?, _ target: String) throws {
    let found = try #require(ForwardTarget(uri))
    #expect(found.account == account && found.host == host && found.target == target && found.isPlain)
  }

  @Test(
    "A text without an account is not a target",
    arguments: ["/forward/", "/forward//x", "/forward/%zz/x", "/forward/a%2Fb/x"])
  func noTargets(_ uri: String) { #expect(ForwardTarget(uri) == nil) }

  @Test(
    "A redirect leads through the broker where the token may go, and is dropped elsewhere",
    arguments: [
      ("https://api.example.com/v1/b?c#d", "/forward/work/b?c#d"), ("b", "/forward/work/a/b"),
      ("/v1", "/forward/work"), ("/v2/x", "/forward/work/@api.example.com:443/v2/x"),
      ("https://other.example.com:8443", "/forward/work/@other.example.com:8443/"),
      ("https://api.example.com.evil.example/v1/b", nil), ("https://evil.example/v1/b", nil), ("//evil.example/", nil),
      ("http://api.example.com/v1/b", nil), ("https://api.example.com:8443/v1", nil),
      ("https://me@api.example.com/v1/b", nil), ("https://api.example.com\\@evil.example/", nil), ("/v1/a b", nil),
      ("javascript:x", nil),
    ] as [(String, String?)])
  func redirects(_ location: String, _ expected: String?) throws {
    let target = try #require(ForwardTarget("/forward/work/a/x"))
    let base = try #require(URL(string: "https://api.example.com/v1"))
    let requested = try #require(URL(string: "https://api.example.com/v1/a/x"))
    let origins: Set = ["https://api.example.com:443", "https://other.example.com:8443"]
    #expect(target.redirect(location, of: requested, base: base, origins: origins) == expected)
  }

  @Test("a path that a server could read as another one is not plain", arguments: ["", "?x=1"])
  func steps(_ query: String) throws {
    for path in RequestPaths.ambiguous {
      #expect(try #require(ForwardTarget("/forward/work" + path + query)).isPlain == false, "\(path)")
    }
    for path in RequestPaths.emptySteps + RequestPaths.plain + RequestPaths.verbatim {
      #expect(try #require(ForwardTarget("/forward/work" + path + query)).isPlain, "\(path)")
    }
  }

  @Test(
    "headers of the connection, credentials and overrides of the request are not passed on, in any spelling",
    arguments: RequestHeaders.refused)
  func requestHeaders(_ name: String) {
    for name in RequestHeaders.spellings(of: name) {
      let headers: HTTPHeaders = ["Accept": "a/b", name: "x", "Last-Event-ID": "7"]
      #expect(ForwardHeaders.request(headers).map(\.name) == ["Accept", "Last-Event-ID"], "\(name)")
    }
  }

  @Test("others are, unless Connection names them", arguments: RequestHeaders.allowed)
  func otherHeaders(_ name: String) {
    for name in RequestHeaders.spellings(of: name) {
      #expect(ForwardHeaders.request([name: "1", "Connection": "close"]).map(\.name) == [name])
      for list in [name, name.uppercased(), "keep-alive, \(name)", "\(name),x"] {
        #expect(ForwardHeaders.request(["Connection": list, name: "1"]).isEmpty, "\(list)")
      }
    }
  }

  @Test(
    "the body is framed by its length, also an empty one if the method usually has one",
    arguments: [
      ("GET", nil, "Transfer-Encoding: chunked"), ("POST", nil, "Transfer-Encoding: chunked"), ("GET", 0, nil),
      ("DELETE", 0, nil), ("POST", 0, "Content-Length: 0"), ("PUT", 0, "Content-Length: 0"),
      ("PATCH", 0, "Content-Length: 0"), ("GET", 7, "Content-Length: 7"), ("POST", 7, "Content-Length: 7"),
    ] as [(String, Int?, String?)])
  func framing(_ method: String, _ length: Int?, _ expected: String?) {
    #expect(ForwardHeaders.framing(method, bodyLength: length).map { "\($0.name): \($0.value)" } == expected)
  }

  @Test("Cookies and challenges stay here, and everything else goes to the client")
  func answerHeaders() {
    let headers: HTTPHeaders = [
      "Set-Cookie": "a", "WWW-Authenticate": "Bearer", "Connection": "X-Hop", "x-hop": "1", "Location": "/x",
      "ETag": "e",
      "Content-Length": "3", "X-Echo": "Bearer secret-token", "x-secret-token": "1",
    ]
    let found = ForwardHeaders.answer(headers, TokenFilter(["secret-token"]))
    #expect(found.map(\.name) == ["ETag", "Content-Length", "X-Echo"])
    #expect(found["X-Echo"] == ["Bearer (redacted)**"])
  }

  @Test("a challenge for a scope that the token lacks goes to the client")
  func scopeChallenge() {
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\""
    let found = ForwardHeaders.answer(["WWW-Authenticate": challenge], TokenFilter(["secret-token"]))
    #expect(found["WWW-Authenticate"] == [challenge])
  }

  @Test("A token is hidden at every cut, and the data after it are complete", arguments: [1, 2, 3, 5, 7, 11, 64])
  func filter(size: Int) {
    let secret = "tok/en+0123456789"
    let text =
      "a tok tok/en {\"t\":\"tok/en+0123456789\"} tok\\/en+0123456789 tok%2Fen%2B0123456789 tok/en+012345678 end tok/"
    var filter = TokenFilter([secret])
    var result = ""
    let bytes = Array(text.utf8)
    for start in stride(from: 0, to: bytes.count, by: size) {
      if let part = filter.pass(ByteBuffer(bytes: bytes[start..<min(start + size, bytes.count)])) {
        result += String(buffer: part)
      }
    }
    if let rest = filter.end() { result += String(buffer: rest) }
    #expect(
      result == "a tok tok/en {\"t\":\"(redacted)*******\"} (redacted)******** (redacted)*********** "
        + "tok/en+012345678 end tok/")
    #expect(result.utf8.count == text.utf8.count)
  }

  @Test("Data that cannot begin a token are not held back")
  func prompt() {
    var filter = TokenFilter(["eyJhbGciOi"])
    #expect(filter.pass(ByteBuffer(string: "data: one\n\n")).map { String(buffer: $0) } == "data: one\n\n")
    #expect(filter.pass(ByteBuffer(string: "eyJ")) == nil)
    #expect(filter.pass(ByteBuffer(string: "x")).map { String(buffer: $0) } == "eyJx")
  }
}
