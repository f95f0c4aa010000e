import Testing

@testable import CredentialHelpers

@Suite struct PythonKeyringTests {
  static let index = "https://pypi.example.com/simple/"

  @Test(
    "each form of the command line asks for the index",
    arguments: [
      (["get", index, "ada"], index, "ada"), (["--mode=creds", "--output=json", "get", index], index, nil),
      (["--mode=creds", "--output=json", "get", index, "ada"], index, "ada"),
      (["get", index, "--mode", "creds"], index, nil),
      (["get", "https://h:8443", ""], "https://h:8443", nil),
    ] as [([String], String, String?)])
  func eachForm(arguments: [String], place: String, username: String?) throws {
    #expect(try request(PythonKeyring.self, arguments, "") == token(place, username: username))
  }

  @Test(
    "an address without a scheme may be one of http, unless it stays on the machine",
    arguments: [
      ("pypi.example.com", true), ("pypi.example.com:443", true), ("pypi.example.com:8443/simple/", true),
      (index, false), ("http://pypi.example.com", true), ("localhost:8080", false), ("127.0.0.1", false),
      ("https://pypi.example.com", false),
    ])
  func schemeless(address: String, isReadable: Bool) throws {
    guard case .token(let asked) = try request(PythonKeyring.self, ["get", address, "ada"], "") else {
      Issue.record("no token is asked for")
      return
    }
    #expect(asked.isReadable == isReadable && asked.place == ServerLocation(address))
  }

  @Test(
    "the token goes to a host without a scheme where the mapping allows http",
    arguments: [("", "insecure"), ("allow_insecure_http = true", "entry")])
  func schemelessMapping(line: String, choice: String) throws {
    let text = "[[host]]\nname = \"pypi.example.com\"\naccount = \"work\"\n\(line)\n"
    let mapping = Mapping(files: [try MappingFile.parse(text)])
    guard case .token(let asked) = try request(PythonKeyring.self, ["get", "pypi.example.com", "ada"], "") else {
      return
    }
    #expect("\(mapping.choose(asked, for: "keyring"))".hasPrefix(choice))
    // Registries are asked over https, and have no scheme in their names.
    #expect(
      "\(mapping.choose(HelperTokenRequest(place: ServerLocation("pypi.example.com")), for: "docker"))".hasPrefix(
        "entry"))
  }

  @Test(
    "other commands are refused",
    arguments: [
      [], ["set", index, "ada"], ["del", index, "ada"], ["get"], ["get", "a", "b", "c"], ["--mode=x", "get", index],
      ["--list-backends"], ["get", index, "--output"], ["diagnose"],
    ])
  func otherCommands(arguments: [String]) {
    #expect(throws: Malformed.self) { try request(PythonKeyring.self, arguments, "") }
  }

  @Test("a service that is not a host belongs to another program") func services() throws {
    #expect(try request(PythonKeyring.self, ["get", "My Service", "ada"], "") == .answered(Reply(status: 1)))
  }

  @Test(
    "the answer has the form that was asked for",
    arguments: [
      (["get", index, "ada"], "T\n"), (["get", index, "--mode", "creds"], "oauth2\nT\n"),
      (["--mode=creds", "--output=json", "get", index], "{\"username\":\"oauth2\",\"password\":\"T\"}\n"),
      (["--output=json", "get", index, "ada"], "{\"password\":\"T\"}\n"),
      (["get", "https://europe-python.pkg.dev/p/simple/", "--mode", "creds"], "oauth2accesstoken\nT\n"),
    ])
  func theAnswer(arguments: [String], text: String) throws {
    #expect(try answer(PythonKeyring.self, arguments, "") == text)
  }

  @Test("a name that was asked for is kept") func username() throws {
    let named = IssuedToken(text: "T", username: "ada")
    #expect(try answer(PythonKeyring.self, ["get", Self.index, "--mode", "creds"], "", named) == "ada\nT\n")
  }

  @Test("not found is an exit status without a message") func notFound() {
    #expect(PythonKeyring.notFound(Invocation(arguments: [])) == Reply(status: 1))
    #expect(PythonKeyring.refusal(Problem("x"), Invocation(arguments: [])) == Reply(err: "x", status: 1))
  }
}
