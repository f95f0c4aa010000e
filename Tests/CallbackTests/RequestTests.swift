import Broker
import Callback
import Foundation
import Testing

@Suite struct RequestTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var method = "GET"
    var target = "/callback?code=1&state=2"
    var headers: [String] = []
    var status: Int
    var isHandled = false

    var testDescription: String { name }
  }

  /// `PORT` stands for the listener's.
  static let cases: [Case] = [
    Case(name: "a callback", status: 200, isHandled: true),
    Case(name: "without a query", target: "/callback", status: 200, isHandled: true),
    Case(name: "localhost", headers: ["Host: localhost:PORT"], status: 200, isHandled: true),
    Case(name: "a host in capitals", headers: ["Host: LOCALHOST:PORT"], status: 200, isHandled: true),
    Case(name: "the IPv6 literal as host", headers: ["Host: [::1]:PORT"], status: 200, isHandled: true),
    Case(name: "a foreign host", headers: ["Host: evil.example:PORT"], status: 421),
    Case(name: "a foreign host that begins like ours", headers: ["Host: 127.0.0.1.evil.example:PORT"], status: 421),
    Case(name: "another loopback address", headers: ["Host: 127.0.0.2:PORT"], status: 421),
    Case(name: "another port", headers: ["Host: 127.0.0.1:1"], status: 421),
    Case(name: "no port", headers: ["Host: 127.0.0.1"], status: 421),
    Case(name: "a user in the host", headers: ["Host: a@127.0.0.1:PORT"], status: 421),
    Case(name: "an empty host", headers: ["Host:"], status: 421),
    Case(name: "two hosts", headers: ["Host: 127.0.0.1:PORT", "Host: 127.0.0.1:PORT"], status: 400),
    Case(name: "another path", target: "/other", status: 404),
    Case(name: "the root", target: "/", status: 404),
    Case(name: "a trailing slash", target: "/callback/?code=1", status: 404),
    Case(name: "a longer path", target: "/callback2?code=1", status: 404),
    Case(name: "a path in capitals", target: "/Callback?code=1", status: 404),
    Case(name: "an encoded path", target: "/%63allback?code=1", status: 404),
    Case(name: "a doubled slash", target: "//callback?code=1", status: 404),
    Case(name: "a dotted path", target: "/./callback?code=1", status: 404),
    Case(name: "a foreign host on another path", target: "/x", headers: ["Host: evil.example"], status: 421),
    Case(name: "the absolute form", target: "http://127.0.0.1/callback?code=1", status: 400),
    Case(name: "a fragment", target: "/callback?code=1#x", status: 400),
    Case(name: "HEAD", method: "HEAD", status: 200),
    Case(name: "HEAD on another path", method: "HEAD", target: "/other", status: 404),
    Case(name: "POST", method: "POST", headers: ["Content-Length: 0"], status: 403),
    Case(name: "PUT", method: "PUT", headers: ["Content-Length: 0"], status: 405),
    Case(name: "DELETE", method: "DELETE", status: 405),
    Case(name: "a preflight", method: "OPTIONS", headers: ["Origin: https://evil.example"], status: 405),
    Case(name: "POST on another path", method: "POST", target: "/x", headers: ["Content-Length: 0"], status: 404),
    Case(name: "a prefetch", headers: ["Sec-Purpose: prefetch"], status: 503),
    Case(name: "a prerender", headers: ["Sec-Purpose: prefetch;prerender"], status: 503),
    Case(name: "an old prefetch", headers: ["Purpose: Prefetch"], status: 503),
    Case(name: "a prefetch of an old Firefox", headers: ["X-Moz: prefetch"], status: 503),
    Case(name: "a preview", headers: ["X-Purpose: preview"], status: 503),
    Case(name: "a page load", headers: ["Sec-Fetch-Dest: document"], status: 200, isHandled: true),
    Case(name: "an image", headers: ["Sec-Fetch-Dest: image"], status: 403),
    Case(name: "a frame", headers: ["Sec-Fetch-Dest: iframe"], status: 403),
    Case(name: "a fetch", headers: ["Sec-Fetch-Dest: empty"], status: 403),
    Case(name: "a favicon", target: "/favicon.ico", status: 204),
    Case(name: "a favicon of a foreign host", target: "/favicon.ico", headers: ["Host: evil.example"], status: 421),
  ]

  @Test("16. A request is answered by its method, path and host, and only a callback is handled", arguments: cases)
  func request(_ test: Case) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { listener, client async throws in
      let headers = test.headers.map { $0.replacing("PORT", with: "\(client.port)") }
      let response = try await client.request(test.method, test.target, headers: headers)
      #expect(response.status == test.status)
      #expect(handler.urls.count == (test.isHandled ? 1 : 0))
      #expect(response.headers["connection"] == "close")
      #expect(response.headers["cache-control"] == "no-store")
      if test.status == 405 { #expect(response.headers["allow"] == "GET, HEAD, POST") }
      if test.status == 204 || test.method == "HEAD" {
        #expect(response.body.isEmpty)
      } else {
        #expect(response.headers["content-length"] == "\(response.body.utf8.count)")
        #expect(response.body.hasPrefix("<!DOCTYPE html>") && response.body.hasSuffix("</html>\n"))
      }
      // It stays up.
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test(
    "A request that is not HTTP is refused without other effects",
    arguments: [
      "\u{16}\u{3}\u{1}\u{2}hello\r\n\r\n", "hello\r\n\r\n", "GET /callback\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET /callback HTTP/1.1\r\n\r\n", "GET /callback HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
      "GET /call back HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET /callback HTTP/3.7\r\nHost: a\r\n\r\n",
      "GET /callback?ü HTTP/1.1\r\nHost: a\r\n\r\n",
    ])
  func nonsense(_ text: String) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      #expect(try await client.send(text).status == 400)
      #expect(handler.urls.isEmpty)
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test(
    "The handler gets the address as the browser asked for it",
    arguments: [
      "code=a%2Fb%20c&state=x", "code=a+b&state=%2B", "state=%E2%9C%93&name=%C3%BC", "a=1&a=2&&=&b",
      "x='\"<>", "code=%00%zz%", "?code=1?", "", "iss=https://as.example/path&code=4/0Ab_-.~!$&'()*+,;=:@/?",
    ])
  func query(_ query: String) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.request("GET", "/callback?\(query)")
      #expect(response.status == 200)
      #expect(handler.urls == ["http://127.0.0.1:\(client.port)/callback?\(query)"])
    }
  }

  @Test("The address has the host that the browser used")
  func host() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      _ = try await client.request("GET", "/callback?a", headers: ["Host: localhost:\(client.port)"])
      #expect(handler.urls == ["http://localhost:\(client.port)/callback?a"])
    }
  }

  @Test("Paths can be replaced while it listens")
  func paths() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.paths = ["/one", "/two"]
    try await withListener(configuration) { listener, client async throws in
      #expect(try await client.request("GET", "/one").status == 200)
      #expect(try await client.request("GET", "/two").status == 200)
      listener.update(paths: ["/two", "/three"])
      #expect(try await client.request("GET", "/one").status == 404)
      #expect(try await client.request("GET", "/two").status == 200)
      #expect(try await client.request("GET", "/three").status == 200)
    }
  }

  @Test("Only the first request of a connection is answered")
  func pipelined() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let one = "GET /callback?n=1 HTTP/1.1\r\nHost: 127.0.0.1:\(client.port)\r\n\r\n"
      let response = try await client.send(one + one)
      #expect(response.status == 200)
      #expect(response.raw.components(separatedBy: "HTTP/1.1 ").count == 2)
      #expect(handler.urls.count == 1)
    }
  }

  @Test("A client that ends its side after the request gets its answer")
  func halfClosed() async throws {
    try await withListener { _, client async throws in
      let text = "GET /callback?n=1 HTTP/1.1\r\nHost: 127.0.0.1:\(client.port)\r\n\r\n"
      let response = try await client.send(text, endOutput: true)
      #expect(response.status == 200)
      #expect(response.body.hasSuffix("</html>\n"))
    }
  }
}
