import BrokerAPI
import Principals
import Testing

@testable import Broker

@Suite struct RequestPatternTests {
  private func matches(_ pattern: String, _ method: String, _ path: String, host: String = "api.example.com") throws
    -> Bool
  {
    let pattern = try #require(RequestPattern(pattern))
    return pattern.matches(APIRequest(method: method, host: host, path: path))
  }

  @Test(
    "A pattern is a method with a path, or with a host and a path",
    arguments: [
      ("GET /repos/*", "GET", "/repos/a/b", true), ("GET /repos/*", "get", "/repos/", true),
      ("GET /repos/*", "POST", "/repos/a", false), ("GET /repos/*", "GET", "/repo", false),
      ("* /x", "DELETE", "/x", true), ("* /x", "DELETE", "/x/", false), ("GET *", "GET", "/any/thing", true),
      ("POST api.example.com/v1/*", "POST", "/v1/a", true), ("POST API.Example.com/v1/*", "POST", "/v1/a", true),
      ("POST other.example.com/v1/*", "POST", "/v1/a", false),
      ("GET /a/*/c", "GET", "/a/b/c", true), ("GET /a/*", "GET", "/A/b", false),
    ])
  func patterns(_ pattern: String, _ method: String, _ path: String, _ expected: Bool) throws {
    #expect(try matches(pattern, method, path) == expected)
  }

  @Test(
    "A path that a server may read as another one matches nothing",
    arguments: [
      "/repos/../admin", "/repos/%2e%2e/admin", "/repos/.%2E/admin", "/repos/..%2fadmin", "/repos%2f..%2fadmin",
      "/repos/a/..;x/admin", "/repos/\\..\\admin", "/repos/%5c..%5cadmin", "/repos//admin", "/repos/%252e%252e/admin",
      "/repos/%25%32%65%25%32%65/admin", "/repos/..%255cadmin", "/repos/.%00./admin", "/repos/%0d%0a", "/repos/%7f",
      "/repos/%C0%AE%C0%AE/admin", "/repos/%E0%80%AE", "/repos/%F0%80%80%AE", "/repos/%EF%BC%8E%EF%BC%8E/admin",
      "/repos/%E2%80%A4./admin", "/repos/..%E2%88%95admin",
    ])
  func steps(_ path: String) throws {
    #expect(try matches("GET /repos/*", "GET", path) == false)
    #expect(try matches("* *", "GET", path) == false)
  }

  @Test(
    "An escape that leads nowhere else is a part of its path",
    arguments: [
      "/repos/a%20b", "/repos/a%2Fb", "/repos/%C3%A4", "/repos/100%", "/repos/a+b,c(d)", "/repos/...", "/repos/a/",
    ])
  func escapes(_ path: String) throws { #expect(try matches("GET /repos/*", "GET", path)) }

  @Test(
    "Other texts are not patterns", arguments: ["GET", "/x", "GET  /x", "GET x", "G T /x", "GET *.com/x", "GET /x?y"])
  func none(_ text: String) { #expect(RequestPattern(text) == nil) }

  @Test("A rule with `requests` permits only these requests, and no token")
  func rule() {
    var rule = Rule(name: "r", who: .init(uid: 1), accounts: ["work"], access: [], methods: [RequestSend.name])
    rule.requests = [RequestPattern("GET /a/*")].compactMap(\.self)
    let policy = Policy(instance: .system, owner: 0, rules: [rule])
    let caller = Principal.process(Caller(uid: 1, gid: 1, groups: [], pid: 1))
    func allows(_ method: String, _ request: APIRequest?) -> Bool {
      policy.permission(.use, method, "work", caller, request: request) != nil
    }
    #expect(allows(RequestSend.name, APIRequest(method: "GET", host: "h", path: "/a/b")))
    #expect(!allows(RequestSend.name, APIRequest(method: "POST", host: "h", path: "/a/b")))
    #expect(!allows(RequestSend.name, APIRequest(method: "GET", host: "h", path: "/b")))
    #expect(allows(RequestSend.name, nil) && !allows(TokenGet.name, nil))
  }
}
