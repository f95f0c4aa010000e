import Testing

@testable import GrantdConfiguration

@Suite("A character that TOML does not have there")
struct StrayCharacterTests {
  static let value = "value: texts and dates need quotes"

  @Test(
    "it is an error that names its place, and not the end of the process",
    arguments: [
      ("a = [}", 1, 6, "}"), ("a = [1,\n  # ]\n  }", 3, 3, "}"), ("a = [[[ }]]]", 1, 9, "}"),
      ("x = \"\"\"\n[}\n\"\"\"\na = [ }", 4, 7, "}"), ("x = '\\'\na = [}", 2, 6, "}"),
      ("x = \"\\\"[}\"\na = [\"\",}", 2, 9, "}"), ("a = {b = [}]}", 1, 11, "}"),
      ("[\u{2}a]\nb = 1", 1, 2, "control character U+0002"), ("a = 1\n[a]\rb = 1", 2, 4, "control character U+000D"),
      ("a = 'x\u{1B}[31m'", 1, 7, "control character U+001B"), ("# \u{7F}", 1, 3, "control character U+007F"),
      ("a = 1\n[\u{FC}]", 2, 2, "character beyond ASCII: put it in quotes"),
      ("[/a]\nb = 1", 1, 2, "/"), ("a = [\n[1]]\n[[ .a]]", 3, 4, "."), ("[]", 1, 2, "]"),
      ("a = 1979-05-27 1\nb = 1", 1, 5, value), ("a = [07:32:00]", 1, 6, value), ("a = x", 1, 5, value),
      ("a: 1", 1, 2, ":"), ("a = 1 b = 2", 1, 7, "b"), ("a = {b = 1,}", 1, 12, "}"), ("[[a] ]", 1, 4, "]"),
      ("a =\n1", 1, 4, "end of the line"), ("a = [1 2]", 1, 8, "2"), ("a = 1,", 1, 6, ","), ("= 1", 1, 1, "="),
      ("[[\n", 1, 3, "end of the line"),
      ("a\u{A0}= 1", 1, 2, "character beyond ASCII: put it in quotes"),
    ])
  func found(text: String, line: Int, column: Int, what: String) {
    let stray = StrayCharacter(message: "unexpected \(what)", line: line, column: column)
    #expect(StrayCharacter.find(in: text) == stray)
    var report = Report()
    #expect(Document.parse(text, file: "f.toml", report: &report) == nil)
    #expect(report.error?.description == "f.toml:\(line):\(column): is no TOML: unexpected \(what)")
  }

  @Test(
    "others are none",
    arguments: [
      "a = [{}]", "a = {}", "a = [{b = 1}, {c = []}]", "a = \"[}\"", "a = '[}'", "a = 1 # [}", "a = [\"}\"]",
      "a = \"\"\"\n[}\"\"\"\"\"", "a = '''\n,}'''", "\"[}\" = 1", "a\t=\t'\t'\t# \t\r\nb = 1\r\n",
      "a = '\u{FC}' # \u{FC}",
      "a = [\n[],\n[[]],\n[ # x\n]]\n[b]", "[ a . 'b' ]", "a-1979-05-27 = 1979\nb = [1, 2e-10, -1]", "[[\"a\"]]",
      "\"\u{FC}\" = 1",
      "a = \"\"\"\r\n\u{FC}\r\n\"\"\"\r\n",
    ])
  func none(text: String) {
    var report = Report()
    #expect(Document.parse(text, file: "f.toml", report: &report) != nil, "\(String(describing: report.error))")
  }
}
