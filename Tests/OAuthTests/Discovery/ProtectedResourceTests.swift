import Foundation
import Testing

@testable import OAuth

@Suite("Protected resources")
struct ProtectedResourceTests {
  static let url = ResourceURL("https://mcp.example.com/team/mcp")!

  @Test(
    "a resource is https, or http on this machine",
    arguments: [
      ("https://mcp.example.com/mcp", true), ("https://mcp.example.com", true), ("http://127.0.0.1:8000/mcp", true),
      ("http://mcp.example.com/mcp", false), ("https://user@mcp.example.com/", false), ("https://h/#f", false),
      ("mcp.example.com", false), ("google", false), ("https:///mcp", false), ("https://h/a b", false),
    ])
  func urls(text: String, accepted: Bool) {
    #expect((ResourceURL(text) != nil) == accepted)
  }

  @Test(
    "its metadata are at its path, then at the root (RFC 9728 §3.1)",
    arguments: [
      (
        "https://h.example:8443/team/mcp",
        [
          "https://h.example:8443/.well-known/oauth-protected-resource/team/mcp",
          "https://h.example:8443/.well-known/oauth-protected-resource",
        ]
      ),
      ("https://h.example/", ["https://h.example/.well-known/oauth-protected-resource"]),
      ("https://h.example", ["https://h.example/.well-known/oauth-protected-resource"]),
      (
        "https://h.example/mcp?tenant=a",
        [
          "https://h.example/.well-known/oauth-protected-resource/mcp?tenant=a",
          "https://h.example/.well-known/oauth-protected-resource",
        ]
      ),
    ])
  func locations(text: String, urls: [String]) throws {
    #expect(try #require(ResourceURL(text)).metadataURLs.map(\.absoluteString) == urls)
  }

  @Test(
    "a document is about the URL: same origin, path prefix (RFC 9728 §3.3)",
    arguments: [
      ("https://mcp.example.com/team/mcp", true), ("https://mcp.example.com/team", true),
      ("https://mcp.example.com/team/", true), ("https://mcp.example.com", true), ("https://mcp.example.com/", true),
      ("https://MCP.example.com:443/", true), ("https://mcp.example.com/te", false),
      ("https://mcp.example.com/team/mcp/more", false), ("https://mcp.example.com/other", false),
      ("https://other.example.com/team/mcp", false), ("http://mcp.example.com/team/mcp", false),
      ("https://mcp.example.com:8443/team/mcp", false), ("https://mcp.example.com/team#f", false),
      ("https://user@mcp.example.com/team", false), ("https://mcp.example.com/team?a=b", false), ("team", false),
    ])
  func matching(resource: String, matches: Bool) {
    #expect(Self.url.belongs(to: resource) == matches)
  }

  private func parse(_ body: String, status: Int = 200) throws(ProtectedResourceError) -> ProtectedResourceMetadata {
    try ProtectedResourceMetadata.parse(answer(body, status: status), of: Self.url)
  }

  @Test("a document names the resource, its servers and scopes (RFC 9728 §2)")
  func document() throws {
    let body =
      #"{"resource":"https://mcp.example.com/team","authorization_servers":["https://a.example/","https://b.example/t"],"#
      + #""scopes_supported":["notes.read","a\"b","notes.write"]}"#
    let found = try parse(body)
    #expect(found.resource == "https://mcp.example.com/team")
    #expect(found.authorizationServers.map(\.rawValue) == ["https://a.example/", "https://b.example/t"])
    #expect(found.scopesSupported == ["notes.read", "notes.write"])
  }

