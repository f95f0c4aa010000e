import Broker
import Callback
import Foundation
import Testing

/// What a refusal says (OpenID Connect Back-Channel Logout §2.8).
struct RefusalBody: Decodable {
  var error: String
  var error_description: String
}

extension RawClient {
  /// A logout request as a reverse proxy passes it on.
  func logOut(
    _ form: String = "logout_token=a.b.c", at target: String = "/backchannel-logout/demo", headers: [String] = []
  ) async throws -> Response {
    try await send(Self.logoutRequest(form, at: target, headers: headers))
  }

  static func logoutRequest(
    _ form: String = "logout_token=a.b.c", at target: String = "/backchannel-logout/demo", headers: [String] = []
  ) -> String {
    let lines = ["POST \(target) HTTP/1.1", "Host: broker.example", formType, "Content-Length: \(form.utf8.count)"]
    return (lines + headers).joined(separator: "\r\n") + "\r\n\r\n" + form
  }

  static let formType = "Content-Type: application/x-www-form-urlencoded"
}

/// Nothing that only a browser would read, and nothing that may be kept.
func expectForMachine(_ response: RawClient.Response, sourceLocation: SourceLocation = #_sourceLocation) {
  #expect(response.headers["cache-control"] == "no-store", sourceLocation: sourceLocation)
  #expect(response.headers["connection"] == "close", sourceLocation: sourceLocation)
  #expect(response.headers["content-type"] != "text/html; charset=utf-8", sourceLocation: sourceLocation)
  #expect(!response.body.contains("<"), sourceLocation: sourceLocation)
  #expect(response.headers["access-control-allow-origin"] == nil, sourceLocation: sourceLocation)
  #expect(response.headers["content-length"] == "\(response.body.utf8.count)", sourceLocation: sourceLocation)
}

func expectRefusal(
  _ response: RawClient.Response, _ status: Int, sourceLocation: SourceLocation = #_sourceLocation
) throws {
  #expect(response.status == status, sourceLocation: sourceLocation)
  expectForMachine(response, sourceLocation: sourceLocation)
  #expect(response.headers["content-type"] == "application/json", sourceLocation: sourceLocation)
  let body = try JSONDecoder().decode(RefusalBody.self, from: Data(response.body.utf8))
  #expect(
    body.error == (status == 503 ? "temporarily_unavailable" : "invalid_request"), sourceLocation: sourceLocation)
  #expect(!body.error_description.isEmpty, sourceLocation: sourceLocation)
  #expect((response.headers["retry-after"] == "5") == (status == 503), sourceLocation: sourceLocation)
}

