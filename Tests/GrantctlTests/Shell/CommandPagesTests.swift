import ArgumentParser
import BrokerAPI
import Foundation
import Testing

@testable import grantctl

/// The tables of the documentation that repeat tables of the program.
@Suite struct CommandPagesTests {
  @Test("each page has all rows of its table, and no others") func eachPageHasAllRows() throws {
    let statuses = try rows(of: "programs.md").filter { $0.dropFirst(2).first?.isNumber == true }
    #expect(statuses == ExitStatus.allCases.map { "| \($0.rawValue) | \($0.meaning) |" })
    #expect(Grantctl.helpMessage(columns: 80).contains(ExitStatus.table))
    var commands: [String] = []
    for command in Grantctl.configuration.groupedSubcommands.flatMap(\.subcommands) {
      let name = command.configuration.commandName ?? ""
      let nested = command.configuration.subcommands.compactMap { $0.configuration.commandName }
      commands += nested.isEmpty ? [name] : nested.map { "\(name) \($0)" }
    }
    let documented = try rows(of: "README.md").drop { $0 != "| commands | how-to |" }.dropFirst()
      .prefix { $0.hasPrefix("| `") }.compactMap { $0.split(separator: "|").first?.split(separator: "`") }
      .flatMap { $0.enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) } }
    #expect(documented.sorted() == commands.sorted())
    let checks = try rows(of: "troubleshooting.md").drop { $0 != "| check | passes if |" }.dropFirst()
    #expect(Array(checks) == CheckName.allCases.map { "| \($0.rawValue) | \($0.meaning) |" })
  }

  /// Rows of the tables of a page in docs, without the lines below their headings.
  private func rows(of page: String) throws -> [String] {
    let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../../docs/\(page)")
    let text = try String(contentsOf: page, encoding: .utf8)
    return text.split(separator: "\n").filter { $0.hasPrefix("| ") }.map(String.init)
  }
}
