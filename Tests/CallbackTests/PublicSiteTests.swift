import Broker
import Callback
import Testing

/// Behind a reverse proxy, which passes the public host's name on.
@Suite struct PublicSiteTests {
  static let configuration = CallbackListener.Configuration(
    paths: ["/callback", "/own"],
    publicSite: .init(origin: "https://broker.example.com", paths: ["/callback", "/web/callback"]))

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var host: String
    var path: String
    /// Nil: not handled.
    var url: String?
    var status = 200

    var testDescription: String { name }
  }

  /// `PORT` stands for the listener's.
  static let cases: [Case] = [
    Case(
      name: "a callback from the web", host: "broker.example.com", path: "/callback",
      url: "https://broker.example.com/callback?code=1"),
    Case(
      name: "another path of the web", host: "broker.example.com", path: "/web/callback",
      url: "https://broker.example.com/web/callback?code=1"),
    Case(
      name: "the host in capitals", host: "BROKER.example.COM", path: "/callback",
      url: "https://broker.example.com/callback?code=1"),
    Case(
      name: "a path only of this machine", host: "broker.example.com", path: "/own", url: nil, status: 404),
    Case(name: "a path only of the web", host: "127.0.0.1:PORT", path: "/web/callback", url: nil, status: 404),
    Case(
      name: "this machine", host: "127.0.0.1:PORT", path: "/callback", url: "http://127.0.0.1:PORT/callback?code=1"),
    Case(name: "the listener's port", host: "broker.example.com:PORT", path: "/callback", url: nil, status: 421),
    Case(
      name: "the port of TLS, which browsers leave out", host: "broker.example.com:443", path: "/callback", status: 421),
    Case(name: "a longer name", host: "broker.example.com.evil.example", path: "/callback", status: 421),
    Case(name: "a name in front", host: "a.broker.example.com", path: "/callback", status: 421),
    Case(name: "a dot behind", host: "broker.example.com.", path: "/callback", status: 421),
    Case(name: "a user in front", host: "a@broker.example.com", path: "/callback", status: 421),
    Case(name: "the root", host: "broker.example.com", path: "/", status: 404),
    Case(name: "a slash behind", host: "broker.example.com", path: "/callback/", status: 404),
  ]

  @Test("A callback of the public host has the address that the browser had", arguments: cases)
  func callback(_ test: Case) async throws {
    let handler = ScriptedHandler()
    try await withListener(Self.configuration, handler: handler) { _, client async throws in
      func here(_ text: String) -> String { text.replacing("PORT", with: "\(client.port)") }
      let response = try await client.request("GET", "\(test.path)?code=1", headers: ["Host: \(here(test.host))"])
      #expect(response.status == test.status)
      #expect(handler.urls == (test.url.map { [here($0)] } ?? []))
    }
  }

  @Test("Without a public host its name is a foreign one, and it can be set and taken away while it listens")
  func changed() async throws {
    try await withListener { listener, client async throws in
      func status(_ host: String) async throws -> Int {
        try await client.request("GET", "/callback", headers: ["Host: \(host)"]).status
      }
      #expect(try await status("broker.example.com") == 421)
      listener.update(
        paths: ["/callback"], publicSite: .init(origin: "https://broker.example.com:8443", paths: ["/callback"]))
      #expect(try await status("broker.example.com:8443") == 200)
      #expect(try await status("broker.example.com") == 421)
      listener.update(paths: ["/callback"])
      #expect(try await status("broker.example.com:8443") == 421)
    }
  }

  @Test(
    "A fragment comes from the page of the same name",
    arguments: [
      ("https://broker.example.com", "broker.example.com", 200),
      ("http://broker.example.com", "broker.example.com", 403),
      ("http://127.0.0.1:PORT", "broker.example.com", 403), ("https://broker.example.com", "127.0.0.1:PORT", 403),
      ("http://127.0.0.1:PORT", "127.0.0.1:PORT", 200),
    ])
  func fragment(origin: String, host: String, status: Int) async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(Self.configuration, handler: handler) { _, client async throws in
      let headers = ["Host: \(host)", "Origin: \(origin)"].map { $0.replacing("PORT", with: "\(client.port)") }
      let response = try await client.send(
        RawClient.fragmentRequest(
          "a=b", port: client.port, headers: headers + [RawClient.formType, "Content-Length: 3"]))
      #expect(response.status == status)
      let address = host.contains("PORT") ? "http://127.0.0.1:\(client.port)" : "https://broker.example.com"
      #expect(handler.urls == (status == 200 ? ["\(address)/callback#a=b"] : []))
    }
  }

  @Test("A logout token is accepted for any public host")
  func logout() async throws {
    let handler = ScriptedHandler()
    try await withListener(Self.configuration, handler: handler) { _, client async throws in
      #expect(try await client.logOut().status == 200)
      #expect(handler.logouts.count == 1)
    }
  }
}
