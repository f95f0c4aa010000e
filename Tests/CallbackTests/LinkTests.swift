import Broker
import Foundation
import Glibc
import Testing

@testable import Callback

/// The short addresses of logins.
@Suite("Links of logins") struct LinkTests {
  private static let request = "https://id.example/authorize?state=s&code_challenge=c"

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var method = "GET"
    var target = "/go/b2Zm0vQx7o1Wl3TtqYk9eA"
    var headers: [String] = []
    var status: Int
    var isOpened = false

    var testDescription: String { name }
  }

  static let cases: [Case] = [
    Case(name: "a person's browser", headers: ["Sec-Fetch-Dest: document"], status: 303, isOpened: true),
    Case(name: "a browser without Fetch Metadata", status: 303, isOpened: true),
    Case(name: "with a query", target: "/go/abc?x=1", status: 303, isOpened: true),
    Case(name: "HEAD", method: "HEAD", status: 200),
    Case(name: "POST", method: "POST", headers: ["Content-Length: 0"], status: 405),
    Case(name: "a prefetch", headers: ["Sec-Purpose: prefetch"], status: 503),
    Case(name: "an image", headers: ["Sec-Fetch-Dest: image"], status: 403),
    Case(name: "a frame", headers: ["Sec-Fetch-Dest: iframe"], status: 403),
    Case(name: "a foreign host", headers: ["Host: evil.example"], status: 421),
    Case(name: "no token", target: "/go/", status: 404),
    Case(name: "a longer path", target: "/go/a/b", status: 404),
    Case(name: "an encoded token", target: "/go/%61", status: 404),
    Case(name: "a token that is too long", target: "/go/" + String(repeating: "a", count: 129), status: 404),
  ]

  @Test("Only a user's browser opens a link", arguments: cases)
  func opening(_ test: Case) async throws {
    let handler = ScriptedHandler(opening: .request(url: Self.request))
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.request(test.method, test.target, headers: test.headers)
      #expect(response.status == test.status)
      #expect(handler.links.count == (test.isOpened ? 1 : 0) && handler.urls.isEmpty)
      #expect(response.headers["location"] == (test.isOpened ? Self.request : nil))
      #expect(response.headers["cache-control"] == "no-store")
      #expect(response.headers["referrer-policy"] == "no-referrer")
    }
    #expect(handler.links.allSatisfy { $0.browser == .user(getuid()) })
  }

  @Test(
    "Other results of a link",
    arguments: [
      (LoginOpening.spent(again: "grantctl login example work"), 410, "<code>grantctl login example work</code>"),
      (.otherUser, 403, "Another user of this machine started this sign-in."),
      (.unknownUser, 403, "<code>grantctl login --manual</code>"), (.unavailable, 503, "Reload this page"),
      (.request(url: "javascript:alert(1)"), 502, "Start the sign-in again."),
    ])
  func outcome(_ opening: LoginOpening, _ status: Int, _ text: String) async throws {
    try await withListener(handler: ScriptedHandler(opening: opening)) { _, client async throws in
      let response = try await client.request("GET", "/go/abc")
      #expect(response.status == status && response.body.contains(text) && response.headers["location"] == nil)
    }
  }

  @Test("Under the name that a proxy passes on there are no links")
  func proxied() async throws {
    let handler = ScriptedHandler(opening: .request(url: Self.request))
    let site = CallbackListener.PublicSite(origin: "https://broker.example", paths: ["/cb"])
    try await withListener(.init(publicSite: site), handler: handler) { _, client async throws in
      #expect(try await client.request("GET", "/go/abc", headers: ["Host: broker.example"]).status == 404)
    }
    #expect(handler.links.isEmpty)
  }

  @Test("A provider's own path of that form is a callback")
  func ownPath() async throws {
    let handler = ScriptedHandler()
    try await withListener(.init(paths: ["/go/back"]), handler: handler) { _, client async throws in
      #expect(try await client.request("GET", "/go/back?code=c").status == 200)
    }
    #expect(handler.links.isEmpty && handler.urls.count == 1)
  }

  @Test("Whose browser brings a fragment is asked as well")
  func fragment() async throws {
    let handler = ScriptedHandler(.otherUser, awaitsFragments: true)
    try await withListener(handler: handler) { listener, client async throws in
      let origin = "http://127.0.0.1:\(listener.port ?? 0)"
      let body = "access_token=t"
      let response = try await client.request(
        "POST", "/callback",
        headers: [
          "Origin: \(origin)", "Content-Type: application/x-www-form-urlencoded", "Content-Length: \(body.utf8.count)",
        ], body: body)
      #expect(response.status == 403)
    }
    #expect(handler.browsers == [.user(getuid())])
  }
}
