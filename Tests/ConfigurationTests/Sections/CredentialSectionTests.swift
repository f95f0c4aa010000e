import Broker
import Foundation
import Grants
import Testing

@testable import GrantdConfiguration

@Suite struct CredentialSectionTests {
  @Test("Each key of a credential arrives where it belongs, and credentials of several files are appended")
  func keys() throws {
    let fixture = try Fixture()
    try fixture.write(
      "grantd.d/more.toml", "[credentials]\nby_account = false\n[[credential]]\nid = \"b\"\naccount = \"work\"")
    let settings = try fixture.load(
      """
      [[credential]]
      id = "mail token"
      account = "work@example.com"
      units = ["mail-sync.service", "mail@*.service", "*"]
      scopes = ["read", "write"]
      resource = "https://api.example.com"
      min_ttl = "20m"
      """)
    let offers = settings.credentials.offers
    #expect(offers.map(\.id) == ["mail token", "b"])
    #expect(offers.map(\.account.rawValue) == ["work@example.com", "work"])
    #expect(offers.map(\.units) == [["mail-sync.service", "mail@*.service", "*"], nil])
    #expect(offers.map(\.scopes) == [["read", "write"], nil])
    #expect(offers.map(\.resource) == ["https://api.example.com", nil])
    #expect(offers.map(\.minimumTTL) == [.seconds(1200), nil])
    #expect(!settings.credentials.byAccount)
    #expect(settings.warnings.isEmpty)
  }

  @Test("Without a word accounts can be named, and nothing else is there")
  func standard() throws {
    let settings = try Fixture().load("[credentials]\n")
    #expect(settings.credentials == UnitCredentials(offers: [], byAccount: true))
  }

  @Test(
    "What is wrong with a credential is said",
    arguments: [
      (
        "[[credential]]\naccount = \"work\"", "grantd.toml:1: [[credential]] has no \"id\""
      ),
      ("[[credential]]\nid = \"a\"", "grantd.toml:1: [[credential]] has no \"account\""),
      (
        "[credential]\nid = \"a\"\naccount = \"work\"",
        "grantd.toml:1: credentials are written as [[credential]], with two brackets"
      ),
      (
        "[[credentials]]\nid = \"a\"\naccount = \"work\"",
        "grantd.toml:1: credentials are written as [[credential]]; [credentials] is one table"
      ),
      (
        "[[credential]]\nid = \"a\"\nacount = \"work\"",
        "grantd.toml:3: unknown key \"acount\" in [[credential]]: did you mean \"account\"?"
      ),
      (
        "[credentials]\nby_acount = true",
        "grantd.toml:2: unknown key \"by_acount\" in [credentials]: did you mean \"by_account\"?"
      ),
      (
        "[[credential]]\nid = \"a\"\naccount = \"work\"\n[[credential]]\nid = \"a\"\naccount = \"home\"",
        "grantd.toml:4: [[credential]] with id \"a\" is there twice: the first is at grantd.toml:1"
      ),
      (
        "[[credential]]\nid = \"a/b\"\naccount = \"work\"",
        "grantd.toml:2: \"id\" in [[credential]] must be the name of a credential, not \"a/b\": use 1 to 255 printable "
          + "characters of ASCII without \"/\" and \":\""
      ),
      (
        "[[credential]]\nid = \"a\"\naccount = \"a b\"",
        "grantd.toml:3: \"account\" in [[credential]] must be the name of an account, not \"a b\""
      ),
      (
        "[[credential]]\nid = \"a\"\naccount = \"work\"\nunits = [\"backup\"]",
        "grantd.toml:4: \"units\" in [[credential]] must be a list of units' names, not one with \"backup\": write it "
          + "whole, such as backup.service"
      ),
      (
        "[[credential]]\nid = \"a\"\naccount = \"work\"\nunits = []",
        "grantd.toml:4: \"units\" in [[credential]] must be a list of units' names, not an empty one"
      ),
      (
        "[[credential]]\nid = \"a\"\naccount = \"work\"\nmin_ttl = \"0s\"",
        "grantd.toml:4: \"min_ttl\" in [[credential]] must be a duration from 1s to 1d, such as \"30s\", \"5m\" or \"1h\", "
          + "not \"0s\""
      ),
    ])
  func wrong(_ text: String, _ complaint: String) throws {
    let fixture = try Fixture()
    let found = try fixture.complaint(text)
    #expect(found.split(separator: "\n").first.map(String.init) == complaint)
  }

  @Test("An id is what systemd takes for the name of a credential", arguments: ["", ".", "..", "a:b", "é", "a\\u007F"])
  func ids(_ id: String) throws {
    #expect(try Fixture().complaint("[[credential]]\nid = \"\(id)\"\naccount = \"work\"").contains(":2: \"id\" in"))
  }
}
