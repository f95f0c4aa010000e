import Testing

@testable import GrantdConfiguration

@Suite struct TOMLDocumentTests {
  enum Step: Sendable {
    case key(String)
    case index(Int)
  }

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

  static let cases: [([Step], Int)] = [
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

  private static func parse(_ text: String) throws -> [String: Item] {
    var report = ConfigurationReport()
    let root = TOMLDocument.parse(text, file: "f.toml", report: &report)
    return try #require(root, "\(String(describing: report.error))")
  }

  private static func line(of path: [Step], in root: [String: Item]) -> Int? {
    var item = Item(value: .table(root), place: FileLocation(file: "f.toml"))
    for step in path {
      switch (step, item.value) {
      case (.key(let key), .table(let table)):
        guard let next = table[key] else { return nil }
        item = next
      case (.index(let index), .list(let list)) where list.indices.contains(index): item = list[index]
      default: return nil
      }
    }
    return item.place.line
  }

  @Test("Every key is found on its line")
  func findsLines() throws {
    let root = try Self.parse(Self.text)
    for (path, line) in Self.cases { #expect(Self.line(of: path, in: root) == line, "\(path)") }
  }

  @Test("Windows line ends and a byte order mark change nothing")
  func carriageReturns() throws {
    let root = try Self.parse("\u{feff}" + Self.text.replacing("\n", with: "\r\n"))
    for (path, line) in Self.cases { #expect(Self.line(of: path, in: root) == line, "\(path)") }
  }

  @Test("A table that others imply has the line of its own header")
  func impliedTable() throws {
    #expect(Self.line(of: [.key("a")], in: try Self.parse("[a.b]\nx = 1\n[a]\ny = 1")) == 3)
  }

  @Test(
    "Values are read as they are written",
    arguments: [
      ("'\u{FC}' # \u{FC}", .text("\u{FC}")), (#""\u00FC""#, .text("\u{FC}")), (#""\U0001F511""#, .text("\u{1F511}")),
      ("\"\"\"\\\n \u{FC}\"\"\"", .text("\u{FC}")), ("'\u{3042}\u{FB26}'", .text("\u{3042}\u{FB26}")),
      (#""a\tb""#, .text("a\tb")), ("''", .text("")), ("-9223372036854775808", .number(.min)),
      ("9_223_372_036_854_775_807", .number(.max)), ("0xff", .number(255)), ("0o17", .number(15)),
      ("0.5", .fraction(0.5)),
      ("-inf", .fraction(-.infinity)), ("false", .flag(false)), ("1979-05-27", .time), ("[]", .list([])),
      ("{}", .table([:])),
    ] as [(String, Item.Value)])
  func readsValues(text: String, value: Item.Value) throws {
    #expect(try Self.parse("a = \(text)")["a"]?.value == value)
  }

  @Test("Nesting has a bound, and is no more than a stack bears")
  func nesting() throws {
    _ = try Self.parse("a = " + String(repeating: "[", count: 32) + String(repeating: "]", count: 32))
    _ = try Self.parse(String(repeating: "a.", count: 15) + "a = 1")
    for text in [
      "a = " + String(repeating: "[", count: 33), "a = " + String(repeating: "[", count: 100_000),
      String(repeating: "a.", count: 16) + "a = 1", "[" + String(repeating: "a.", count: 500_000) + "a]",
      "a = " + String(repeating: "{a = ", count: 33),
    ] {
      #expect(throws: SyntaxError.self) { try TOMLDocument.read(text, file: "f.toml") }
    }
  }

  @Test("Every beginning of a text, and noise, has a tree or an error")
  func alwaysEnds() {
    let bytes = Array(Self.text.utf8)
    for count in stride(from: 0, to: bytes.count, by: 3) { check(String(decoding: bytes[..<count], as: UTF8.self)) }
    var state: UInt64 = 42
    let alphabet = Array("[]{}\"'=.,#\\\nab1 \t\u{FC}".utf8)
    for _ in 0..<2000 {
      let noise = (0..<40).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return alphabet[Int(state >> 33) % alphabet.count]
      }
      check(String(decoding: noise, as: UTF8.self))
    }
  }

  private func check(_ text: String) {
    var report = ConfigurationReport()
    let root = TOMLDocument.parse(text, file: "f.toml", report: &report)
    #expect((root == nil) == (report.error != nil), "\(text.debugDescription)")
  }
}
