import Broker
import Testing

@testable import GrantdConfiguration

@Suite struct FileSectionTests {
  private static let start = "[[file]]\naccount = \"work\"\npath = \"a\"\n"

  @Test("Each key of a token file arrives where it belongs") func keys() throws {
    let files = try Fixture().load(
      """
      [[file]]
      account = "work"
      path = "prometheus.service/token"
      user = "prometheus"
      mode = "0640"
      scopes = ["read"]
      resource = "https://api.example.com"
      min_ttl = "10m"
      [[file]]
      account = "work"
      path = "b"
      group = "operators"
      format = "env"
      variable = "GH_TOKEN"
      """
    ).tokenFiles
    #expect(files.map(\.place.path) == ["prometheus.service/token", "b"])
    #expect(files.map(\.reader) == [.user(117, gid: 117, groups: [117]), .group(900)])
    #expect(files.map(\.format) == [.token, .environment(variable: "GH_TOKEN")])
    #expect(files.map(\.mode) == [0o640, nil])
    #expect(files.map(\.scopes) == [["read"], nil] && files.map(\.resource) == ["https://api.example.com", nil])
    #expect(files.map(\.minimumTTL) == [.seconds(600), .seconds(60)])
  }

  @Test("Of a user's instance the reader is its owner, the place is anywhere, and other programs' files are changed")
  func ofUser() throws {
    let files = try Fixture().load(
      """
      [[file]]
      account = "work"
      path = "~/.config/rclone/rclone.conf"
      format = "json"
      ini_section = "drive"
      ini_key = "token"
      [[file]]
      account = "work"
      path = "/srv/a.json"
      json_pointer = "/a~1b/c~0d"
      """, home: "/home/ada"
    ).tokenFiles
    #expect(files.map(\.place.path) == ["/home/ada/.config/rclone/rclone.conf", "/srv/a.json"])
    #expect(files.map(\.place.member) == [.ini(section: "drive", key: "token"), .json(["a/b", "c~d"])])
    #expect(files.map(\.reader) == Array(repeating: .user(1000, gid: 1000, groups: [1000]), count: 2))
  }

  private static let faults: [(String, String)] = [
    ("[[file]]\npath = \"a\"\nuser = \"mail\"", "grantd.toml:1: [[file]] has no \"account\""),
    ("[[file]]\naccount = \"work\"\nuser = \"mail\"", "grantd.toml:1: [[file]] has no \"path\""),
    ("[file]\naccount = \"work\"", "grantd.toml:1: token files are written as [[file]], with two brackets"),
    ("\(start)", "grantd.toml:1: [[file]] says nobody who may read it: add user = \"…\" or group = \"…\""),
    ("\(start)user = \"nobody\"", "grantd.toml:4: \"user\" in [[file]]: there is no user \"nobody\""),
    ("\(start)group = \"no\"", "grantd.toml:4: \"group\" in [[file]]: there is no group \"no\""),
    ("\(start)user = \"mail\"\ngroup = \"operators\"", "grantd.toml:1: [[file]] has both \"user\" and \"group\""),
    (
      "\(start)user = \"mail\"\nmode = \"0644\"",
      "grantd.toml:5: \"mode\" in [[file]]: that lets others than the reader use the token"
    ),
    (
      "\(start)user = \"mail\"\nvariable = \"A\"",
      "grantd.toml:5: \"variable\" in [[file]] is for format = \"env\""
    ),
    ("\(start)user = \"mail\"\nformat = \"yaml\"", "grantd.toml:5: \"format\" in [[file]] must be"),
    (
      "\(start)user = \"mail\"\nformat = \"template\"",
      "grantd.toml:1: [[file]] has format = \"template\", and no \"template\""
    ),
    (
      "\(start)user = \"mail\"\nformat = \"template\"\ntemplate = \"x\"",
      "grantd.toml:6: \"template\" in [[file]]: it has no {{access_token}}"
    ),
    (
      "\(start)user = \"mail\"\njson_pointer = \"/a\"",
      "grantd.toml:5: \"json_pointer\" in [[file]] is for a user's instance"
    ),
    (
      "[[file]]\naccount = \"work\"\nuser = \"mail\"\npath = \"/etc/a\"",
      "grantd.toml:4: \"path\" in [[file]] is \"/etc/a\": the files of a system instance are below /run/grantd/files"
    ),
    (
      "[[file]]\naccount = \"work\"\nuser = \"mail\"\npath = \"a/../b\"",
      "grantd.toml:4: \"path\" in [[file]] must be a path, not \"a/../b\""
    ),
    (
      "\(start)user = \"mail\"\n\(start)user = \"mail\"",
      "grantd.toml:5: [[file]] with path \"a\" is there twice: the first is at grantd.toml:1"
    ),
  ]

  @Test(
    "What is wrong with a token file is said",
    arguments: faults)
  func fault(text: String, complaint: String) throws {
    let found = try Fixture().complaint(text)
    #expect(found.contains(complaint), "\(found)")
  }

  @Test("Values of other programs' files have both keys, and no permissions of their own")
  func members() throws {
    for (keys, complaint) in [
      ("ini_section = \"a\"", "[[file]] has \"ini_section\""),
      ("ini_section = \"a\"\nini_key = \"b\"\njson_pointer = \"/a\"", "use json_pointer alone"),
      ("json_pointer = \"a\"", "must be a JSON pointer"),
      ("json_pointer = \"/a\"\nmode = \"0600\"", "\"mode\" in [[file]] is for files of the broker's own"),
    ] {
      let found = try Fixture().complaint(Self.start + keys, home: "/home/ada")
      #expect(found.contains(complaint), "\(found)")
    }
  }
}
