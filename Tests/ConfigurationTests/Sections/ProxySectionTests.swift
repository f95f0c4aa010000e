import OAuth
import Testing

@testable import GrantdConfiguration

@Suite struct ProxySectionTests {
  private func load(
    _ text: String, _ environment: [String: String] = [:], home: String? = "/home/ada"
  ) throws -> Settings {
    let one = try Fixture()
    try one.write("secret", "s3cret\n", mode: 0o600)
    try one.write("grantd.toml", text.replacing("FOLDER", with: one.folder))
    var sources = one.sources(home: home)
    sources.environment = environment
    return try Settings.load(sources)
  }

  @Test("the file's keys, with the password of a file")
  func keys() throws {
    let proxies = try load(
      """
      [proxy]
      https_proxy = "http://ada@proxy.example:3128"
      http_proxy = "other.example:8080"
      no_proxy = ["example.com", "10.0.0.0/8"]
      password_file = "FOLDER/secret"
      """
    ).proxies
    #expect(proxies.https?.authority == "proxy.example:3128" && proxies.https?.user == "ada")
    #expect(proxies.https?.password?.exposed == "s3cret")
    #expect(proxies.http?.authority == "other.example:8080" && proxies.http?.password == nil)
    #expect(proxies.proxy(isSecure: true, host: "a.example.com", port: 443) == nil)
    #expect(proxies.proxy(isSecure: true, host: "10.1.2.3", port: 443) == nil)
    #expect(proxies.proxy(isSecure: true, host: "a.example", port: 443) != nil)
  }

  @Test("the environment fills what the file does not have; an empty text means none")
  func environment() throws {
    let variables = [
      "https_proxy": "http://one:1", "HTTPS_PROXY": "http://two:2", "http_proxy": "three:3",
      "no_proxy": "a.example, b.example",
    ]
    let all = try load("", variables).proxies
    #expect(all.https?.authority == "one:1" && all.http?.authority == "three:3")
    #expect(all.proxy(isSecure: true, host: "b.example", port: 443) == nil)
    #expect(try load("", ["https_proxy": "", "HTTPS_PROXY": "two:2"]).proxies.https?.authority == "two:2")
    let mixed = try load("[proxy]\nhttps_proxy = \"\"\nno_proxy = []", variables).proxies
    #expect(mixed.https == nil && mixed.http?.authority == "three:3" && mixed.exceptions == .init())
  }

  @Test("a variable that cannot be used is ignored with a warning that has no password")
  func ignored() throws {
    let settings = try load("", ["https_proxy": "socks5://ada:s3cret@proxy:1080", "no_proxy": "a.example,http://b"])
    #expect(settings.proxies.https == nil && settings.proxies.exceptions.contains(host: "a.example", port: 443))
    #expect(settings.warnings.count == 2 && !settings.warnings.joined().contains("s3cret"))
  }

  @Test(
    "what is refused, with what to write",
    arguments: [
      ("https_proxy = \"http://ada:s3cret@proxy:3128\"", "password_file"),
      ("https_proxy = \"https://proxy:3128\"", "only proxies with an http URL"),
      ("http_proxy = \"http://proxy/x\"", "has no path"), ("no_proxy = [\"10.0.0.0/99\"]", "a network such as"),
      ("password_credential = \"p\"\nhttps_proxy = \"proxy\"", "http://USER@HOST:PORT"),
      ("proxy = \"p\"", "unknown key"),
    ])
  func refused(_ lines: String, _ words: String) throws {
    let complaint = try Fixture().complaint("[proxy]\n\(lines)")
    #expect(complaint.contains(words) && !complaint.contains("s3cret"))
  }
}