@Suite struct LogoutTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var method = "POST"
    var target = "/backchannel-logout/demo"
    var headers = ["Host: broker.example", RawClient.formType, "Content-Length: 3"]
    var status = 200
    var provider = "demo"

    var testDescription: String { name }

    static func type(_ name: String, _ types: [String], _ status: Int) -> Case {
      Case(name: name, headers: ["Host: broker.example", "Content-Length: 3"] + types, status: status)
    }

    static func header(_ name: String, _ header: String, _ status: Int) -> Case {
      Case(name: name, headers: ["Host: a", RawClient.formType, "Content-Length: 3", header], status: status)
    }

    static func name(_ name: String, _ segment: String, is provider: String) -> Case {
      Case(name: name, target: "/backchannel-logout/\(segment)", provider: provider)
    }

    static func noName(_ name: String, _ segment: String) -> Case {
      Case(name: name, target: "/backchannel-logout/\(segment)", status: 404)
    }

    static func method(_ method: String) -> Case { Case(name: method, method: method, status: 405) }

    static func host(_ name: String, _ hosts: [String], _ status: Int) -> Case {
      Case(name: name, headers: hosts + [RawClient.formType, "Content-Length: 3"], status: status)
    }
  }

  static let cases: [Case] = [
    Case(name: "a logout token"),
    .name("a query", "demo?a=b/c", is: "demo"),
    .name("every kind of character", "aZ09._@+-", is: "aZ09._@+-"),
    .name("an encoded name", "%64emo%40x", is: "demo@x"),
    .name("64 characters", String(repeating: "a", count: 64), is: String(repeating: "a", count: 64)),
    .name("64 encoded", String(repeating: "%61", count: 64), is: String(repeating: "a", count: 64)),
    .name("dots", "..", is: ".."),
    .noName("no name", ""),
    .noName("no name before a query", "?a"),
    .noName("65 characters", String(repeating: "a", count: 65)),
    .noName("65 encoded", String(repeating: "%61", count: 65)),
    .noName("a very long name", String(repeating: "a", count: 10_000)),
    .noName("a slash behind", "demo/"),
    .noName("a slash before", "/demo"),
    .noName("an encoded slash", "de%2Fmo"),
    .noName("an encoded NUL", "demo%00"),
    .noName("an encoded line end", "demo%0D%0Aa"),
    .noName("an encoded umlaut", "%C3%BC"),
    .noName("an encoding twice", "%2564emo"),
    .noName("an encoding cut short", "demo%4"),
    .noName("an encoding of nothing", "%zz"),
    .noName("what is no UTF-8", "%ff"),
    .noName("a space", "%20"),
    Case(name: "a fragment", target: "/backchannel-logout/demo#a", status: 400),
    .host("our own host", ["Host: 127.0.0.1:PORT"], 200),
    .host("an empty host", ["Host:"], 200),
    .host("no host", [], 400),
    .host("two hosts", ["Host: a", "Host: a"], 400),
    .method("GET"), .method("HEAD"), .method("PUT"), .method("DELETE"), .method("OPTIONS"), .method("PATCH"),
    .type("no type", [], 400),
    .type("another type", ["Content-Type: application/json"], 400),
    .type("a token's own type", ["Content-Type: application/logout+jwt"], 400),
    .type("a longer type", ["Content-Type: application/x-www-form-urlencoded2"], 400),
    .type("an empty type", ["Content-Type:"], 400),
    .type("two types", [RawClient.formType, RawClient.formType], 400),
    .type("a type with a charset", ["\(RawClient.formType); charset=UTF-8"], 200),
    .type("a type with a space before the charset", ["\(RawClient.formType) ;charset=UTF-8"], 200),
    .type("a type in capitals", [RawClient.formType.uppercased()], 200),
    .header("a form of another page", "Sec-Fetch-Site: cross-site", 403),
    .header("a form of a page of the same site", "Sec-Fetch-Site: same-site", 403),
    .header("a form of a page of the same origin", "Sec-Fetch-Site: same-origin", 403),
    .header("a preview's purpose is for pages", "Sec-Purpose: prefetch", 200),
    .header("cookies have no effect", "Cookie: a=b", 200),
  ]

  @Test("A logout request is accepted by its method, path and type, for any public host", arguments: cases)
  func request(_ test: Case) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let headers = test.headers.map { $0.replacing("PORT", with: "\(client.port)") }
      let lines = ["\(test.method) \(test.target) HTTP/1.1"] + headers
      let response = try await client.send(lines.joined(separator: "\r\n") + "\r\n\r\na=b")
      #expect(response.status == test.status)
      #expect(handler.logouts == (test.status == 200 ? [.init(provider: test.provider, form: "a=b")] : []))
      #expect(handler.urls.isEmpty)
      if test.status == 405 { #expect(response.headers["allow"] == "POST") }
      if test.status == 200 {
        expectForMachine(response)
        #expect(response.body.isEmpty)
      } else if test.method == "HEAD" {
        #expect(response.body.isEmpty && response.headers["cache-control"] == "no-store")
      } else {
        try expectRefusal(response, test.status)
      }
      // It stays up.
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test(
    "Beside the path nothing changes: the host is compared, and pages are shown",
    arguments: [
      ("/backchannel-logout", 404), ("/backchannel-logou/demo", 404), ("/Backchannel-Logout/demo", 404),
      ("/backchannel-logout%2Fdemo", 404), ("//backchannel-logout/demo", 404), ("/callback", 403),
    ])
  func otherPaths(target: String, status: Int) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let headers = [RawClient.formType, "Content-Length: 3"]
      let ours = try await client.request("POST", target, headers: headers, body: "a=b")
      #expect(ours.status == status)
      let foreign = try await client.request("POST", target, headers: ["Host: broker.example"] + headers, body: "a=b")
      #expect(foreign.status == 421)
      #expect([ours, foreign].allSatisfy { $0.body.hasPrefix("<!DOCTYPE html>") })
      #expect(handler.logouts.isEmpty)
    }
  }

  @Test("A callback's path below the prefix stays a callback's")
  func configuredPath() async throws {
    let configuration = CallbackListener.Configuration(paths: ["/backchannel-logout/demo"])
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      #expect(try await client.request("GET", "/backchannel-logout/demo?code=1").status == 200)
      #expect(try await client.logOut().status == 421)
      #expect(try await client.logOut(at: "/backchannel-logout/other").status == 200)
      #expect(handler.urls.count == 1)
      #expect(handler.logouts.map(\.provider) == ["other"])
    }
  }

  @Test(
    "Each outcome has its status",
    arguments: [
      (LogoutOutcome.taken, 200), (.refused("the logout token was taken before (jti)"), 400), (.unavailable, 503),
    ])
  func outcome(_ outcome: LogoutOutcome, status: Int) async throws {
    try await withListener(handler: ScriptedHandler(logout: outcome)) { _, client async throws in
      let response = try await client.logOut()
      if status == 200 {
        #expect(response.status == 200 && response.body.isEmpty)
        expectForMachine(response)
      } else {
        try expectRefusal(response, status)
      }
      if case .refused(let reason) = outcome { #expect(response.body.contains(reason)) }
    }
  }

  @Test(
    "A refusal has the characters that RFC 6749 allows, and is valid JSON",
    arguments: [
      ("plain text", "plain text"), ("a \"quote\" and “another”", "a 'quote' and 'another'"),
      ("back\\slash", "back/slash"), ("\",\"error\":\"x", "','error':'x"),
      ("a\r\nSet-Cookie: a=b", "a  Set-Cookie: a=b"),
      ("ü✓\u{0}\u{1b}[31m\u{202e}\u{7f}", "????[31m??"), ("</script>", "</script>"), ("", ""),
      (String(repeating: "a", count: 100_000), String(repeating: "a", count: 600) + "..."),
    ])
  func description(text: String, said: String) async throws {
    try await withListener(handler: ScriptedHandler(logout: .refused(text))) { _, client async throws in
      let response = try await client.logOut()
      #expect(response.status == 400 && response.headers["set-cookie"] == nil)
      let body = try JSONDecoder().decode(RefusalBody.self, from: Data(response.body.utf8))
      #expect(body.error == "invalid_request" && body.error_description == said)
    }
  }

  @Test(
    "The form is complete in one piece or in chunks of any size",
    arguments: [
      ("logout_token=a.b.c", 100), ("logout_token=a.b.c&x=%20+", 1), (String(repeating: "ab", count: 999), 7),
    ])
  func chunks(form: String, size: Int) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      #expect(try await client.logOut(form).status == 200)
      #expect(try await client.send(LogoutBodyTests.chunked(form, size: size)).status == 200)
      #expect(handler.logouts == Array(repeating: .init(provider: "demo", form: form), count: 2))
    }
  }

  @Test(
    "A request whose head or body is no HTTP is refused in JSON",
    arguments: [
      ("Content-Length: x", "a=b", 400), ("Content-Length: 3\r\nContent-Length: 4", "a=b", 400),
      ("Content-Length: 3\r\nTransfer-Encoding: chunked", "a=b", 400), ("Transfer-Encoding: chunked", "zz\r\n", 400),
      ("Transfer-Encoding: gzip", "a=b", 400), ("No colon", "a=b", 400), ("Content-Length: 0", "", 400),
      ("A: b", "", 400),
      ("Transfer-Encoding: chunked", "0\r\n\r\n", 400), ("A: \(String(repeating: "a", count: 40_000))", "", 431),
    ])
  func nonsense(header: String, body: String, status: Int) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let lines = ["POST /backchannel-logout/demo HTTP/1.1", "Host: a", RawClient.formType, header]
      try expectRefusal(try await client.send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body), status)
      #expect(handler.logouts.isEmpty)
      #expect(try await client.logOut().status == 200)
    }
  }

  @Test("A line that is too long is refused in JSON")
  func longLine() async throws {
    try await withListener { _, client async throws in
      let target = "/backchannel-logout/demo?" + String(repeating: "a", count: 17_000)
      try expectRefusal(try await client.logOut(at: target), 414)
    }
  }
}
