import Testing

@testable import GrantdConfiguration

@Suite struct KeyLinesTests {
  static let text = #"""
    top = 1 # [not.a.table]

    [provider."a.b"]
    issuer = "https://x # no comment"
    long = """
    fake = 1
    [fake]
    quotes inside "" and at the end"""""
    literal = '''
    also = 'fake'
    '''
    list = [
      "one", # first
      [2, 3],
      { deep = 1, also.deeper = 2 },
    ]
    inline = { first = 1, second = { third = "}" } }
    dotted.key = true
    date = 1979-05-27 07:32:00
    "esc\"aped\u0041" = 1
    'lit\eral' = 2

    [[rule]]
    name = "one"
    [rule.sub]
    x = 1
    [[rule]]
    name = "two"
    [rule.sub]
    x = 2
    [[rule.inner]]
    y = 1
    [[rule.inner]]
    y = 2
    [ spaced . "table" ]
    end=1
    """#

  static let cases: [([KeyLines.Step], Int)] = [
    ([.key("top")], 1),
    ([.key("provider")], 3),
    ([.key("provider"), .key("a.b")], 3),
    ([.key("provider"), .key("a.b"), .key("issuer")], 4),
    ([.key("provider"), .key("a.b"), .key("long")], 5),
    ([.key("provider"), .key("a.b"), .key("literal")], 9),
    ([.key("provider"), .key("a.b"), .key("list"), .index(0)], 13),
    ([.key("provider"), .key("a.b"), .key("list"), .index(1)], 14),
    ([.key("provider"), .key("a.b"), .key("list"), .index(1), .index(1)], 14),
    ([.key("provider"), .key("a.b"), .key("list"), .index(2), .key("also"), .key("deeper")], 15),
    ([.key("provider"), .key("a.b"), .key("inline"), .key("second"), .key("third")], 17),
    ([.key("provider"), .key("a.b"), .key("dotted"), .key("key")], 18),
    ([.key("provider"), .key("a.b"), .key("date")], 19),
    ([.key("provider"), .key("a.b"), .key("esc\"apedA")], 20),
    ([.key("provider"), .key("a.b"), .key("lit\\eral")], 21),
    ([.key("rule")], 23),
    ([.key("rule"), .index(0)], 23),
    ([.key("rule"), .index(0), .key("sub"), .key("x")], 26),
    ([.key("rule"), .index(1)], 27),
    ([.key("rule"), .index(1), .key("name")], 28),
    ([.key("rule"), .index(1), .key("sub"), .key("x")], 30),
    ([.key("rule"), .index(1), .key("inner"), .index(0), .key("y")], 32),
    ([.key("rule"), .index(1), .key("inner"), .index(1), .key("y")], 34),
    ([.key("spaced"), .key("table"), .key("end")], 36),
  ]

  @Test("Every key is found on its line", arguments: cases)
  func findsLines(path: [KeyLines.Step], line: Int) {
    #expect(KeyLines(Self.text)[path] == line)
  }

  @Test("Windows line ends and a byte order mark change nothing")
  func carriageReturns() {
    let lines = KeyLines("\u{feff}" + Self.text.replacing("\n", with: "\r\n"))
    for (path, line) in Self.cases { #expect(lines[path] == line, "\(path)") }
  }

  @Test("What looks like a key in a string or comment is none")
  func ignoresText() {
    let lines = KeyLines(Self.text)
    #expect(lines[[.key("fake")]] == nil)
    #expect(lines[[.key("not")]] == nil)
    #expect(lines.repeats.isEmpty)
  }

  @Test(
    "A key, table or dotted key that is there twice is found",
    arguments: [
      ("a = 1\na = 2", "a", 2, 1), ("[a]\nb = 1\n[c]\n[a]", "a", 4, 1), ("a.b = 1\na.b = 2", "b", 2, 1),
      ("x = { y = 1, y = 2 }", "y", 1, 1),
    ])
  func findsRepeats(text: String, key: String, line: Int, first: Int) {
    #expect(KeyLines(text).repeats == [KeyLines.Repeat(key: key, line: line, first: first)])
  }

  @Test("A list of tables and a table around another are no repeats")
  func acceptsTables() {
    #expect(KeyLines("[[a]]\nx = 1\n[[a]]\nx = 1\n[b.c]\n[b]\nd = 1\na.x = 1\na.y = 2").repeats.isEmpty)
  }

  @Test("The scanner ends on every beginning of a text, and on noise")
  func alwaysEnds() {
    let bytes = Array(Self.text.utf8)
    for count in stride(from: 0, to: bytes.count, by: 3) {
      _ = KeyLines(String(decoding: bytes[..<count], as: UTF8.self))
    }
    var state: UInt64 = 42
    let alphabet = Array("[]{}\"'=.,#\\\nab1 \t".utf8)
    for _ in 0..<500 {
      let noise = (0..<40).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return alphabet[Int(state >> 33) % alphabet.count]
      }
      _ = KeyLines(String(decoding: noise, as: UTF8.self))
    }
    _ = KeyLines("a = " + String(repeating: "[", count: 10_000))
  }
}
