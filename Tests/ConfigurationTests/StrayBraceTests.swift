import Testing

@testable import GrantdConfiguration

@Suite("A brace in a list")
struct StrayBraceTests {
  @Test(
    "it is an error that names its place, and not the end of the process",
    arguments: [
      ("a = [}", 1, 6), ("a = [1,\n  # ]\n  }", 3, 3), ("a = [[[ }]]]", 1, 9),
      ("x = \"\"\"\n[}\n\"\"\"\na = [ }", 4, 7),
      ("x = '\\'\na = [}", 2, 6), ("x = \"\\\"[}\"\na = [\"\",}", 2, 9), ("a = {b = [}]}", 1, 11),
    ])
  func found(text: String, line: Int, column: Int) {
    #expect(StrayBrace.find(in: text) == StrayBrace(line: line, column: column))
    var report = Report()
    #expect(Document.parse(text, file: "f.toml", report: &report) == nil)
    #expect(report.error?.description == "f.toml:\(line):\(column): is no TOML: unexpected }")
  }

  @Test(
    "others are none",
    arguments: [
      "a = [{}]", "a = {}", "a = [{b = 1}, {c = []}]", "a = \"[}\"", "a = '[}'", "a = 1 # [}", "a = [\"}\"]",
      "a = \"\"\"\n[}\"\"\"\"\"", "a = '''\n,}'''", "\"[}\" = 1",
    ])
  func none(text: String) {
    var report = Report()
    #expect(Document.parse(text, file: "f.toml", report: &report) != nil, "\(String(describing: report.error))")
  }
}
