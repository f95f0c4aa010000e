import Testing

@testable import GrantdConfiguration

@Suite struct SyntaxErrorTests {
  static let value = "value: texts and dates need quotes"
  static let foreign = "character beyond ASCII: put it in quotes"
  static let line = "end of the line"

  private static func complaint(_ text: String) -> String? {
    var report = ConfigurationReport()
    #expect(TOMLDocument.parse(text, file: "f.toml", report: &report) == nil)
    return report.error?.description
  }

  /// Some of them fail an assertion of toml++; which ones, and what else toml++ says, depends on its version.
  @Test(
    "What TOML does not have there is named with its place",
    arguments: [
      ("a = [}", 1, 6, "}"), ("a = [1,\n  # ]\n  }", 3, 3, "}"), ("a = [[[ }]]]", 1, 9, "}"),
      ("x = \"\"\"\n[}\n\"\"\"\na = [ }", 4, 7, "}"), ("x = '\\'\na = [}", 2, 6, "}"),
      ("x = \"\\\"[}\"\na = [\"\",}", 2, 9, "}"), ("a = {b = [}]}", 1, 11, "}"),
      ("[\u{2}a]\nb = 1", 1, 2, "control character U+0002"), ("a = 'x\u{1B}[31m'", 1, 7, "control character U+001B"),
      ("a = \"\u{FC}\u{1}\"", 1, 7, "control character U+0001"), ("# \u{7F}", 1, 3, "control character U+007F"),
      ("a = '\0'", 1, 6, "control character U+0000"), ("a = 1\n[a]\rb = 1", 2, 5, "b, expected '\\n' after '\\r'"),
      ("a = 1\n[\u{FC}]", 2, 2, foreign), ("a\u{A0}= 1", 1, 2, foreign), ("\u{FEFF}\u{FC} = 1", 1, 1, foreign),
      ("a = 1 \u{FC}", 1, 7, foreign), ("a = \u{FC}", 1, 5, value),
      ("[/a]\nb = 1", 1, 2, "/"), ("a = [\n[1]]\n[[ .a]]", 3, 4, "."), ("a: 1", 1, 2, ":, expected '='"),
      ("a = 1 b = 2", 1, 7, "b"), ("a = {b = 1,}", 1, 12, "}"), ("[[a] ]", 1, 5, "space, expected ']'"),
      ("a = [1 2]", 1, 8, "2, expected comma or closing ']'"), ("a = 1,", 1, 6, ","), ("= 1", 1, 1, "="),
      ("a =\n1", 1, 4, line), ("[[\n", 1, 3, line), ("[[\r\n", 1, 3, line), ("a = \"x\nb = 1", 1, 7, line),
      ("a", 1, 2, "end of the file"), ("[a\nb = 1]", 1, 3, line), ("a = [1,\n", 1, 9, "end of the file"),
      ("a = x", 1, 5, value), ("a = token", 1, 6, value), ("a = 10m", 1, 7, value), ("a = 1979-05-32", 1, 15, value),
      ("a = 1979-05-27" + String(repeating: "_", count: 116) + " 07:00:00", 1, 5, value),
    ])
  func names(text: String, line: Int, column: Int, what: String) {
    let complaint = Self.complaint(text) ?? ""
    #expect(complaint.hasPrefix("f.toml:\(line):\(column): is not valid TOML: unexpected \(what)"), "\(complaint)")
  }

  @Test(
    "Other rules are said in words that quote nothing",
    arguments: [
      ("a = 07", "1:7: is not valid TOML: leading zeroes are prohibited"),
      ("a = \"tops3cret\\q\"", "1:16: is not valid TOML: unknown escape sequence …"),
      ("a = 99999999999999999999", "1:25: is not valid TOML: … is not representable "),
      (
        "a = " + String(repeating: "[", count: 33),
        "1:37: is not valid TOML: exceeded maximum nested value depth of 32 "
      ),
      ("\"\"\"a\"\"\" = 1", "1:1: is not valid TOML: multi-line strings are prohibited in keys"),
    ])
  func rules(text: String, complaint: String) {
    let said = Self.complaint(text) ?? ""
    #expect(said.hasPrefix("f.toml:\(complaint)") && !said.contains("s3cret"), "\(said)")
  }

  @Test(
    "A key or table that is there twice is said with both lines",
    arguments: [
      ("a = 1\na = 2", "a", 2, 1), ("[a]\nb = 1\n[c]\n[a]", "a", 4, 1), ("a.b = 1\na.b = 2", "b", 2, 1),
      ("[[a]]\nx = 1\n[[a]]\nx = 2\n x = 3", "x", 5, 4), ("[a]\n[[b]]\n[b.c]\n[b.c]", "c", 4, 3),
      ("[a]\n'x y' = \"\"\"\n\n\"\"\"\n\"x y\" = 1", "x y", 5, 2), ("a = 1\r\na = 2", "a", 2, 1),
      ("[a]\nb = 1\n[a.b] # c", "b", 3, 2), ("a = {}\n[[a]]", "a", 2, 1), ("[[a]]\n[a]", "a", 2, 1),
    ])
  func repeats(text: String, key: String, line: Int, first: Int) {
    #expect(Self.complaint(text) == "f.toml:\(line): \"\(key)\" is set twice: the first is in line \(first)")
  }

  @Test("Of a key that is there twice in an inline table the key is said")
  func repeatsInline() {
    #expect(Self.complaint("x = { y = 1, y = 2 }") == "f.toml:1: \"y\" is set twice")
  }

  @Test("An escaped NUL is refused with its line, in a key too", arguments: ["b = \"\\u0000\"", "\"\\U00000000\" = 1"])
  func escapedNUL(text: String) {
    #expect(Self.complaint("a = 1\n\(text)") == "f.toml:2: has an escaped NUL (\\u0000): remove it")
  }
}
