import BrokerAPI
import Testing

@testable import CredentialHelpers

@Suite struct ToolConfigurationTests {
  private static let block = TextBlock(label: "git work", text: "[a]\n\tb = c")
  private static let whole = "# >>> grantd: git work\n[a]\n\tb = c\n# <<< grantd: git work\n"

  @Test(
    "a block is added once, and taken out again",
    arguments: [
      ("", whole), ("x\n", "x\n\n" + whole), ("x", "x\n\n" + whole), ("x\n\n", "x\n\n\n" + whole),
      (
        "# >>> grantd: git home\ny\n# <<< grantd: git home\n",
        "# >>> grantd: git home\ny\n# <<< grantd: git home\n\n" + whole
      ),
    ])
  func added(file: String, merged: String) {
    #expect(Self.block.merged(into: file) == merged)
    #expect(Self.block.merged(into: merged) == merged)
    // A newline at the end of the file stays.
    #expect(Self.block.removed(from: merged) == (file == "x" ? "x\n" : file))
    #expect(Self.block.removed(from: file) == file)
  }

  @Test("blocks are taken out in any order, and their labels are known") func severalBlocks() {
    let other = TextBlock(label: "git home", text: "x")
    let both = other.merged(into: Self.block.merged(into: ""))
    #expect(TextBlock.labels(in: both) == ["git work", "git home"])
    #expect(other.removed(from: Self.block.removed(from: both)) == "")
    #expect(Self.block.removed(from: other.removed(from: both)) == "")
    #expect(Self.block.removed(from: both) == other.whole)
  }

  @Test("a changed block stays in its place") func changed() {
    var other = Self.block
    other.text = "[d]"
    let file = "x\n\n" + Self.whole + "y\n"
    #expect(other.merged(into: file) == "x\n\n# >>> grantd: git work\n[d]\n# <<< grantd: git work\ny\n")
  }

  @Test("a block at the start comes before tables") func start() {
    let block = TextBlock(label: "uv work", text: "a = 1", position: .start)
    let merged = block.merged(into: "[t]\n")
    #expect(merged == "# >>> grantd: uv work\na = 1\n# <<< grantd: uv work\n\n[t]\n")
    #expect(block.merged(into: merged) == merged && block.removed(from: merged) == "[t]\n")
  }

  @Test("a block without its end is not taken for one") func noEnd() {
    let file = "# >>> grantd: git work\n[a]\n"
    #expect(Self.block.removed(from: file) == file)
    #expect(Self.block.merged(into: file) == file + "\n" + Self.whole)
  }

  @Test("contradicting entries are found, except in the block itself") func conflicts() {
    let settings: [TextBlock.Conflict] = [.start("[global]"), .start("a ="), .line("account work")]
    for line in [" [global] ", "[global] # x", "a=1", "\"a\" = 1", "account  work"] {
      #expect(Self.block.conflict(in: "x\n\(line)\n", with: settings) == line)
    }
    #expect(Self.block.conflict(in: "account works\n", with: settings) == nil)
    #expect(Self.block.conflict(in: "ab = 1\n[globals]\n# [global]x\n", with: settings) == nil)
    #expect(Self.block.conflict(in: Self.whole, with: [.start("[a]")]) == nil)
  }

  @Test(
    "a member is added once, and taken out again",
    arguments: [
      ("{}", "{\"c\":{\"h\":\"g\"}}"),
      ("{\"auths\":{},\"c\":{\"x\":\"y\"}}", "{\"auths\":{},\"c\":{\"x\":\"y\",\"h\":\"g\"}}"),
    ])
  func member(file: String, merged: String) throws {
    let member = JSONMember(path: ["c", "h"], value: "g")
    let json = try JSON.parse(Array(file.utf8))
    let made = try #require(member.merged(into: json))
    #expect(String(decoding: made.serialized(), as: UTF8.self) == merged)
    #expect(member.merged(into: made) == made)
    #expect(member.removed(from: made) == json)
    #expect(member.removed(from: json) == json)
  }

  @Test("another value is not removed, and a text that is not an object is kept") func otherValues() {
    let member = JSONMember(path: ["c", "h"], value: "g")
    #expect(member.removed(from: ["c": ["h": "other"]]) == ["c": ["h": "other"]])
    #expect(member.merged(into: ["c": "text"]) == nil && member.merged(into: []) == nil)
  }

  @Test("the entry of the mapping is one that the mapping reads") func entries() throws {
    for tool in Tool.all {
      let address =
        tool.need == .host || tool.need == .mailServer ? "h.example.com:8443" : "https://h.example.com:8443/simple/"
      let target = ToolTarget(
        account: "a b", place: ServerLocation(address), address: address, user: "ada@example.com", role: "r")
      for case .text(let edit) in tool.make(target).edits where edit.file == "$CONFIG/grantd/helper.toml" {
        let entries = try MappingFile.parse(edit.block.whole)
        #expect(entries.map(\.account) == ["a b"] && entries[0].port == 8443, "\(tool.name)")
      }
    }
  }

  @Test("each tool has its own name, and its command reaches the same broker") func tools() {
    #expect(Set(Tool.names).count == Tool.names.count)
    let target = ToolTarget(account: "work", place: ServerLocation("h"), address: "h", options: " --system")
    guard case .text(let edit) = Tool.git.make(target).edits[0] else { return }
    #expect(edit.block.text.contains("helper = \"!grantctl helper git --system --account work\""))
  }
}
