import Foundation
import Grants
import Providers
import Testing

@testable import GrantdConfiguration

@Suite("The pages on single providers")
struct PageTests {
  static let pages: [(name: String, blocks: Int)] = [("7pass", 5), ("dropbox", 4), ("uber", 4)]

  @Test(
    "Each configuration on them is right as it is copied: the first alone, and with each that follows", arguments: pages
  )
  func copied(name: String, blocks count: Int) throws {
    let page = try String(contentsOfFile: "\(Fixture.package)/docs/providers/\(name).md", encoding: .utf8)
    let blocks = page.components(separatedBy: "```toml\n").dropFirst().compactMap {
      $0.components(separatedBy: "```").first
    }
    #expect(blocks.count == count)
    for more in [""] + blocks.dropFirst() {
      let fixture = try Fixture()
      try fixture.write("\(name).secret", "x", mode: 0o600)
      // The next block replaces the one above it.
      let keys = more.split(separator: "\n").compactMap { $0.split(separator: " ").first }
      let base = blocks[0].split(separator: "\n").filter { line in !keys.contains { line.hasPrefix("\($0) ") } }
      let text = (base + [more[...]]).joined(separator: "\n").replacing("/etc/grantd", with: fixture.folder)
      let settings = try fixture.load(text)
      #expect(settings.providers.map(\.name.rawValue) == [name] && settings.warnings.isEmpty, "\(text)")
    }
  }
}
