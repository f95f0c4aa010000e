import Testing

@testable import CredentialHelpers

/// The protocols that hand over header fields: GOAUTH and Bazel's; and Terraform's, whose answer is as short.
@Suite struct HeaderTests {
  static let url = "https://Go.example.com:8443/mod/@v/list?x"

  @Test("go is answered when a server asked") func goAsks() throws {
    #expect(try request(GoAuth.self, [], "") == .answered(Reply()))
    #expect(try request(GoAuth.self, [Self.url], "HTTP/1.1 401 Unauthorized\n\n") == token(Self.url))
    #expect(GoAuth.input(Invocation(arguments: [])) == .none)
    #expect(GoAuth.input(Invocation(arguments: [Self.url])) == .blankLine)
    #expect(throws: Malformed.self) { try request(GoAuth.self, ["https://a b/"], "") }
    #expect(throws: Malformed.self) { try GoAuth(Invocation(arguments: [Self.url], account: "work"), input: []) }
  }

  @Test(
    "go gets the scheme that the server takes",
    arguments: [
      ("HTTP/1.1 404 Not Found\n\n", "Bearer T"), ("HTTP/1.1 401 x\nWWW-Authenticate: Bearer\n\n", "Bearer T"),
      ("HTTP/1.1 401 x\r\nwww-authenticate: Basic realm=\"x\"\r\n\r\n", "Basic b2F1dGgyOlQ="),
      ("HTTP/1.1 401 x\nWWW-Authenticate: Basic\nWWW-Authenticate: Bearer\n\n", "Bearer T"),
    ])
  func goScheme(input: String, field: String) throws {
    #expect(try answer(GoAuth.self, [Self.url], input) == "https://go.example.com:8443\n\nAuthorization: \(field)\n\n")
  }

  @Test("go keeps a token to the path of the mapping") func goPath() throws {
    let limited = IssuedToken(text: "T", path: "/mod")
    #expect(try answer(GoAuth.self, [Self.url], "", limited).hasPrefix("https://go.example.com:8443/mod\n\n"))
  }

  @Test("Base64 is that of RFC 4648") func base64() {
    for (text, encoded) in [
      ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ] {
      #expect(Base64.encoded(text.utf8) == encoded)
    }
  }

  @Test("bazel's get") func bazel() throws {
    let input = "{\"uri\":\"https://cache.example.com/x\",\"more\":1}"
    #expect(try request(Bazel.self, ["get"], input) == token("https://cache.example.com/x"))
    #expect(try request(Bazel.self, ["get"], "{\"uri\":\"grpcs://c/S/M\"}") == token("grpcs://c/S/M"))
    #expect(
      try answer(Bazel.self, ["get"], input)
        == "{\"headers\":{\"Authorization\":[\"Bearer T\"]},\"expires\":\"2026-01-01T00:59:59Z\"}\n")
    #expect(Bazel.notFound(Invocation(arguments: ["get"])) == Reply(text: "{\"headers\":{}}\n"))
    for (arguments, input) in [
      ([], input), (["store"], input), (["get"], "{"), (["get"], "{}"), (["get"], "{\"uri\":1}"),
    ] {
      #expect(throws: Malformed.self) { try request(Bazel.self, arguments, input) }
    }
  }

  @Test("terraform's get, store and forget") func terraform() throws {
    #expect(try request(Terraform.self, ["get", "App.terraform.io"], "") == token("app.terraform.io"))
    #expect(try request(Terraform.self, ["--x", "get", "h:8443"], "") == token("h:8443"))
    #expect(try answer(Terraform.self, ["get", "h"], "") == "{\"token\":\"T\"}\n")
    #expect(Terraform.notFound(Invocation(arguments: ["get", "h"])) == Reply(text: "{}\n"))
    #expect(Terraform.input(Invocation(arguments: ["store", "h"])) == .everything)
    for verb in ["store", "forget"] {
      guard case .answered(let reply) = try request(Terraform.self, [verb, "h"], "{}") else {
        Issue.record("\(verb) asks for a token")
        continue
      }
      #expect(reply.status == 1 && reply.out.isEmpty && reply.err != nil)
    }
    for arguments in [[], ["get"], ["get", "https://h"], ["get", "a b"], ["new", "h"]] {
      #expect(throws: Malformed.self) { try request(Terraform.self, arguments, "") }
    }
  }
}
