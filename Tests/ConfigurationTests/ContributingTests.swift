import Foundation
import Testing

@Suite("CONTRIBUTING") struct ContributingTests {
  @Test("its examples are in the files that they name")
  func examples() throws {
    let page = try String(contentsOfFile: "\(Fixture.package)/CONTRIBUTING.md", encoding: .utf8)
    let blocks = page.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
    #expect(blocks.count > 5)
    for block in blocks {
      var lines = block.components(separatedBy: "\n")
      let path = try #require(lines.removeFirst().wholeMatch(of: /\/\/ (Sources\/.+\.swift)/)).1
      let source = try String(contentsOfFile: "\(Fixture.package)/\(path)", encoding: .utf8)
      // `…` leaves lines out.
      for part in lines.split(whereSeparator: { $0.trimmingCharacters(in: .whitespaces) == "…" }) {
        let text = part.joined(separator: "\n").trimmingCharacters(in: .newlines)
        #expect(source.contains(text), "\(path)")
      }
    }
  }
}
