import TestSupport
import Testing

@testable import Pages

@Suite struct HTMLTests {
  @Test(
    "Interpolated text is escaped",
    arguments: [
      ("a&b<c>d\"e'f", "a&amp;b&lt;c&gt;d&quot;e&#39;f"), ("ü✓ 漢字\n", "ü✓ 漢字 "),
      ("\u{202e}x\u{0}", "\u{fffd}x\u{fffd}"),
      ("<script>", "&lt;script&gt;"),
    ])
  func escaped(text: String, markup: String) {
    let html: HTML = "<p title=\"\(text)\">\(text)</p>"
    #expect(html.markup == "<p title=\"\(markup)\">\(markup)</p>")
  }

  @Test("unsafe characters are replaced, and the others stay or are escaped")
  func unsafeCharacters() {
    for scalar in UnsafeCharacters.all {
      let expected = scalar == "\n" || scalar == "\t" ? "a b" : "a\u{fffd}b"
      #expect(HTML.escaped("a" + String(scalar) + "b", limit: 10) == expected, "\(scalar.value)")
    }
    for scalar in UnsafeCharacters.safe where !"&<>\"'".unicodeScalars.contains(scalar) {
      let text = "a" + String(scalar) + "b"
      let found = HTML.escaped(text, limit: 10)
      #expect(found.unicodeScalars.elementsEqual(text.unicodeScalars), "\(scalar.value)")
    }
  }

  @Test("Markup is not escaped again")
  func nested() {
    let inner: HTML = "<b>\("<")</b>"
    let none: HTML? = nil
    let outer: HTML = "<p>\(inner)\([inner, inner])\(none)\(7)</p>"
    #expect(outer.markup == "<p><b>&lt;</b><b>&lt;</b><b>&lt;</b>7</p>")
  }

  @Test("A long text is cut")
  func limit() {
    let html: HTML = "\(String(repeating: "<", count: 700))"
    #expect(html.markup == String(repeating: "&lt;", count: 600) + "…")
  }

  @Test(
    "Commands between backticks are set as code",
    arguments: [("Run `a <b`.", "Run <code>a &lt;b</code>."), ("One ` alone", "One ` alone")])
  func words(text: String, markup: String) {
    let html: HTML = "\(words: text)"
    #expect(html.markup == markup)
  }

  @Test("A value of a query has only unreserved characters")
  func query() {
    let html: HTML = "?a=\(query: "a&b=c d/é\"")"
    #expect(html.markup == "?a=a%26b%3Dc%20d%2F%C3%A9%22")
  }
}
