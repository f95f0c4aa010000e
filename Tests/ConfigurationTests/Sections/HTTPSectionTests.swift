import Broker
import Grants
import Testing

@testable import GrantdConfiguration

@Suite struct HTTPSectionTests {
  @Test("HTTP is served nowhere, or at a loopback port and a socket")
  func places() throws {
    #expect(try Fixture().load("[http]").http == .init())
    let settings = try Fixture().load("[http]\nlisten = \"127.0.0.1:7817\"\nunix = \"http.sock\"").http
    #expect(settings.listen == .loopback(host: "127.0.0.1", port: 7817) && settings.unix == "http.sock")
  }

  @Test(
    "Other places are refused with what to write",
    arguments: [
      ("listen = \"0.0.0.0:7817\"", "can be reached from other machines"),
      ("listen = \"/run/http.sock\"", "write it as unix"), ("unix = \"../http.sock\"", "write it without"),
      ("unix = \"\"", "write it without"), ("port = 1", "unknown key"),
    ])
  func refused(_ line: String, _ complaint: String) throws {
    #expect(try Fixture().complaint("[http]\n\(line)").contains(complaint))
  }

  @Test("A handle means an account")
  func handles() throws {
    let handles = try Fixture().load(
      "[[handle]]\nname = \"metrics\"\naccount = \"work\"\nscopes = [\"a\"]\n[[handle]]\nname = \"m2\"\naccount = \"w\""
    ).loopback.handles
    let work = try #require(AccountName(rawValue: "work"))
    let other = try #require(AccountName(rawValue: "w"))
    #expect(handles == [.init(name: "metrics", account: work, scopes: ["a"]), .init(name: "m2", account: other)])
  }

  @Test("A handle has a name and an account, and is there once")
  func badHandles() throws {
    #expect(try Fixture().complaint("[[handle]]\naccount = \"w\"").contains("[[handle]] has no \"name\""))
    #expect(try Fixture().complaint("[[handle]]\nname = \"w\"").contains("[[handle]] has no \"account\""))
    #expect(try Fixture().complaint("[handle]\nname = \"w\"").contains("with two brackets"))
    let twice = "[[handle]]\nname = \"w\"\naccount = \"w\"\n"
    #expect(try Fixture().complaint(twice + twice).contains("is there twice"))
  }
}
