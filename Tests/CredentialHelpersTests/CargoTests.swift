import BrokerAPI
import Testing

@testable import CredentialHelpers

@Suite struct CargoTests {
  private static func line(_ kind: String, _ args: String = "[]") -> String {
    "{\"v\":1,\"registry\":{\"index-url\":\"sparse+https://Cargo.example.com/index/\",\"name\":\"own\",\"headers\":[]},"
      + "\"kind\":\"\(kind)\",\"operation\":\"read\",\"args\":\(args)}\n"
  }

  @Test("the helper says its version first") func greeting() {
    #expect(Cargo.greeting(Invocation(arguments: ["--cargo-plugin"])) == Array("{\"v\":[1]}\n".utf8))
  }

  @Test("get asks for the registry's host, or for the account of the configuration") func get() throws {
    let place = "https://cargo.example.com/index/"
    #expect(try request(Cargo.self, ["--cargo-plugin"], Self.line("get")) == token(place))
    for args in ["[\"--account\",\"work\"]", "[\"--account=work\"]"] {
      #expect(try request(Cargo.self, [], Self.line("get", args)) == token(place, account: "work"))
    }
    #expect(try request(Cargo.self, [], "") == .answered(Reply()))
  }

  @Test("login and logout are not supported") func others() throws {
    for kind in ["login", "logout", "new"] {
      #expect(
        try request(Cargo.self, [], Self.line(kind))
          == .answered(Reply(text: "{\"Err\":{\"kind\":\"operation-not-supported\"}}\n")))
    }
  }

  @Test(
    "invalid requests are refused",
    arguments: ["x\n", "{}\n", "{\"v\":2,\"kind\":\"get\"}\n", "{\"v\":1,\"kind\":\"get\",\"registry\":{}}\n", "[]\n"])
  func noRequest(input: String) {
    #expect(throws: Malformed.self) { try request(Cargo.self, [], input) }
  }

  @Test("the answer is the header field's value, until its end") func theAnswer() throws {
    #expect(
      try answer(Cargo.self, [], Self.line("get"))
        == "{\"Ok\":{\"kind\":\"get\",\"token\":\"Bearer T\",\"cache\":\"expires\",\"expiration\":1767229199,"
        + "\"operation_independent\":true}}\n")
    #expect(try answer(Cargo.self, [], Self.line("get"), .init(text: "T")).contains("\"cache\":\"session\""))
  }

  @Test("cargo continues for an unknown host, and shows a problem") func refusals() {
    let call = Invocation(arguments: [])
    #expect(Cargo.notFound(call).text == "{\"Err\":{\"kind\":\"url-not-supported\"}}\n")
    #expect(
      Cargo.refusal(Problem("a \"b\""), call)
        == Reply(text: "{\"Err\":{\"kind\":\"other\",\"message\":\"a \\\"b\\\"\",\"caused-by\":[]}}\n"))
  }
}
