import Crypto
import Foundation

/// Markup in which every interpolated text is escaped, as only markup itself is taken as it stands.
struct HTML: Sendable, ExpressibleByStringInterpolation {
  var markup: String

  init(stringLiteral value: String) { markup = value }
  init(stringInterpolation: StringInterpolation) { markup = stringInterpolation.markup }

  struct StringInterpolation: StringInterpolationProtocol {
    var markup = ""

    init(literalCapacity: Int, interpolationCount: Int) {}
    mutating func appendLiteral(_ literal: String) { markup += literal }
    mutating func appendInterpolation(_ html: HTML) { markup += html.markup }
    mutating func appendInterpolation(_ text: some StringProtocol) {
      for character in text.unicodeScalars {
        switch character {
        case "&": markup += "&amp;"
        case "<": markup += "&lt;"
        case ">": markup += "&gt;"
        case "\"": markup += "&quot;"
        case "'": markup += "&#39;"
        default: markup.unicodeScalars.append(character)
        }
      }
    }
  }

  static func + (left: HTML, right: HTML) -> HTML { "\(left)\(right)" }
}

/// A page for a person.
struct Page: Sendable {
  var title: String
  var content: HTML

  var html: HTML {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>\(title)</title>
    <style>\(Self.style)</style>
    </head>
    <body>
    <main>
    \(content)
    </main>
    <footer>grantd demo provider. It runs on this machine only and asks for no password.</footer>
    </body>
    </html>

    """
  }

  /// No scripts, no frames, nothing loaded; the one style sheet is named by its hash.
  static let policy: String = {
    let hash = Data(SHA256.hash(data: Data(style.markup.utf8))).base64EncodedString()
    return "default-src 'none'; style-src 'sha256-\(hash)'; base-uri 'none'; frame-ancestors 'none'"
  }()

  private static let style: HTML = """
    :root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--paper:#fff;--back:#eef1f5;--line:#d0d7de;--act:#0b5fce;\
    --on:#fff;--bad:#a40e26}
    @media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--paper:#161b22;--back:#0d1117;--line:#3d444d;\
    --act:#6cb0ff;--on:#0d1117;--bad:#ff8f8f}}
    *{box-sizing:border-box}
    body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;justify-content:center;\
    gap:1.5rem;padding:1.5rem;background:var(--back);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
    main{width:100%;max-width:26rem;padding:2rem;background:var(--paper);border:1px solid var(--line);border-radius:1rem;\
    box-shadow:0 8px 24px rgb(0 0 0/.08)}
    h1{margin:0 0 .5rem;font-size:1.4rem;line-height:1.25}
    p{margin:.5rem 0 1rem}
    h2{margin:1.25rem 0 .25rem;font-size:1rem}
    ul{margin:0 0 1.25rem;padding-left:1.25rem}
    li{margin:.25rem 0}
    code{overflow-wrap:anywhere}
    label{display:block;margin-bottom:.25rem;font-weight:600}
    input{width:100%;padding:.6rem .75rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--soft);\
    border-radius:.5rem}
    .hint,footer{color:var(--soft);font-size:.875rem}
    .bad{color:var(--bad);font-weight:600}
    .row{display:flex;gap:.75rem;margin-top:1.25rem}
    button{flex:1;padding:.7rem 1rem;font:inherit;font-weight:600;cursor:pointer;border-radius:.5rem;\
    border:1px solid var(--act);background:transparent;color:var(--act)}
    button.yes{background:var(--act);color:var(--on)}
    :focus-visible{outline:3px solid var(--act);outline-offset:2px}
    """
}

extension Response {
  static func page(_ page: Page, status: Int = 200) -> Self {
    Self(
      status: status,
      headers: [
        ("Content-Security-Policy", Page.policy), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
      ],
      body: .text(page.html.markup, type: "text/html; charset=utf-8"))
  }
}
