import Foundation
import Grants
import Providers
import Testing

@testable import GrantdConfiguration

@Suite("The kinds of provider") struct KindTests {
  private static let systems = ProviderKind.allCases.filter { $0.section != nil }.map(\.rawValue)

  private func file(_ path: String) throws -> String {
    try String(contentsOfFile: "\(Fixture.package)/\(path)", encoding: .utf8)
  }

  @Test("each has a page, whose first example makes a provider of that kind", arguments: systems)
  func page(kind: String) throws {
    let page = try file("docs/providers/\(kind).md")
    let example = try #require(page.components(separatedBy: "```toml\n").dropFirst().first)
    let settings = try Fixture().load(example.components(separatedBy: "```")[0])
    #expect(settings.systems.map { $0.provider.description.kind } == [kind])
    #expect(settings.allProviders.count == 1 && settings.warnings.isEmpty)
  }

  @Test("each page of a kind is of one that there is")
  func pages() throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: "\(Fixture.package)/docs/providers")
    let kinds = try names.compactMap { name in
      try file("docs/providers/\(name)").split(separator: "\n").dropFirst().first?
        .firstMatch(of: /^`kind = "(\w+)"`/).map { String($0.1) }
    }
    #expect(kinds.sorted() == Self.systems.sorted())
  }

  @Test("each is in the list of providers and in the configuration that is shipped", arguments: systems)
  func lists(kind: String) throws {
    #expect(try file("docs/providers.md").contains("(providers/\(kind).md)"), "docs/providers.md has no row")
    #expect(try file("docs/providers.md").contains("`kind = \"\(kind)\"`"), "docs/providers.md has no row")
    #expect(try file("config/grantd.toml").contains("\n#kind = \"\(kind)\"\n"), "config/grantd.toml has no example")
  }

  @Test(
    "none is named outside Providers and Configuration",
    arguments: ["Core/Broker", "Clients/BrokerAPI", "Core/Grants", "Programs/grantctl", "Programs/grantd"])
  func secrecy(room: String) throws {
    let folder = "\(Fixture.package)/Sources/\(room)"
    let paths = try #require(FileManager.default.enumerator(atPath: folder)).compactMap { $0 as? String }
    let sources = paths.filter { $0.hasSuffix(".swift") }
    #expect(sources.count > 5)
    // `oauth2` is also a part of addresses.
    let kinds = ProviderKind.allCases.filter { $0 != .oauth2 }.map(\.rawValue)
    // They write sections of the configuration, or name programs such as oidc-agent.
    let writers = ["Migration/", "Setup/", "Accounts/ImportCommand.swift", "Providers/Registrations+ByHand.swift"]
    for source in sources where !writers.contains(where: source.hasPrefix) {
      for line in try file("Sources/\(room)/\(source)").split(separator: "\n") {
        // What a reply looks like.
        if line.contains("\"kind\": \"") { continue }
        let words = line.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
        #expect(kinds.allSatisfy { !words.contains($0) } && !line.contains("\"oauth2\""), "\(room)/\(source): \(line)")
      }
    }
  }
}