  @Test("a document that cannot be used is an error that says why")
  func wrongDocuments() {
    func resource(_ servers: String) -> String {
      #"{"resource":"https://mcp.example.com","authorization_servers":\#(servers)}"#
    }
    let many = "[" + (0..<50).map { "\"https://as\($0).example\"" }.joined(separator: ",") + "]"
    let cases: [(String, Int, ProtectedResourceError)] = [
      ("{}", 404, .status(404)), ("<html>", 200, .notJSON("application/json")),
      ("{}", 200, .member("resource", wanted: "a non-empty string")),
      (#"{"resource":"https://evil.example/"}"#, 200, .otherResource("https://evil.example/")),
      (resource("[]"), 200, .noServers), (resource(many), 200, .tooManyServers(50)),
      (resource("[\"http://as.example.com\"]"), 200, .wrongServer(.notHTTPS("http://as.example.com"))),
      (resource("7"), 200, .member("authorization_servers", wanted: "an array of strings")),
    ]
    for (body, status, expected) in cases {
      #expect(throws: expected) { try parse(body, status: status) }
    }
  }

  private func challenge(_ value: String) throws(ChallengeError) -> ResourceChallenge? {
    try ResourceChallenge(answer("", status: 401, headers: [.init("WWW-Authenticate", value)]))
  }

  @Test("a challenge names the metadata, scopes and error (RFC 9728 §5.1, RFC 6750 §3)")
  func challenges() throws {
    let found = try #require(
      try challenge(
        #"Basic realm="x", Bearer resource_metadata="https://h/.well-known/oauth-protected-resource", "#
          + #"error="insufficient_scope", scope="a b", max_age=60, acr_values="x y", error_description="No\#u{9}way""#))
    #expect(found.metadata == "https://h/.well-known/oauth-protected-resource")
    #expect(found.scopes == ["a", "b"])
    #expect(found.error == "insufficient_scope")
    #expect(found.maxAge == 60 && found.acrValues == ["x", "y"])
    #expect(try challenge("Bearer")?.scopes == nil)
    #expect(try challenge("Basic realm=\"x\"") == nil)
    #expect(try ResourceChallenge(answer("{}")) == nil)
  }

  @Test(
    "a challenge with control characters or quotes in a scope is refused",
    arguments: [
      "scope=\"a\u{1B}[2J\"", "scope=\"a\\\"b\"", "resource_metadata=\"https://h/\u{7}\"", "scope=\"\u{e9}\"",
    ])
  func unfitChallenges(parameter: String) {
    #expect(throws: ChallengeError.self) { try challenge("Bearer \(parameter)") }
  }

  @Test(
    "the locations of server metadata (RFC 8414 §5)",
    arguments: [
      (
        "https://as.example/t",
        [
          "https://as.example/.well-known/oauth-authorization-server/t",
          "https://as.example/.well-known/openid-configuration/t",
          "https://as.example/t/.well-known/openid-configuration",
        ]
      ),
      (
        "https://as.example/",
        [
          "https://as.example/.well-known/oauth-authorization-server",
          "https://as.example/.well-known/openid-configuration",
        ]
      ),
    ])
  func servers(issuer: String, urls: [String]) throws {
    let issuer = try Issuer(issuer, allowInsecureHTTP: false)
    #expect(issuer.discoveryStyles.map { issuer.discoveryURL($0).absoluteString } == urls)
  }

  @Test(
    "the scope of an address",
    arguments: [
      ("8.8.8.8", AddressScope.global), ("172.32.0.1", .global), ("10.1.2.3", .site), ("172.16.0.1", .site),
      ("192.168.0.1", .site), ("100.64.0.1", .site), ("127.0.0.1", .machine), ("127.255.0.1", .machine),
      ("169.254.169.254", .link), ("0.0.0.0", .link), ("224.0.0.1", .link), ("255.255.255.255", .link),
      ("2a00:1450::1", .global), ("fd00::1", .site), ("::1", .machine), ("::", .link), ("fe80::1", .link),
      ("ff02::1", .link), ("::ffff:127.0.0.1", .machine), ("::ffff:a00:1", .site), ("64:ff9b::a9fe:a9fe", .link),
      ("2002:7f00:1::", .machine), ("::127.0.0.1", .machine),
    ])
  func addresses(text: String, scope: AddressScope) {
    #expect(AddressScope(text) == scope)
  }

  @Test(
    "no address", arguments: ["", "example.com", "1.2.3", "1.2.3.256", "1::2::3", "1:2:3:4:5:6:7", "+1::", "::12345"])
  func noAddresses(text: String) {
    #expect(AddressScope(text) == nil)
  }
}
