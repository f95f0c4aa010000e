import Broker
import BrokerAPI
import Crypto
import Foundation
import NIOHTTP1
import Pages
import Testing

@testable import Callback

@Suite struct PageTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var outcome: CallbackOutcome
    var status: Int
    var shown: [String]

    var testDescription: String { shown[0] }
  }

  static let cases: [Case] = [
    Case(
      outcome: .done(account: "ann@example", provider: "Exam ple"), status: 200,
      shown: ["Signed in", "You can close this window.", "ann@example", "Exam ple"]),
    Case(
      outcome: .done(
        account: "ann@example", provider: "Exam ple", identity: SignedIn(bestName: "ann@mail.example", name: "Ann X")),
      status: 200, shown: ["Signed in", "Signed in as", "ann@mail.example", "Ann X", "Account"]),
    Case(
      outcome: .done(account: "ann", provider: "Exam ple", program: "/usr/bin/feed"), status: 200,
      shown: ["Signed in", "Asked for by", "/usr/bin/feed"]),
    Case(
      outcome: .expired(RPCError(.loginExpired, "late", hint: "Run `grantctl login a b` again.")), status: 200,
      shown: ["Sign-in expired", "Nothing was stored", "<code>grantctl login a b</code>"]),
    Case(
      outcome: .failed(RPCError(.providerError, "HTTP 503", hint: "")), status: 502,
      shown: ["Problem at the provider", "HTTP 503", "<code>grantctl login</code>"]),
    Case(
      outcome: .failed(RPCError(.temporarilyUnavailable, "HTTP 503", hint: "wait")), status: 502,
      shown: ["Problem at the provider", "HTTP 503", "wait"]),
    Case(
      outcome: .failed(RPCError(.providerMisconfigured, "no endpoint", hint: "set it")), status: 502,
      shown: ["Problem at the provider", "no endpoint", "set it"]),
    Case(outcome: .otherUser, status: 403, shown: ["Sign-in of another user", "still open", "--browser-uid"]),
    Case(
      outcome: .unknownUser, status: 403,
      shown: ["Browser not recognized", "still open", "<code>grantctl login --manual</code>"]),
    Case(outcome: .alreadyCompleted(.one), status: 200, shown: ["Already completed", "You can close this window."]),
    Case(
      outcome: .signedOut(provider: "Exam ple"), status: 200,
      shown: ["Signed out", "You can close this window.", "Exam ple"]),
    Case(
      outcome: .failed(RPCError(.loginDenied, "access_denied", hint: "")), status: 200,
      shown: ["Sign-in declined", "access_denied", "<code>grantctl login</code>"]),
    Case(
      outcome: .failed(RPCError(.loginCancelled, "access_denied", hint: "Run `grantctl login a b`.")), status: 200,
      shown: ["Sign-in declined", "access_denied", "<code>grantctl login a b</code>"]),
    Case(
      outcome: .refused(RPCError(.invalidCallback, "duplicate state", hint: "")), status: 400,
      shown: ["Answer not accepted", "duplicate state", "<code>grantctl login</code>"]),
    Case(
      outcome: .refused(RPCError(.invalidCallback, "duplicate state", hint: "log in again")), status: 400,
      shown: ["Answer not accepted", "duplicate state", "log in again"]),
    Case(
      outcome: .refused(RPCError(.invalidCallback, "duplicate state")), status: 400,
      shown: ["Answer not accepted", "duplicate state", "Open the link of the latest sign-in"]),
    Case(
      outcome: .foreign(RPCError(.invalidCallback, "unknown state")), status: 400,
      shown: ["Answer not accepted", "unknown state", "Copy the complete URL"]),
    Case(
      outcome: .failed(RPCError(.storeFailure, "invalid_grant", hint: "check the clock")), status: 502,
      shown: ["Sign-in failed", "invalid_grant", "check the clock"]),
    Case(
      outcome: .actionRequired(.one, message: "Too many devices"), status: 200,
      shown: ["One more thing to do", "You are not signed in yet.", "Go back to the program", "Too many devices"]),
    Case(
      outcome: .redirect(url: "https://as.example/next?a=b&c=%20d"), status: 303,
      shown: ["One more step", "https://as.example/next?a=b&amp;c=%20d"]),
  ]

  @Test("Each outcome has its status and a page that says it", arguments: cases)
  func outcome(_ test: Case) async throws {
    try await withListener(handler: ScriptedHandler(test.outcome)) { _, client async throws in
      let response = try await client.request("GET", "/callback?code=secret-code&state=secret-state")
      #expect(response.status == test.status)
      for text in test.shown { #expect(response.body.contains(text)) }
      #expect(response.body.contains("<title>\(test.shown[0]) – grantd</title>"))
      #expect(response.body.contains("<html lang=\"en\">"))
      // The address is not shown again.
      #expect(!response.raw.contains("secret-"))
      if case .redirect(let url) = test.outcome { #expect(response.headers["location"] == url) }
    }
  }

  @Test("25. Every page has the protective headers, and nothing to load or run", arguments: cases)
  func headers(_ test: Case) async throws {
    try await withListener(handler: ScriptedHandler(test.outcome)) { _, client async throws in
      let response = try await client.request("GET", "/callback")
      let digest = Data(SHA256.hash(data: Data(Stylesheet.text.utf8))).base64EncodedString()
      let expected = [
        "cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff",
        "cross-origin-opener-policy": "same-origin", "content-type": "text/html; charset=utf-8",
        "content-security-policy": "default-src 'none'; style-src 'sha256-\(digest)'; img-src data:; "
          + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      ]
      for (name, value) in expected { #expect(response.headers[name] == value) }
      for text in ["<script", "<iframe", "<img", "<form", "src=", "@import", "url(", "style="] {
        #expect(!response.body.contains(text))
      }
      #expect(response.body.contains("<style>\(Stylesheet.text)</style>"))
    }
  }

  static let attacks = [
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'><svg/onload=alert(1)>", "</style><script>",
    "</title><script>alert(1)</script>", "&lt;script&gt;", "javascript:alert(1)", "<!--", "]]>", "\u{0}<b>\u{1b}[31m",
    "\u{202e}gnp.exe", "a\r\nSet-Cookie: a=b", "<\u{0}script>", "＜script＞",
  ]

  static let echoes: [@Sendable (String) -> CallbackOutcome] = [
    { .signedOut(provider: $0) }, { .actionRequired(.one, message: $0) }, { .done(account: $0, provider: "p") },
    { .done(account: "a", provider: $0) },
    { .done(account: "a", provider: "p", identity: SignedIn(bestName: $0)) },
    { .done(account: "a", provider: "p", identity: SignedIn(bestName: "b", name: $0)) },
    { .done(account: "a", provider: "p", program: $0) }, { .expired(RPCError(.loginExpired, "m", hint: $0)) },
    { .failed(RPCError(.loginDenied, $0, hint: "h")) }, { .failed(RPCError(.loginDenied, "m", hint: $0)) },
    { .failed(RPCError(.providerError, $0, hint: "h")) }, { .failed(RPCError(.providerError, "m", hint: $0)) },
    { .failed(RPCError(.storeFailure, $0, hint: "h")) }, { .failed(RPCError(.storeFailure, "m", hint: $0)) },
    { .refused(RPCError(.invalidCallback, $0, hint: "h")) }, { .refused(RPCError(.invalidCallback, "m", hint: $0)) },
    { .foreign(RPCError(.invalidCallback, $0, hint: "h")) },
  ]

  @Test("25. Markup in an echoed text stays text, wherever it is", arguments: attacks, 0..<echoes.count)
  func escaping(attack: String, place: Int) {
    let harmless = Page(Self.echoes[place]("harmless")).html
    let page = Page(Self.echoes[place](attack))
    // The same tags as without the attack, and as many quotes.
    for character in ["<", ">", "\"", "'"] {
      #expect(page.html.components(separatedBy: character).count == harmless.components(separatedBy: character).count)
    }
    #expect(page.html.unicodeScalars.allSatisfy { $0 == "\n" || $0.properties.generalCategory != .control })
    #expect(!page.html.unicodeScalars.contains("\u{202e}"))
    #expect(!page.headers.contains { $0.1.contains("Set-Cookie") })
  }

  @Test("Each special character has its entity")
  func entities() {
    #expect(HTML.escaped("a&b<c>d\"e'f", limit: 99) == "a&amp;b&lt;c&gt;d&quot;e&#39;f")
    #expect(HTML.escaped("ü✓ 漢字\n", limit: 99) == "ü✓ 漢字 ")
  }

  @Test(
    "Commands in a hint's backticks are set as code",
    arguments: [
      ("Run `a b` or `c`.", "Run <code>a b</code> or <code>c</code>."), ("One ` alone", "One ` alone"),
      ("`<b>`", "<code>&lt;b&gt;</code>"),
    ])
  func code(hint: String, html: String) {
    #expect(Page(.failed(RPCError(.storeFailure, "m", hint: hint))).html.contains("</strong> \(html)</p>"))
    #expect(!Page(.refused(RPCError(.invalidCallback, hint, hint: "h"))).html.contains("<code>"))
  }

  @Test("A text that is too long is cut", arguments: 0..<echoes.count)
  func bounded(place: Int) {
    let html = Page(Self.echoes[place](String(repeating: "&", count: 1_000_000))).html
    #expect(html.utf8.count - Stylesheet.text.utf8.count < 10_000)
    #expect(html.contains("&amp;…"))
  }

  @Test(
    "A browser is sent on only to http and https addresses that a header can bear",
    arguments: [
      "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil.example", "/relative", "", "https:x",
      "https://a.example/\r\nSet-Cookie: a=b", "https://a.example/ b", "https://a.example/\"x", "https://ü.example/",
      "https://a.example/\\b", "https://a.example/<b>", " https://a.example/",
      "https://a.example/" + String(repeating: "a", count: Location.limit),
    ])
  func redirects(url: String) async throws {
    try await withListener(handler: ScriptedHandler(.redirect(url: url))) { _, client async throws in
      let response = try await client.request("GET", "/callback")
      #expect(response.status == 502)
      #expect(response.headers["location"] == nil && response.headers["set-cookie"] == nil)
    }
  }
}
