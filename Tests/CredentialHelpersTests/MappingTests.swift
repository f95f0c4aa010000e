import Testing

@testable import CredentialHelpers

@Suite struct MappingTests {
  static let text = #"""
    # Which host is which account.
    [[host]]
    name = "git.example.com"
    account = "work"

    [[host]]   # another team's
    name = 'Git.Example.com.'
    account = "team"
    path = "/team"

    [[host]]
    name = "*.example.com"
    account = "wild"
    scopes = ["a", "b"]
    [[host]]
    name = "registry.example.com:5000"
    account = "images"
    username = "robot"
    helpers = ["git"]
    authtype = "bearer"
    [[host]]
    name = "two.example.net"
    account = "ada"
    [[host]]
    name = "two.example.net"
    account = "bob"
    [[host]]
    name = "plain.example.net:80"
    account = "plain"
    allow_insecure_http = true
    """#

  static func mapping() throws -> Mapping { Mapping(files: [try MappingFile.parse(text)]) }

  private static func described(_ choice: Mapping.Choice) -> String {
    switch choice {
    case .entry(let entry): entry.account
    case .nobody: "nobody"
    case .ambiguous(let names): "ambiguous: \(names.joined(separator: " "))"
    case .insecure(let entry): "insecure: \(entry.account)"
    }
  }

  @Test(
    "the most specific entry is taken",
    arguments: [
      ("https://git.example.com", "work"), ("https://GIT.example.com.:443/x", "work"),
      ("https://git.example.com/team/x.git", "team"), ("https://git.example.com/teams", "work"),
      ("https://git.example.com/team/../other", "work"), ("https://git.example.com/team/%2e%2e/other", "work"),
      ("https://git.example.com/team/.%2E/other", "work"), ("https://git.example.com/team/%2e/x", "work"),
      ("https://git.example.com/team/./x", "work"), ("https://git.example.com/team/..;a/other", "work"),
      ("https://git.example.com/team/a%2f..%2f..%2fother", "work"), ("https://git.example.com/team/a%2Fb", "work"),
      ("https://git.example.com/team/..%5cother", "work"), ("https://git.example.com/team/a%5Cb", "work"),
      ("https://git.example.com/team/a%20b/..c", "team"), ("https://git.example.com/team/", "team"),
      ("https://git.example.com/team/\u{301}x/../../other", "work"),
      ("https://git.example.com/x/../\u{301}team/x", "work"), ("https://git.example.com/team\u{301}/x", "work"),
      ("https://a.b.example.com", "wild"), ("https://example.com", "nobody"), ("https://badexample.com", "nobody"),
      ("https://git.example.com:8443", "nobody"), ("registry.example.com:5000", "images"),
      ("https://registry.example.com", "wild"), ("https://two.example.net", "ambiguous: ada bob"),
      ("https://bob@two.example.net", "bob"), ("http://git.example.com", "insecure: work"),
      ("http://git.example.com:443", "nobody"), ("http://plain.example.net", "plain"),
      ("https://git.example.com.evil.org", "nobody"), ("https://git.example.com@evil.org", "nobody"),
    ])
  func theMostSpecificEntryIsTaken(address: String, chosen: String) throws {
    let request = HelperTokenRequest(place: ServerLocation(address))
    #expect(Self.described(try Self.mapping().choose(request, for: "git")) == chosen)
  }

  @Test("paths are compared by bytes, and git's may have characters that URLs lack") func bytes() throws {
    let text = "[[host]]\nname = \"h\"\naccount = \"a\"\npath = \"/\u{E9}\"\n"
    let mapping = Mapping(files: [try MappingFile.parse(text)])
    for (path, chosen) in [("/\u{E9}/x", "a"), ("/e\u{301}/x", "nobody"), ("/\u{E9}/..\\x", "nobody")] {
      let place = ServerLocation(scheme: "https", host: try #require(HostName("h")), path: path)
      #expect(Self.described(mapping.choose(HelperTokenRequest(place: place), for: "git")) == chosen, "\(path)")
    }
  }

  @Test("an entry for other helpers is not taken") func helpers() throws {
    let request = HelperTokenRequest(place: ServerLocation("registry.example.com:5000"))
    #expect(Self.described(try Self.mapping().choose(request, for: "docker")) == "nobody")
  }

  @Test("the first file that has the host wins") func firstFile() throws {
    let own = try MappingFile.parse("[[host]]\nname = \"*.example.com\"\naccount = \"own\"")
    let mapping = Mapping(files: [own] + (try Self.mapping()).files)
    #expect(
      Self.described(mapping.choose(.init(place: ServerLocation("https://git.example.com")), for: "git")) == "own")
    #expect(
      Self.described(mapping.choose(.init(place: ServerLocation("https://plain.example.net:80")), for: "git"))
        == "plain")
  }

  @Test("all keys are read") func allKeys() throws {
    let entry = try #require(try Self.mapping().files[0].first { $0.account == "images" })
    #expect(entry.port == 5000 && entry.username == "robot" && entry.helpers == ["git"] && entry.isBearer)
    #expect(try Self.mapping().files[0][2].scopes == ["a", "b"])
    let text = try MappingFile.parse(
      "[[host]]\r\nname = \"[::1]:8443\"\r\naccount = \"a\\\"\\\\b\"\r\nresource = 'r'\r\n")
    #expect(text[0].host.description == "::1" && text[0].account == "a\"\\b" && text[0].resource == "r")
  }

  @Test(
    "a fault has its line",
    arguments: [
      ("name = \"a\"", 1), ("\n[host]", 2), ("[[host]]\nname \"a\"", 2), ("[[host]]\nname = a", 2),
      ("[[host]]\nname = \"a", 2), ("[[host]]\nname = \"a\" account = \"b\"", 2), ("[[host]]\naccount = \"b\"", 1),
      ("[[host]]\nname = \"a\"", 1), ("[[host]]\nname = \"https://a/\"\naccount = \"b\"", 1),
      ("[[host]]\nname = \"a\"\nname = \"b\"", 3), ("[[host]]\nname = \"a\"\naccount = \"b\"\nx = \"c\"", 1),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\nscopes = \"c\"", 1),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\nscopes = [\"c\" \"d\"]", 4),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\nhelpers = [\"gti\"]", 1),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\npath = \"x\"", 1),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\npath = \"/x%2Fy\"", 1),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\npath = \"/x/../y\"", 1),
      ("[[host]]\nname = \"a\"\naccount = \"b\"\nauthtype = \"digest\"", 1),
      ("[[host]]\nname = \"a\"\naccount = \"\"", 1), ("[[host]]\nname = \"a\\n\"", 2), ("\u{1}", 1),
    ])
  func aFaultHasItsLine(text: String, line: Int) {
    #expect { try MappingFile.parse(text) } throws: { ($0 as? MappingFile.Fault)?.line == line }
  }
}
