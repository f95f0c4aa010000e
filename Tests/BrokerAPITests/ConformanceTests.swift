import Foundation
import Testing

/// docs/developers/conformance.md: which test holds which check.
@Suite("The table of conformance")
struct ConformanceTests {
  static let root = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// A row of a table: what it is of, and its last cell.
  struct Row: Equatable {
    var title: String
    var tests: [Entry]
    /// Why there is none.
    var reason: String?
  }

  struct Entry: Equatable {
    var file: String
    var name: String
  }

  /// The rows of the tables with tests.
  static func rows(_ page: String) -> [Row] {
    page.split(separator: "\n").compactMap { line in
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      guard line.hasPrefix("|"), cells.count == 3, !["check", "rule"].contains(cells[0]), !cells[0].hasPrefix("--")
      else { return nil }
      if cells[2].hasPrefix("—") {
        return Row(title: cells[0], tests: [], reason: cells[2].dropFirst().trimmingCharacters(in: .whitespaces))
      }
      return Row(title: cells[0], tests: cells[2].components(separatedBy: "<br>").map(entry))
    }
  }

  private static func entry(_ text: String) -> Entry {
    guard let colon = text.range(of: ": ") else { return Entry(file: "", name: text) }
    return Entry(file: String(text[..<colon.lowerBound]), name: String(text[colon.upperBound...]))
  }

  /// What is wrong with a row, given the text of each file below Tests.
  static func problems(_ row: Row, _ text: (String) -> String?) -> [String] {
    if let reason = row.reason { return reason.isEmpty ? ["\(row.title): no test, and no reason"] : [] }
    var problems = row.tests.compactMap { entry -> String? in
      guard let source = text(entry.file) else { return "\(row.title): there is no file “\(entry.file)”" }
      return names(in: source).contains(entry.name) ? nil : "\(row.title): no test “\(entry.name)” in \(entry.file)"
    }
    // A search for the number finds the check.
    let own = "\(row.title). "
    if Int(row.title) != nil, !row.tests.contains(where: { $0.name.hasPrefix(own) || $0.name.contains("; \(own)") }) {
      problems.append("\(row.title): none of its tests has its number")
    }
    return problems
  }

  /// The names of the tests of a file.
  static func names(in source: String) -> Set<String> {
    Set(
      source.matches(of: /@Test\(\s*"((?:[^"\\]|\\.)*)"/).map { match in
        String(match.output.1).replacing("\\\"", with: "\"")
      })
  }

  static func page() throws -> String {
    try String(contentsOf: root.appendingPathComponent("docs/developers/conformance.md"), encoding: .utf8)
  }

  @Test("every check and every rule has its row, in their order")
  func complete() throws {
    let titles = Self.rows(try Self.page()).map(\.title)
    #expect(titles.compactMap(Int.init) == Array(1...58))
    #expect(
      titles.filter { Int($0) == nil } == [
        "When", "Clock", "Lost response", "invalid_grant", "Classes", "Waiters", "Reported bad tokens",
        "Negative results",
      ])
  }

  @Test("every named test exists in the named file; and one of a check's has its number")
  func present() throws {
    var files: [String: String] = [:]
    for row in Self.rows(try Self.page()) {
      let problems = Self.problems(row) { file in
        if files[file] == nil {
          files[file] = try? String(contentsOf: Self.root.appendingPathComponent("Tests/\(file)"), encoding: .utf8)
        }
        return files[file]
      }
      #expect(problems.isEmpty, "docs/developers/conformance.md: \(problems.joined(separator: "; "))")
    }
  }

  @Test("a false row is detected")
  func wrongRows() throws {
    let page = """
      | check | requirement | tests |
      |---|---|---|
      | 1 | a | T.swift: 1. there<br>T.swift: and "so" |
      | 2 | b | T.swift: 2. gone |
      | 3 | c | Other.swift: 3. there |
      | 4 | d | T.swift: 1. there |
      | 5 | e | — |
      | 6 | f | — it is impossible |
      | When | g | T.swift: 1. there |
      """
    let source = "@Test(\"1. there\") func a() {}\n@Test(\n  \"and \\\"so\\\"\", arguments: [1])\n// 2. gone"
    let problems = Self.rows(page).map { Self.problems($0) { $0 == "T.swift" ? source : nil } }
    #expect(
      problems == [
        [], ["2: no test “2. gone” in T.swift"], ["3: there is no file “Other.swift”"],
        ["4: none of its tests has its number"], ["5: no test, and no reason"], [], [],
      ])
  }
}
