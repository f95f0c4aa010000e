import NIOHTTP1
import Testing

@testable import HTTPServer

@Suite struct HeadCheckTests {
  private func status(
    _ headers: HTTPHeaders, version: HTTPVersion = .http1_1, port: Int? = 7817, uri: String = "/token",
    browsers: Bool = false
  ) -> UInt? {
    let head = HTTPRequestHead(version: version, method: .POST, uri: uri, headers: headers)
    return HeadCheck(port: port, servesBrowsers: browsers).refusal(of: head)?.status.code
  }

  @Test(
    "A host that is not this machine's loopback interface with the port is refused",
    arguments: [
      (["Host": "127.0.0.1:7817"], nil), (["Host": "LocalHost:7817"], nil), (["Host": "[::1]:7817"], nil),
      (["Host": "127.0.0.1"], 421), (["Host": "127.0.0.1:80"], 421), (["Host": "evil.example:7817"], 421),
      (["Host": ""], 421), (["Host": "127.0.0.1:7817", "host": "127.0.0.1:7817"], 400), ([:], 400),
    ] as [(HTTPHeaders, UInt?)])
  func hosts(_ headers: HTTPHeaders, _ expected: UInt?) { #expect(status(headers) == expected) }

  @Test("On port 80 the port may be omitted, and on a Unix socket the host has no meaning")
  func otherHosts() {
    #expect(status(["Host": "localhost"], port: 80) == nil)
    #expect(status(["Host": "anything"], port: nil) == nil)
    #expect(status([:], version: .http1_0) == nil)
  }

  @Test(
    "A browser is refused, on a Unix socket too",
    arguments: ["Origin", "ORIGIN", "Sec-Fetch-Site", "sec-fetch-mode", "Sec-Fetch-Anything"])
  func browsers(_ name: String) {
    #expect(status(["Host": "127.0.0.1:7817", name: "null"]) == 403)
    #expect(status(["Host": "x", name: ""], port: nil) == 403)
    #expect(status(["Host": "127.0.0.1:7817", name: "null"], browsers: true) == nil)
  }

  @Test(
    "What two parsers could frame differently is refused",
    arguments: [
      (["Content-Length": "5", "Transfer-Encoding": "chunked"], .http1_1, 400),
      (["Transfer-Encoding": "chunked"], .http1_0, 400), (["Transfer-Encoding": "chunked"], .http1_1, nil),
      (["Transfer-Encoding": "gzip, chunked"], .http1_1, 501), (["Transfer-Encoding": "identity"], .http1_1, 501),
      (["Transfer-Encoding": "chunked", "transfer-encoding": "chunked"], .http1_1, 501),
      (["Content-Length": "5", "content-length": "5"], .http1_1, 400), (["Content-Length": "+5"], .http1_1, 400),
      (["Content-Length": "5, 5"], .http1_1, 400), (["Content-Length": "0x5"], .http1_1, 400),
      (["Expect": "100-continue"], .http1_1, nil), (["Expect": "200-ok"], .http1_1, 417),
    ] as [(HTTPHeaders, HTTPVersion, UInt?)])
  func framing(_ headers: HTTPHeaders, _ version: HTTPVersion, _ expected: UInt?) {
    var headers = headers
    headers.add(name: "Host", value: "127.0.0.1:7817")
    #expect(status(headers, version: version) == expected)
  }

  @Test("A target for another host is refused", arguments: ["http://evil.example/token", "evil.example:443", "*"])
  func targets(_ uri: String) { #expect(status(["Host": "127.0.0.1:7817"], uri: uri) == 400) }
}
