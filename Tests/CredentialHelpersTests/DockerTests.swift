import Testing

@testable import CredentialHelpers

@Suite struct DockerTests {
  @Test(
    "get asks for the registry",
    arguments: [
      ("registry.example.com:5000", "registry.example.com:5000"),
      ("registry.example.com:5000\n", "registry.example.com:5000"),
      ("https://index.docker.io/v1/", "https://index.docker.io/v1/"),
      ("Registry.Example.com.\r\n", "registry.example.com"),
      ("registry.example.com/team/image", "registry.example.com/team/image"),
    ])
  func getAsks(input: String, place: String) throws {
    #expect(try request(Docker.self, ["get"], input) == token(place))
  }

  @Test("an invalid registry is refused", arguments: ["", "\n", "a b", "a\nb", "https://", "\0"])
  func noRegistry(input: String) {
    #expect(throws: Malformed.self) { try request(Docker.self, ["get"], input) }
  }

  @Test("a stored token is for the registry of an account") func store() throws {
    let input = "{\"ServerURL\":\"h:5000\",\"Username\":\"ada\",\"Secret\":\"x\"}"
    guard case .ours(let asked, let reply, let problem) = try request(Docker.self, ["store"], input) else {
      Issue.record("store is answered without a look at the mapping")
      return
    }
    #expect(asked == HelperTokenRequest(place: ServerLocation("h:5000"), username: "ada") && reply == Reply())
    #expect(problem.line.contains("no account is for h:5000"))
    for input in ["", "h:5000", "{}", "{\"ServerURL\":\"a b\"}", "[]"] {
      #expect(throws: Malformed.self) { try request(Docker.self, ["store"], input) }
    }
  }

  @Test("erase does nothing, and list has none") func others() throws {
    #expect(try request(Docker.self, ["erase"], "h") == .answered(Reply()))
    #expect(try request(Docker.self, ["list"], "") == .answered(Reply(text: "{}\n")))
    #expect(throws: Malformed.self) { try request(Docker.self, ["new"], "") }
    #expect(throws: Malformed.self) { try request(Docker.self, [], "") }
  }

  @Test("the answer has the registry of the request") func theAnswer() throws {
    #expect(
      try answer(Docker.self, ["get"], "Registry.example.com:5000\n")
        == "{\"ServerURL\":\"Registry.example.com:5000\",\"Username\":\"oauth2\",\"Secret\":\"T\"}\n")
    let named = IssuedToken(text: "T", username: "ada")
    #expect(try answer(Docker.self, ["get"], "gcr.io", named).contains("\"Username\":\"ada\""))
    #expect(try answer(Docker.self, ["get"], "gcr.io").contains("\"Username\":\"oauth2accesstoken\""))
  }

  @Test("not found has the words that the programs know; a problem is on both outputs") func refusals() {
    let get = Invocation(arguments: ["get"])
    #expect(Docker.notFound(get) == Reply(text: "credentials not found in native keychain\n", status: 1))
    #expect(Docker.refusal(Problem("x"), get) == Reply(text: "x\n", err: "x", status: 1))
  }
}
