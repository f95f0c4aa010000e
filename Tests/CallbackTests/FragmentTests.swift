import Broker
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import Pages
import Testing

@testable import Callback

/// What the page with a fragment posts, and what else may be posted there.
extension RawClient {
  static func fragmentRequest(_ fragment: String, port: Int, headers: [String]? = nil) -> String {
    let lines =
      headers ?? [
        "Host: 127.0.0.1:\(port)", "Origin: http://127.0.0.1:\(port)", "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", formType, "Content-Length: \(fragment.utf8.count)",
      ]
    return (["POST /callback HTTP/1.1"] + lines).joined(separator: "\r\n") + "\r\n\r\n" + fragment
  }

  func bring(_ fragment: String) async throws -> Response {
    try await send(Self.fragmentRequest(fragment, port: port))
  }
}

@Suite struct FragmentTests {
  static let fragment = "access_token=secret-token&token_type=bearer&state=secret-state"

  @Test("If a login waits for a fragment, a page requests it, and nothing is handled yet")
  func page() async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.request("GET", "/callback")
      #expect(response.status == 200)
      #expect(response.body == FragmentPage.html)
      #expect(handler.urls.isEmpty)
      #expect(handler.askedForFragments == ["http://127.0.0.1:\(client.port)/callback"])
      // A preview sends no request.
      #expect(try await client.request("GET", "/callback", headers: ["Sec-Purpose: prefetch"]).status == 503)
      #expect(try await client.request("HEAD", "/callback").status == 200)
      #expect(handler.askedForFragments.count == 1 && handler.urls.isEmpty)
    }
  }

  @Test(
    "If none waits, a URL is handled as it arrives", arguments: ["/callback", "/callback?error=access_denied"])
  func withoutPage(target: String) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.request("GET", target)
      #expect(response.status == 200 && !response.body.contains("<script"))
      #expect(handler.urls == ["http://127.0.0.1:\(client.port)\(target)"])
      #expect(handler.askedForFragments == handler.urls)
    }
  }

  @Test("The page may run its one script, reach its own origin, and nothing else")
  func policy() async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.request("GET", "/callback")
      let script = Data(SHA256.hash(data: Data(FragmentPage.script.utf8))).base64EncodedString()
      let expected = [
        "cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff",
        "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin",
        "content-type": "text/html; charset=utf-8",
        "content-security-policy":
          "default-src 'none'; style-src '\(Stylesheet.hash)'; img-src data:; base-uri 'none'; "
          + "form-action 'none'; frame-ancestors 'none'; script-src 'sha256-\(script)'; connect-src 'self'",
      ]
      for (name, value) in expected { #expect(response.headers[name] == value) }
      #expect(response.body.components(separatedBy: "<script").count == 2)
      #expect(response.body.contains("<script>\(FragmentPage.script)</script>"))
      for text in ["src=", "<form", "<iframe", "<img", "onload", "style=", "http://", "https://"] {
        #expect(!response.body.contains(text) || text == "http://" && response.body.contains("http://www.w3.org"))
      }
    }
  }

  @Test("The script clears the address bar before it does anything else, and posts once")
  func script() throws {
    let lines = FragmentPage.script.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    let cleared = try #require(lines.firstIndex { $0.hasPrefix("history.replaceState") })
    #expect(lines[..<cleared].allSatisfy { $0.hasPrefix("var ") || $0 == "\"use strict\";" || $0 == "(function () {" })
    #expect(FragmentPage.script.components(separatedBy: "fetch(").count == 2)
    // Nothing of the address becomes markup.
    for text in ["innerHTML", "document.write", "eval", "fragment +", "+ fragment", "console."] {
      #expect(!FragmentPage.script.contains(text))
    }
  }

  @Test("Without scripts the page says what to do")
  func withoutScript() throws {
    let start = try #require(FragmentPage.html.range(of: "<noscript>"))
    let end = try #require(FragmentPage.html.range(of: "</noscript>"))
    #expect(FragmentPage.html[start.upperBound..<end.lowerBound].contains("<code>grantctl login --manual</code>"))
  }

  @Test(
    "The page's data become the fragment of its URL",
    arguments: [
      fragment, "", "a", "access_token=a%2Bb%20c&&x=%zz", "##", "?code=1", "%E2%9C%93", "a'b(c)*!~;:@/",
    ])
  func brought(fragment: String) async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.bring(fragment)
      #expect(response.status == 200)
      #expect(response.body.contains("Signed in") && !response.raw.contains("secret-"))
      #expect(handler.urls == ["http://127.0.0.1:\(client.port)/callback\(fragment.isEmpty ? "" : "#")\(fragment)"])
      #expect(handler.askedForFragments.isEmpty)
    }
  }

  @Test(
    "A fragment that no browser writes is refused",
    arguments: ["a b", "a\r\nb", "a\u{0}", "ü", "<script>", "a\"b", "a`b", "a\u{7f}"])
  func noFragment(text: String) async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.bring(text)
      #expect(response.status == 400)
      #expect(!response.body.contains("<script"))
      #expect(handler.urls.isEmpty)
    }
  }

  struct Post: Sendable, CustomTestStringConvertible {
    var name: String
    /// `PORT` stands for the listener's.
    var headers: [String]
    var status: Int

    var testDescription: String { name }

    static func from(_ name: String, _ more: [String], _ status: Int) -> Post {
      Post(
        name: name, headers: ["Host: 127.0.0.1:PORT", RawClient.formType, "Content-Length: 3"] + more, status: status)
    }

    static func type(_ name: String, _ more: [String], _ status: Int) -> Post {
      Post(
        name: name, headers: ["Host: 127.0.0.1:PORT", "Origin: http://127.0.0.1:PORT", "Content-Length: 3"] + more,
        status: status)
    }
  }

  static let origin = "Origin: http://127.0.0.1:PORT"

  static let posts: [Post] = [
    .from("our page", [origin, "Sec-Fetch-Site: same-origin"], 200),
    .from("our page in a browser without Fetch Metadata", [origin], 200),
    .from("our page with the names in capitals", [origin.uppercased(), "Sec-Fetch-Site: SAME-ORIGIN"], 200),
    Post(
      name: "our page under another of our names",
      headers: [
        "Host: localhost:PORT", "Origin: http://localhost:PORT", "Sec-Fetch-Site: same-origin", RawClient.formType,
        "Content-Length: 3",
      ], status: 200),
    .from("a stranger's page", ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"], 403),
    .from("a foreign page in an old browser", ["Origin: https://evil.example"], 403),
    .from("a page without a name", ["Origin: null", "Sec-Fetch-Site: cross-site"], 403),
    .from("a page of another port", ["Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"], 403),
    .from("a page of another port that poses as ours", [origin, "Sec-Fetch-Site: same-site"], 403),
    .from("a page under another of our names", ["Origin: http://localhost:PORT"], 403),
    .from("a page of the same name over TLS", ["Origin: https://127.0.0.1:PORT"], 403),
    .from("a longer origin", ["Origin: http://127.0.0.1:PORT.evil.example"], 403),
    .from("two origins", [origin, "Origin: https://evil.example"], 403),
    .from("two origins in one", ["Origin: http://127.0.0.1:PORT https://evil.example"], 403),
    .from("two sites", [origin, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"], 403),
    .from("a URL entered by the user", [origin, "Sec-Fetch-Site: none"], 403),
    .from("no origin", ["Sec-Fetch-Site: same-origin"], 403),
    .from("neither", [], 403),
    .type("no type", [], 415),
    .type("a text", ["Content-Type: text/plain"], 415),
    .type("a form of parts", ["Content-Type: multipart/form-data; boundary=a"], 415),
    .type("two types", [RawClient.formType, RawClient.formType], 415),
    .type("a type with a charset", ["\(RawClient.formType);charset=UTF-8"], 200),
    Post(
      name: "a foreign host", headers: ["Host: evil.example:PORT", origin, RawClient.formType, "Content-Length: 3"],
      status: 421),
    Post(
      name: "a host that is its own origin",
      headers: [
        "Host: evil.example:PORT", "Origin: http://evil.example:PORT", "Sec-Fetch-Site: same-origin",
        RawClient.formType, "Content-Length: 3",
      ], status: 421),
  ]

  @Test("Only the broker's own page may send a fragment, and other posts are not read", arguments: posts)
  func post(_ test: Post) async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let headers = test.headers.map { $0.replacing("PORT", with: "\(client.port)") }
      let response = try await client.send(RawClient.fragmentRequest("a=b", port: client.port, headers: headers))
      #expect(response.status == test.status)
      #expect(handler.urls.count == (test.status == 200 ? 1 : 0))
      #expect(response.headers["access-control-allow-origin"] == nil)
      #expect(response.body.hasPrefix("<!DOCTYPE html>"))
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test("A refused post is answered before its body arrives")
  func early() async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let head = ["Host: 127.0.0.1:\(client.port)", "Origin: https://evil.example", RawClient.formType]
      let text = RawClient.fragmentRequest("", port: client.port, headers: head + ["Content-Length: 9"])
      #expect(try await client.send(text).status == 403)
      #expect(handler.urls.isEmpty)
    }
  }

  @Test(
    "If the browser must continue elsewhere, the page reports it, since a script cannot follow a redirect",
    arguments: ["https://as.example/next?a=b", "javascript:alert(1)"])
  func redirect(url: String) async throws {
    let handler = ScriptedHandler(.redirect(url: url), awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.bring("a=b")
      let isWeb = url.hasPrefix("https")
      #expect(response.status == (isWeb ? 200 : 502))
      #expect(response.headers["location"] == nil)
      #expect(response.body.contains("href=\"\(url)\">Go on</a>") == isWeb)
      #expect(response.body.contains("javascript:") == false)
    }
  }
}
